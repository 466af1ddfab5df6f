"""Cases of the benchmark of replayed compute, drawn at random: no constant was chosen by any of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from random import Random

from ddlbench.devices.step_division import Rates, divided
from ddlbench.network.link import Link
from ddlbench.plan.catalogue import FRAMEWORKS
from ddlbench.protocol.messages import ReplayedStep, Shape, TrainingPoint
from ddlbench.sweep.stagger import Stagger
from ddlbench.workers.common.memory import parameter_bytes
from ddlbench.workers.strategies import STRATEGIES

System = tuple[str, str]  # framework and strategy

SYSTEMS: tuple[System, ...] = tuple(
    (name, strategy)
    for name, framework in FRAMEWORKS.items()
    for strategy in framework.replays
    if strategy != "hierarchical_allreduce"  # its hosts have several workers
)
# Where nothing overlaps if all time passes in the forward pass, so that a step's time follows from rates alone.
EXACT: tuple[System, ...] = (
    ("torch", "ring_allreduce"),
    ("torch", "ring_allreduce_fp16"),
    ("torch", "parameter_server_sync"),
    ("horovod_torch", "ring_allreduce"),
    ("horovod_tensorflow", "ring_allreduce"),
    ("tensorflow", "ring_allreduce"),
)
MODELS = ("alexnet", "vgg16", "vgg19", "resnet50", "resnet152")
IMAGES: Shape = (224, 224, 3)
LINKS = (Link(1000), Link(10000), Link(1000, 5), Link(25000, 0.1))
WORKERS = range(2, 9)
STEPS_MS = (150, 300, 600, 1200)
MOST_BYTES = 2.5e9  # of all workers' gradients, of which frameworks have two to five copies
MOST_COMMUNICATION = 4  # times as long as compute; else a dilated step takes an hour
SMALL_MODELS = ("mlp", "conv1", "conv2", "cnn", "keras_sequential")
SMALL_LINKS = (Link(2000), Link(400), Link(1000, 1), Link(100, 10))
BATCHES = (16, 64, 256)
_RATES = Rates(tflops=15.7, memory_gbytes_per_s=900)  # of a V100, by which a step is divided among layers
_DATA_OF_WIRE = 1448 / 1514  # TCP's data of the frames that are counted


@dataclass(frozen=True)
class Case:
    """What a group of GPUs replays, and on which link each of its hosts is."""

    framework: str
    strategy: str
    model: str
    bandwidth_mbit: float
    latency_ms: float
    workers: int
    step_ms: float

    @property
    def link(self) -> Link:
        """Every host's."""
        return Link(self.bandwidth_mbit, self.latency_ms)

    @property
    def servers(self) -> int:
        """How many hosts have a server and no worker."""
        return STRATEGIES[self.strategy].servers

    def overlapping(self) -> ReplayedStep:
        """Its step, divided among the layers as a GPU's would be."""
        division = divided(self.model, IMAGES, 32, self.step_ms, _RATES)
        return ReplayedStep("gpu", division.forward_ms, division.backward_ms, division.optimizer_ms)

    def forward_only(self) -> ReplayedStep:
        """A step of the same time, all of which passes before any gradient is ready."""
        arrays = len(self.overlapping().backward_ms)
        return ReplayedStep("gpu", self.step_ms, [0.0] * arrays, 0.0)

    def stagger(self, k: float) -> Stagger:
        """How its workers begin at a dilation, and which steps do not count."""
        transfer_s = parameter_bytes(self.model, IMAGES) * 8e-6 / self.bandwidth_mbit
        return Stagger.of_workers(self.strategy, self.workers, k * transfer_s)

    def arithmetic_ms(self) -> float:
        """What the second step takes by its time and the bytes of the busiest link alone."""
        model = parameter_bytes(self.model, IMAGES) * (0.5 if self.strategy.endswith("_fp16") else 1.0)
        sent = 2 * self.workers * model if self.servers else 2 * (self.workers - 1) / self.workers * model
        return self.step_ms + sent * 8e-3 / (self.bandwidth_mbit * _DATA_OF_WIRE)

    def point(self, step: ReplayedStep) -> TrainingPoint:
        """What its workers are told of a step."""
        return TrainingPoint(self.model, IMAGES, "synthetic", 32 * self.workers, 0.01, 0.0, step)

    def least_step_ms(self) -> float:
        """What any step takes at least: its compute, or what passes the busiest link in one direction."""
        directions = 2 if self.servers else 1  # arithmetic has parameters follow gradients
        return max(self.step_ms, (self.arithmetic_ms() - self.step_ms) / directions)

    def __str__(self) -> str:
        system = f"{self.framework} {self.strategy.replace('_', ' ')}"
        return f"{system}, {self.model}, {self.workers} workers, {self.step_ms:g} ms, {self.link}"


@dataclass(frozen=True)
class SmallCase:
    """What two hosts of one core train, or replay as a CPU."""

    model: str
    batch: int  # of each worker
    bandwidth_mbit: float
    latency_ms: float

    @property
    def link(self) -> Link:
        """Every host's."""
        return Link(self.bandwidth_mbit, self.latency_ms)

    def __str__(self) -> str:
        return f"{self.model}, batch {self.batch}, {self.link}"


def drawn(count: int, seed: int, systems: Sequence[System], *, without_latency: bool = False) -> list[Case]:
    """Draw cases.

    Args:
        count: how many of each system.
        seed: of the draw; the same seed gives the same cases.
        systems: frameworks and strategies.
        without_latency: on links that have none.

    Returns:
        The cases, by system.
    """
    random = Random(seed)
    links = [link for link in LINKS if not (without_latency and link.latency_ms)]
    found = []
    for framework, strategy in systems:
        possible = [
            case
            for model, link, workers, step_ms in product(MODELS, links, WORKERS, STEPS_MS)
            if workers * parameter_bytes(model, IMAGES) < MOST_BYTES
            and (
                case := Case(
                    framework, strategy, model, link.bandwidth_mbit, link.latency_ms, workers, step_ms
                )
            )
            and case.arithmetic_ms() < (1 + MOST_COMMUNICATION) * step_ms
        ]
        found += random.sample(possible, count)
    return found


def drawn_small(count: int, seed: int) -> list[SmallCase]:
    """Draw cases of CPUs, no two alike.

    Args:
        count: how many.
        seed: of the draw.

    Returns:
        The cases.
    """
    all_cases = [
        SmallCase(model, batch, link.bandwidth_mbit, link.latency_ms)
        for model in SMALL_MODELS
        for batch in BATCHES
        for link in SMALL_LINKS
    ]
    return Random(seed).sample(all_cases, count)
