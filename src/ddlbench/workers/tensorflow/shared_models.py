"""A model of TensorFlow's synchronous parameter server: the common graph, a worker's part and the server's part."""

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from ddlbench.protocol.messages import (
    Assignment,
    ModelShape,
)
from ddlbench.workers.common.memory import parameter_bytes
from ddlbench.workers.common.models.first_weights import initial
from ddlbench.workers.common.models.layers import Shape
from ddlbench.workers.tensorflow.group import (
    threads,
)
from ddlbench.workers.tensorflow.models import build, from_keras, to_keras

Key = tuple[str, Shape]  # of a model: name, and image shape

v1 = tf.compat.v1
SERVER = "/job:ps/task:0"
NEVER_LATE = tf.int64.max  # the step number of a gradient: no accumulator drops it as stale
COPIES_ON_SERVER = 3  # besides the gradients that arrive: parameters, velocities, sums of gradients


class SharedGraph:
    """The part of a model's graph that all members have: the network, and its accumulators and queues on the server.

    Sessions of all members share variables, accumulators and queues on the server by name. Each model has a container
    of its own, so that their names do not clash.

    Args:
        assignment: Of this process; its role and index say where its operations run.
        name: Of a model in `architectures`.
        shape: Of an image: height, width, channels.
    """

    def __init__(self, assignment: Assignment, name: str, shape: Shape) -> None:
        self.name, self.shape = name, shape
        self.graph = tf.Graph()
        self.container = "-".join((name.replace("_", "-"), *map(str, shape)))  # it may have no underscore
        task = f"/job:{assignment.role}/task:{assignment.index}"
        self.place = v1.train.replica_device_setter(
            cluster=tf.train.ClusterSpec(assignment.cluster), worker_device=task
        )
        self.options = threads(assignment)
        self.options.device_filters.extend({SERVER, task})  # a session waits for no other member
        self.options.operation_timeout_in_ms = int(1000 * assignment.timeout_s)
        with self.graph.as_default(), self.graph.container(self.container), v1.device(self.place):
            self.network = build(name, shape)
        self.variables = self.network.trainable_variables
        with self.graph.as_default(), self.graph.container(self.container), tf.device(SERVER):
            self.sums = [
                v1.ConditionalAccumulator(
                    tf.float32, each.shape, shared_name=f"sum{number}", reduction_type="SUM"
                )
                for number, each in enumerate(self.variables)
            ]
            self.releases = [
                tf.queue.FIFOQueue(2, tf.bool, [()], shared_name=f"release{worker}")
                for worker in range(assignment.world_size)
            ]


class Replica:
    """A worker's part of a model: it computes gradients, adds them to the server's sums, and waits for its release.

    Args:
        assignment: Of this worker.
        server: TensorFlow's server in this process, which runs the session.
        shared: The graph to which it adds its part.
    """

    def __init__(self, assignment: Assignment, server: tf.distribute.Server, shared: SharedGraph) -> None:
        network, place = shared.network, shared.place
        with shared.graph.as_default(), shared.graph.container(shared.container), v1.device(place):
            self.images = v1.placeholder(tf.float32, (None, *shared.shape))
            self.labels = v1.placeholder(tf.int64, (None,))
            self.batch_size = v1.placeholder(tf.float32, ())
            before = len(shared.graph.get_operations())
            outputs = network(self.images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(self.labels, outputs)
            self.loss = tf.reduce_mean(losses)
            gradients = tf.gradients(tf.reduce_sum(losses) / self.batch_size, shared.variables)
            self.computed = tf.group(gradients)
            added = [
                each.apply_grad(gradient, NEVER_LATE)
                for each, gradient in zip(shared.sums, gradients, strict=True)
            ]
            # Only the first worker updates the running statistics of BatchNorm, as other libraries test the first's.
            statistics = [
                operation
                for operation in shared.graph.get_operations()[before:]
                if operation.type == "AssignSubVariableOp" and assignment.index == 0
            ]
            self.release = shared.releases[assignment.index].dequeue()
            with tf.control_dependencies([*added, *statistics]):
                self.released = shared.releases[assignment.index].dequeue()
        self.parameter_count: int = network.count_params()
        self.session = v1.Session(server.target, graph=shared.graph, config=shared.options)

    def step(self, images: np.ndarray, labels: np.ndarray, batch_size: int, *, together: bool) -> float:
        """Make one step of synchronous SGD.

        Args:
            images: Of this worker: (images, height, width, channels), float32.
            labels: (images,), int64.
            batch_size: Images of all workers together, by which the gradients are divided.
            together: False: compute gradients only, and send nothing.

        Returns:
            The mean loss of these images in nats.
        """
        fed = {self.images: images, self.labels: labels, self.batch_size: batch_size}
        loss, _ = self.session.run([self.loss, self.released if together else self.computed], fed)
        return float(loss)


class ServerPart:
    """The server's part of a model: the parameters, the optimizer that applies the sums, and the workers' releases.

    Args:
        server: TensorFlow's server in this process, which runs the session.
        shared: The graph to which it adds its part.
    """

    def __init__(self, server: tf.distribute.Server, shared: SharedGraph) -> None:
        self.shared = shared
        with shared.graph.as_default(), shared.graph.container(shared.container), tf.device(SERVER):
            self.rate, self.momentum = (v1.placeholder(tf.float32, ()) for _ in range(2))
            self.release = [each.enqueue(True) for each in shared.releases]
            optimizer = v1.train.MomentumOptimizer(self.rate, self.momentum)
            workers = len(shared.releases)
            sums = [each.take_grad(workers) for each in shared.sums]
            descent = optimizer.apply_gradients(zip(sums, shared.variables, strict=True))
            with tf.control_dependencies([descent]):
                self.descend = [each.enqueue(True) for each in shared.releases]
            self.begin = v1.variables_initializer([*shared.network.weights, *optimizer.variables()])
        self.session = v1.Session(server.target, graph=shared.graph, config=shared.options)

    def start_again(self, seed: int) -> None:
        """Set the parameters to the seed's first weights, and reset velocities and running statistics.

        Args:
            seed: Of the first weights.
        """
        fresh = to_keras(self.first_weights(seed))
        variables = self.shared.variables
        fed = {each.initializer.inputs[1]: array for each, array in zip(variables, fresh, strict=True)}
        self.session.run(self.begin, fed)

    def first_weights(self, seed: int) -> Iterable[np.ndarray]:
        """Draw the seed's first weights.

        Args:
            seed: Of the first weights.

        Returns:
            One array for each parameter, in the canonical order and axes.
        """
        return initial(self.shared.name, self.shared.shape, seed)

    def train(self, steps: int, rate: float, momentum: float) -> None:
        """Release the workers, then take steps, each once the gradients of all workers have arrived.

        Args:
            steps: How many; 0: only release the workers.
            rate: The learning rate.
            momentum: Of SGD, from 0 to 1.
        """
        self.session.run(self.release)
        for _ in range(steps):
            self.session.run(self.descend, {self.rate: rate, self.momentum: momentum})

    def parameters(self) -> list[np.ndarray]:
        """Fetch the current parameters, in the canonical order and axes (see `models.from_keras`)."""
        return from_keras(self.session.run(self.shared.variables))

    def copied(self) -> tf.keras.Model:
        """Copy the network, with its current parameters and running statistics, out of the graph."""
        network = build(self.shared.name, self.shared.shape)
        network.set_weights(self.session.run(self.shared.network.weights))
        return network


def models_that_fit(assignment: Assignment, models: Sequence[ModelShape]) -> Iterator[Key]:
    """Find the models whose server fits into memory: parameters, velocities, and the gradients of all workers.

    All members leave out the same models, as each knows how much memory the server may use.

    Args:
        assignment: Of this process; it has that memory, and the number of workers.
        models: That will be measured.

    Yields:
        Model name and image shape (height, width, channels) of each model that fits.
    """
    for each in models:
        key = each.model, each.image_shape
        if (COPIES_ON_SERVER + assignment.world_size) * parameter_bytes(*key) <= assignment.server_bytes:
            yield key
