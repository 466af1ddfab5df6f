"""What can be asked: a cell of a grid, as far as it decides the time of a step; and a cell with its measured time."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ddlbench.workers.strategies import STRATEGIES, host_total

# Of what a table may say: beyond them it is damaged, and nothing could be computed of it.
LIMITS: Mapping[str, tuple[float, float]] = {
    "workers": (1, 100_000),
    "batch_size": (1, 1e9),
    "latency_ms": (0, 1e5),
    "bandwidth_mbit": (1e-3, 1e7),
    "loss_percent": (0, 100),
    "vcpus": (1e-3, 1e6),
    "step_time_ms": (1e-6, 1e15),
    "time_ms": (1e-6, 1e15),
    "epoch_images": (1, 1e12),
    "epoch_steps": (1, 1e12),
}


@dataclass(frozen=True)
class Cell:
    """A training as far as it decides the time of a step. What a table does not say keeps its default.

    Attributes:
        batch_size: images of a step, of all workers together.
        workers: how many train.
        latency_ms: one way, on what a host sends.
        bandwidth_mbit: of each host's link; None: nothing limits it, or nobody knows.
        loss_percent: packets lost on the way.
        model: its name; one of the catalogue has known sizes.
        image_shape: height x width x channels.
        framework: its name.
        strategy: how workers agree on gradients, a name of the catalogue.
        devices: what computes; where compute is replayed, the device that it is of.
        runtime: what the workers run in.
        vcpus: of each host; None: nobody knows.
        memory_gb: of each host; None: nobody knows.
        host_count: hosts that the study has; None: also one for each server.
    """

    batch_size: float
    workers: int
    latency_ms: float = 0.0
    bandwidth_mbit: float | None = None
    loss_percent: float = 0.0
    model: str = ""
    image_shape: str = ""
    framework: str = ""
    strategy: str = "ring_allreduce"
    devices: str = "cpu"
    runtime: str = "bare"
    vcpus: float | None = None
    host_count: int | None = None
    memory_gb: float | None = None

    @property
    def system(self) -> str:
        """What carries gradients: framework and strategy."""
        return f"{self.framework}/{self.strategy}"

    @property
    def machine(self) -> str:
        """What computes: framework, device and runtime."""
        return f"{self.framework}/{self.devices}/{self.runtime}"

    @property
    def training(self) -> str:
        """What is computed, and by what."""
        return f"{self.machine}/{self.model}/{self.image_shape}"

    @property
    def processors(self) -> float:
        """What computes at once in a host: its vCPUs; one, where another device computes, or nobody knows them."""
        return self.vcpus if self.vcpus and self.devices == "cpu" else 1.0

    @property
    def has_server(self) -> bool:
        """Whether processes besides the workers have the parameters."""
        return self.strategy in STRATEGIES and STRATEGIES[self.strategy].servers > 0

    @property
    def is_alone(self) -> bool:
        """Whether nothing of it travels over a link."""
        return self.workers == 1 and not self.has_server

    @property
    def hosts(self) -> int:
        """How many machines it takes."""
        if self.strategy not in STRATEGIES:
            return self.workers
        most = self.workers + STRATEGIES[self.strategy].servers
        return host_total(self.workers, self.strategy, self.host_count or most)

    def with_workers(self, workers: int) -> "Cell":
        """Ask for another number of workers.

        Args:
            workers: how many.

        Returns:
            The same cell with so many workers; the global batch stays as it is.
        """
        return replace(self, workers=workers)


@dataclass(frozen=True)
class Measured:
    """A measured cell.

    Attributes:
        cell: what was measured.
        time_ms: of a step.
        low_ms: lower bound of the measurement; None: it has none.
        high_ms: its upper bound.
        accuracy_percent: on test images; None: not measured.
        source: where it comes from, for people.
        replayed_ms: what a worker computes in a step, where that is replayed by waiting; None: compute is real.
        epoch_images: of an epoch, by the study; None: it does not say.
        epoch_steps: of an epoch, where the study says these instead.
        origin: what it was measured on or by whom, for people, to stand after "measured"; empty: nobody knows.
    """

    cell: Cell
    time_ms: float
    low_ms: float | None = None
    high_ms: float | None = None
    accuracy_percent: float | None = None
    source: str = ""
    replayed_ms: float | None = None
    epoch_images: float | None = None
    epoch_steps: float | None = None
    origin: str = ""


def within_limits(name: str, value: float) -> float:
    """Check a number of a table.

    Args:
        name: its column; those that LIMITS does not have may hold any number.
        value: the number.

    Returns:
        The number.

    Raises:
        ValueError: it is beyond the limits of its column.
    """
    least, most = LIMITS.get(name, (value, value))
    if not least <= value <= most:
        raise ValueError(f"{name} is {value:g}, expected {least:g} to {most:g}")
    return value
