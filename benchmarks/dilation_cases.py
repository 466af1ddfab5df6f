"""Cases of the benchmark of time dilation: those that constants were chosen by; others, drawn at random, judge."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

from ddlbench.network.link import Link

SYSTEMS = (
    ("torch", "ring_allreduce"),
    ("torch", "parameter_server_sync"),
    ("mxnet", "parameter_server_sync"),
    ("tensorflow", "ring_allreduce"),
    ("horovod_torch", "ring_allreduce"),
)
MODELS = ("mlp", "conv1", "conv2", "cnn", "keras_sequential")
BANDWIDTHS_MBIT = (100, 200, 400, 1000, 2000)
LATENCIES_MS = (0, 1, 5, 20)


@dataclass(frozen=True)
class Case:
    """What is trained, and on which link."""

    framework: str
    strategy: str
    model: str
    bandwidth_mbit: float
    latency_ms: float

    @property
    def system(self) -> tuple[str, str]:
        """Framework and strategy."""
        return self.framework, self.strategy

    @property
    def link(self) -> Link:
        """Every host's."""
        return Link(self.bandwidth_mbit, self.latency_ms)

    def __str__(self) -> str:
        return f"{self.framework} {self.strategy.replace('_', ' ')}, {self.model}, {self.link}"


# Fillers, their turns and slices were chosen by these (docs/networks.md, 'Shares of a core').
CHOOSING = tuple(
    Case("torch", "ring_allreduce", model, *link)
    for model, link in product(("mlp", "conv1", "conv2"), ((400, 0), (2000, 0), (100, 10), (1000, 1)))
)


def judging(count: int, seed: int, systems: Sequence[tuple[str, str]] = SYSTEMS) -> list[Case]:
    """Draw cases that are not among those of CHOOSING, each system as often as the others.

    Args:
        count: how many.
        seed: of the draw; the same seed gives the same cases.
        systems: frameworks and strategies.

    Returns:
        The cases, by system.
    """
    random = Random(seed)
    found: list[Case] = []
    for number, system in enumerate(random.sample(systems, len(systems))):
        of_system = [
            case
            for model, bandwidth_mbit, latency_ms in product(MODELS, BANDWIDTHS_MBIT, LATENCIES_MS)
            if (case := Case(*system, model, bandwidth_mbit, latency_ms)) not in CHOOSING
        ]
        found += random.sample(of_system, len(range(number, count, len(systems))))
    return found
