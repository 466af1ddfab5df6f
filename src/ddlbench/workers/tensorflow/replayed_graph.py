"""TensorFlow's graphs of workers whose compute is replayed: operations that take a device's time, and what they send.

An operation that takes time is a Python function in the graph; what comes after it depends on it. It holds one of the
threads in which TensorFlow runs operations, so there must be two at least. Gradients are variables that nobody writes,
which TensorFlow reads without a copy.
"""

from collections.abc import Callable, Mapping, Sequence

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


def backward(compute: ReplayedCompute, variables: Sequence[tf.Variable]) -> list[tf.Tensor]:
    """Make the operations of a backward pass.

    Args:
        compute: takes the time.
        variables: that have the gradients, in the canonical order.

    Returns:
        The gradients in the same order; each is there when its time has passed, those of the last arrays first.
    """

    def takes(place: int) -> tf.Operation:
        return tf.numpy_function(lambda: compute.backward(range(place, place + 1)), [], [], stateful=True)

    gradients: list[tf.Tensor] = []
    ready: list[tf.Operation] = []
    for place in reversed(range(len(variables))):
        with tf.control_dependencies(ready):
            ready = [takes(place)]
        with tf.control_dependencies(ready):
            gradients.append(variables[place].read_value())
    return gradients[::-1]


class RingModel:
    """The gradients of a model, and a step in which all workers add theirs up.

    Args:
        assignment: of this worker.
        add_up: makes the operations by which a framework adds up gradients over all workers, in a graph.
        name: of a model in `architectures`.
        shape: of an image, (height, width, channels).
        strategy: of TensorFlow, as a replica of which this worker adds up; None: it is none.
    """

    def __init__(
        self,
        assignment: Assignment,
        add_up: Callable[[list[tf.Tensor]], Sequence[tf.Tensor]],
        name: str,
        shape: Shape,
        strategy: tf.distribute.Strategy | None = None,
    ) -> None:
        self.assignment, self.add_up, self.strategy = assignment, add_up, strategy
        shapes = list(parameter_shapes(name, shape))
        self.gradients = [tf.Variable(tf.zeros(each), trainable=False) for each in shapes]
        self.compute = ReplayedCompute(len(shapes))
        self.parameter_count = sum(int(np.prod(each)) for each in shapes)
        self.ends: list[list[float]] = [[0.0, 0.0]] * len(shapes)

    def warm_up(self) -> None:
        """Make the first steps, which take no device's time: TensorFlow makes its graph, and TCP's windows grow."""
        self.compute.take(self.assignment, None)
        for _ in range(FIRST_STEPS):
            self.step()

    def start_again(self) -> None:
        """Fill all gradients with this worker's value."""
        for each in self.gradients:
            each.assign(tf.fill(each.shape, own_value(self.assignment)))

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
        sums = self.add_up(backward(self.compute, self.gradients))
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
