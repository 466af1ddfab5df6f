"""How much memory a process of a worker group takes at most, predicted from its model alone.

That is the process with its framework; copies of parameters: weights, gradients, velocities, and what is sent and
received; the data set; and the activations of a step (see `step_memory`). Where copies follow from how a framework
works, the comment says so; the rest was chosen by measuring models other than those that judge the prediction
(`python -m benchmarks.memory --models choosing`). docs/accuracy.md has what the others said.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from ddlbench.workers.common.footprint.heap import Block, Heap
from ddlbench.workers.common.footprint.step_memory import Habits, Step
from ddlbench.workers.common.memory import parameter_bytes
from ddlbench.workers.common.models.architectures import layers
from ddlbench.workers.common.models.layers import Shape

_STEPS = 3  # the third one finds the heap as the second has left it
_MIB = 2**20


@dataclass(frozen=True)
class Training:
    """A training point, as far as memory goes.

    Attributes:
        model: a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).
        images: of a worker, in a step.
        workers: how many there are.
        models: all models of the group with the shapes of their images; it holds them all.
        has_momentum: whether there are velocities.
        data_bytes: of the data set, which each worker holds.
    """

    model: str
    shape: Shape
    images: int
    workers: int
    models: tuple[tuple[str, Shape], ...]
    has_momentum: bool
    data_bytes: int


@dataclass(frozen=True)
class Footprint:
    """What a process holds; copies are in units of a model's parameters.

    Attributes:
        base_mib: the process with its framework and connections.
        held: copies of each model of the group, once all are connected.
        connecting: more copies of the largest model, while the group connects.
        stepping: more copies of the model that is trained.
        velocities: copies that momentum adds.
        of_workers: copies for each worker.
        batches: copies of a batch besides that of the step.
        habits: how activations are held; None: the process computes none.
        holds_data: the process holds the data set, though it computes no activations.
    """

    base_mib: float
    held: float = 1.0
    connecting: float = 0.0
    stepping: float = 0.0
    velocities: float = 0.0
    of_workers: float = 0.0
    batches: float = 1.0
    habits: Habits | None = None
    holds_data: bool = False


_TORCH = Habits(pool_index_bytes=8, reorders=True)
_TENSORFLOW = Habits(reorders=True, pads=True)
_MXNET = Habits(pool_index_bytes=8)

FOOTPRINTS: Mapping[tuple[str, str], Footprint] = {  # worker, role
    # Weights, DDP's buckets and gradients; four times the largest model, summed by Gloo, widens TCP's windows.
    ("torch", "worker"): Footprint(275, held=3, connecting=10, stepping=4, velocities=1, habits=_TORCH),
    ("torch_parameter_server", "worker"): Footprint(250, held=1, connecting=2, stepping=2, habits=_TORCH),
    ("torch_parameter_server", "server"): Footprint(250, held=0, stepping=2, velocities=1, of_workers=1),
    ("tensorflow", "worker"): Footprint(310, held=4, connecting=8, habits=_TENSORFLOW),
    ("tensorflow_parameter_server", "worker"): Footprint(310, held=0, stepping=2, habits=_TENSORFLOW),
    ("tensorflow_parameter_server", "ps"): Footprint(245, held=2, stepping=4, of_workers=1),
    # The coordinator tests the model, and so has the data set.
    ("tensorflow_parameter_server", "chief"): Footprint(250, held=1, stepping=2.5, holds_data=True),
    ("tensorflow_parameter_server_sync", "worker"): Footprint(310, held=1, stepping=1.5, habits=_TENSORFLOW),
    ("tensorflow_parameter_server_sync", "ps"): Footprint(
        260, held=3, connecting=7.5, stepping=2, of_workers=1
    ),
    ("horovod_torch", "worker"): Footprint(
        300, held=2, connecting=12, stepping=6, velocities=1, habits=_TORCH
    ),
    ("horovod_tensorflow", "worker"): Footprint(310, held=5, connecting=12, stepping=1, habits=_TENSORFLOW),
    ("mxnet_parameter_server", "worker"): Footprint(120, held=4, batches=3, habits=_MXNET),
    ("mxnet_parameter_server", "server"): Footprint(80, held=3, velocities=1, of_workers=1),
    ("mxnet_parameter_server", "scheduler"): Footprint(70, held=0),
}


def process_bytes(worker: str, role: str, training: Training) -> int:
    """Predict how much memory a process takes at most.

    Args:
        worker: a name of `workers.modules.MODULES`.
        role: of the process in its group.
        training: what it trains.

    Returns:
        Resident bytes.
    """
    of = FOOTPRINTS[worker, role]
    return int(of.base_mib * _MIB) + heap_bytes(of, training)


@cache
def heap_bytes(of: Footprint, training: Training) -> int:
    """Predict what a process takes besides what it takes to be there: its life until the third step, on a heap.

    Args:
        of: how it holds models.
        training: what it trains.

    Returns:
        Bytes.
    """
    heap = Heap()
    size = parameter_bytes(training.model, training.shape)
    for each in training.models:
        heap.new(of.held * parameter_bytes(*each))
    heap.drop(heap.new(of.connecting * max(parameter_bytes(*each) for each in training.models)))
    if of.habits or of.holds_data:
        heap.new(training.data_bytes)
    batch: Block | None = None
    gradients: list[Block] = []
    for number in range(_STEPS):
        step = Step(heap, of.habits or Habits(), training.images if of.habits else 0)
        if of.habits:
            batch, before = heap.new(of.batches * step.bytes(training.shape)), batch
            heap.drop(*[before] if before else [], *gradients)
            step.run(layers(training.model, training.shape), training.shape)
        gradients = step.gradients
        if number == 0:
            heap.new(of.velocities * training.has_momentum * size)
        heap.drop(heap.new(of.stepping * size), heap.new(of.of_workers * training.workers * size))
    return heap.highest
