"""A link: what a host's connection can carry."""

from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Link:
    """A host's connection: `bandwidth_mbit` in Mbit/s, `latency_ms` one way, `loss_percent` of what the host sends."""

    bandwidth_mbit: float
    latency_ms: float = 0.0
    loss_percent: float = 0.0

    def dilated(self, factor: float) -> "Link":
        """The link as it is made when time runs `factor` times slower: less bandwidth, more latency, equal loss."""
        return Link(self.bandwidth_mbit / factor, self.latency_ms * factor, self.loss_percent)

    def as_dict(self) -> dict[str, float]:
        """The three numbers by name."""
        return asdict(self)

    def __str__(self) -> str:
        return f"{self.bandwidth_mbit:g} Mbit/s, {self.latency_ms:g} ms, {self.loss_percent:g} % loss"
