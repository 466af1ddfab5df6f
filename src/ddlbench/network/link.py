"""A link: what a host's connection, or one direction between two sites, can carry."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Link:
    """What a connection can carry.

    Attributes:
        bandwidth_mbit: in Mbit/s.
        latency_ms: one way.
        loss_percent: the share of packets that get lost.
        jitter_ms: by how much a packet takes less or more than the latency at most; all values between are equally
            likely. Packets stay in order, so one that closely follows a late packet is late too.
    """

    bandwidth_mbit: float
    latency_ms: float = 0.0
    loss_percent: float = 0.0
    jitter_ms: float = 0.0

    def dilated(self, factor: float) -> "Link":
        """Scale the link to hosts whose time runs slower: less bandwidth, more latency, the same loss.

        Args:
            factor: how many times slower time runs.

        Returns:
            The link as it is made.
        """
        return Link(
            self.bandwidth_mbit / factor,
            self.latency_ms * factor,
            self.loss_percent,
            self.jitter_ms * factor,
        )

    @property
    def is_lossy(self) -> bool:
        """Whether packets get lost."""
        return self.loss_percent > 0

    def as_dict(self) -> dict[str, float]:
        """Return the numbers by name; jitter only if there is some."""
        numbers = asdict(self)
        return numbers if self.jitter_ms else {key: numbers[key] for key in numbers if key != "jitter_ms"}

    def __str__(self) -> str:
        jitter = f" +- {self.jitter_ms:g}" if self.jitter_ms else ""
        return f"{self.bandwidth_mbit:g} Mbit/s, {self.latency_ms:g}{jitter} ms, {self.loss_percent:g} % loss"
