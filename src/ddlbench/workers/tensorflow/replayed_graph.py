"""TensorFlow's graphs of workers whose compute is replayed: operations that take a device's time, and what they send.

An operation that takes time is a Python function in the graph; what comes after it depends on it. It holds one of the
threads in which TensorFlow runs operations, so there must be two at least.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import prod
from mmap import mmap

import numpy as np
import tensorflow as tf

from ddlbench.protocol.messages import Assignment, Shape
from ddlbench.workers.common.replay.arrays import check, own_value, parameter_shapes, sum_of_values
from ddlbench.workers.common.replay.compute import ReplayedCompute

FIRST_STEPS = 4  # enough for TCP's windows to grow on a slow link
_LEAST_THREADS = 2


def keep_a_thread_free(assignment: Assignment) -> None:
    """Let TensorFlow run operations while one of them waits; to be called before it has started any thread.

    Args:
        assignment: of this process.
    """
    tf.config.threading.set_inter_op_parallelism_threads(max(_LEAST_THREADS, assignment.threads))


class Gradients:
    """The gradients of a worker: nobody writes them, so that those of all its models share the memory of the largest.

    Args:
        assignment: of the worker, whose value fills them.
    """

    def __init__(self, assignment: Assignment) -> None:
        self.value = own_value(assignment)
        self.filled = np.empty(0, np.float32)

    def hold(self, shapes: Iterable[tuple[int, ...]]) -> None:
        """Take the memory of the largest gradient.

        Args:
            shapes: of gradients.
        """
        elements = max(map(prod, shapes))
        if elements > self.filled.size:  # on a page of its own: TensorFlow copies arrays that begin elsewhere
            self.filled = np.frombuffer(mmap(-1, elements * self.filled.itemsize), np.float32)
            self.filled.fill(self.value)

    def of(self, shape: tuple[int, ...]) -> np.ndarray:
        """Look at the memory as one of them.

        Args:
            shape: of a gradient that is held.

        Returns:
            The gradient, which is not to be written.
        """
        return self.filled[: prod(shape)].reshape(shape)


def backward(
    compute: ReplayedCompute, gradients: Gradients, shapes: Sequence[tuple[int, ...]]
) -> list[tf.Tensor]:
    """Make the operations of a backward pass.

    Args:
        compute: takes the time.
        gradients: of the worker.
        shapes: of the model's, in the canonical order.

    Returns:
        The gradients in the same order; each is there when its time has passed, those of the last arrays first.
    """
    gradients.hold(shapes)

    def ready(place: int) -> np.ndarray:
        compute.backward(range(place, place + 1))
        return gradients.of(shapes[place])

    made: list[tf.Tensor] = []
    for place in reversed(range(len(shapes))):
        with tf.control_dependencies(made[-1:]):
            made.append(tf.numpy_function(partial(ready, place), [], tf.float32, stateful=True))
        made[-1].set_shape(shapes[place])
    return made[::-1]


class RingModel:
    """A model, and a step in which all workers add its gradients up.

    Args:
        assignment: of this worker.
        gradients: of this worker.
        add_up: makes the operations by which a framework adds up gradients over all workers, in a graph.
        name: of a model in `architectures`.
        shape: of an image, (height, width, channels).
        strategy: of TensorFlow, as a replica of which this worker adds up; None: it is none.
    """

    def __init__(
        self,
        assignment: Assignment,
        gradients: Gradients,
        add_up: Callable[[list[tf.Tensor]], Sequence[tf.Tensor]],
        name: str,
        shape: Shape,
        strategy: tf.distribute.Strategy | None = None,
    ) -> None:
        self.assignment, self.gradients = assignment, gradients
        self.add_up, self.strategy = add_up, strategy
        self.shapes = list(parameter_shapes(name, shape))
        self.compute = ReplayedCompute(len(self.shapes))
        self.parameter_count = sum(map(prod, self.shapes))
        self.ends: list[list[float]] = [[0.0, 0.0]] * len(self.shapes)

    def warm_up(self) -> None:
        """Make the first steps, which take no device's time: TensorFlow makes its graph, and TCP's windows grow."""
        self.compute.take(self.assignment, None)
        for _ in range(FIRST_STEPS):
            self.step()

    def start_again(self) -> None:
        """Do nothing: gradients stay as they are."""

    def step(self) -> None:
        """Replay one step of synchronous SGD."""
        self.compute.forward()
        self.backward_and_add_up()
        self.compute.optimizer()

    @tf.function
    def backward_and_add_up(self) -> None:
        """Make both as a graph."""
        if self.strategy:
            self.strategy.run(self.replica)
        else:
            self.replica()

    def replica(self) -> None:
        """Take the backward pass's time, and add up. TensorFlow leaves out what nobody reads, so the sums are read."""
        sums = self.add_up(backward(self.compute, self.gradients, self.shapes))
        tf.numpy_function(self._note, list(sums), [], stateful=True)

    def _note(self, *sums: np.ndarray) -> None:
        """Note where sums begin and end, which copies nothing."""
        self.ends = [ends_of(each) for each in sums]

    def parts(self) -> Mapping[str, float]:
        """Return nothing: TensorFlow does not say when it communicates."""
        return {}

    def check(self) -> None:
        """Check the last step's sums.

        Raises:
            RuntimeError: they are not those of all workers' gradients.
        """
        by_all = sum_of_values(self.assignment.world_size)
        check("sum", self.ends, by_all, by_all)


def ends_of(array: np.ndarray) -> list[float]:
    """Read the first and the last element of an array.

    Args:
        array: of any shape.

    Returns:
        Both.
    """
    return [float(array.flat[0]), float(array.flat[-1])]
