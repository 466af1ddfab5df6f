"""A model of TensorFlow's synchronous parameter server: the shared graph, a worker's part and the server's part."""

from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np
import tensorflow as tf

from ddlbench.protocol.messages import (
    Assignment,
    ModelShape,
)
from ddlbench.workers.common.first_weights import initial
from ddlbench.workers.common.layers import Shape
from ddlbench.workers.common.memory import parameter_bytes, refuse
from ddlbench.workers.common.pace import Pace
from ddlbench.workers.tensorflow.group import (
    threads,
)
from ddlbench.workers.tensorflow.models import build, from_keras, to_keras
from ddlbench.workers.tensorflow.training import then

Key = tuple[str, Shape]  # of a model: its name, and the shape of its images

v1 = tf.compat.v1
SERVER = "/job:ps/task:0"
NEVER_LATE = tf.int64.max  # as the step of a gradient: an accumulator drops gradients of steps before its own
HELD = 3  # arrays of the parameters' size at the server, besides received gradients: parameters, velocities, sums


class Meeting:
    """The part of a model's graph that all members build alike: its network, and accumulators and queues on the server.

    Members find what is on the server by its name; each model has its own container of names.

    Args:
        assignment: of this member.
        name: of the model, a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).
    """

    def __init__(self, assignment: Assignment, name: str, shape: Shape) -> None:
        self.name, self.shape = name, shape
        self.graph, self.container = tf.Graph(), "-".join((name, *map(str, shape)))
        task = f"/job:{assignment.role}/task:{assignment.index}"
        self.place = v1.train.replica_device_setter(
            cluster=tf.train.ClusterSpec(assignment.cluster), worker_device=task
        )
        self.options = threads(assignment)
        self.options.device_filters.extend({SERVER, task})  # a session does not wait for other members
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
    """A worker's part of a model: it computes gradients of its images, adds them to the sums, and waits for its token.

    Args:
        assignment: of the worker.
        server: TensorFlow's server in this process.
        pace: of this host.
        meeting: the part of the graph that all members have.
    """

    def __init__(
        self, assignment: Assignment, server: tf.distribute.Server, pace: Pace, meeting: Meeting
    ) -> None:
        network, place = meeting.network, meeting.place
        with meeting.graph.as_default(), meeting.graph.container(meeting.container), v1.device(place):
            self.images = v1.placeholder(tf.float32, (None, *meeting.shape))
            self.labels = v1.placeholder(tf.int64, (None,))
            self.batch_size = v1.placeholder(tf.float32, ())
            before = len(meeting.graph.get_operations())
            outputs = network(self.images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(self.labels, outputs)
            self.loss = tf.reduce_mean(losses)
            gradients = tf.gradients(tf.reduce_sum(losses) / self.batch_size, meeting.variables)
            gradients = then(pace, pace.keep, gradients)
            self.computed = tf.group(gradients)
            added = [
                each.apply_grad(gradient, NEVER_LATE)
                for each, gradient in zip(meeting.sums, gradients, strict=True)
            ]
            # Only the first worker updates BatchNorm's running statistics, as other libraries' first replicas do.
            statistics = [
                operation
                for operation in meeting.graph.get_operations()[before:]
                if operation.type == "AssignSubVariableOp" and assignment.index == 0
            ]
            self.release = meeting.releases[assignment.index].dequeue()
            with tf.control_dependencies([*added, *statistics]):
                self.released = meeting.releases[assignment.index].dequeue()
        self.parameter_count: int = network.count_params()
        self.session = v1.Session(server.target, graph=meeting.graph, config=meeting.options)

    def step(self, images: np.ndarray, labels: np.ndarray, batch_size: int, *, together: bool) -> float:
        """Take one step of synchronous SGD.

        Args:
            images: this worker's, float32, (n, height, width, channels).
            labels: int64, (n,).
            batch_size: images of the global batch.
            together: with the other members; else only the gradients are computed, here alone.

        Returns:
            The mean loss of these images.
        """
        fed = {self.images: images, self.labels: labels, self.batch_size: batch_size}
        loss, _ = self.session.run([self.loss, self.released if together else self.computed], fed)
        return float(loss)


class Held:
    """The server's part of a model: parameters, the step that the sums cause, and the tokens that release the workers.

    Args:
        server: TensorFlow's server in this process.
        meeting: the part of the graph that all members have.
    """

    def __init__(self, server: tf.distribute.Server, meeting: Meeting) -> None:
        self.meeting = meeting
        with meeting.graph.as_default(), meeting.graph.container(meeting.container), tf.device(SERVER):
            self.rate, self.momentum = (v1.placeholder(tf.float32, ()) for _ in range(2))
            self.release = [each.enqueue(True) for each in meeting.releases]
            optimizer = v1.train.MomentumOptimizer(self.rate, self.momentum)
            workers = len(meeting.releases)
            sums = [each.take_grad(workers) for each in meeting.sums]
            descent = optimizer.apply_gradients(zip(sums, meeting.variables, strict=True))
            with tf.control_dependencies([descent]):
                self.descend = [each.enqueue(True) for each in meeting.releases]
            self.begin = v1.variables_initializer([*meeting.network.weights, *optimizer.variables()])
        self.session = v1.Session(server.target, graph=meeting.graph, config=meeting.options)

    def start_again(self, seed: int) -> None:
        """Set parameters, velocities and running statistics as the seed determines them.

        Args:
            seed: of the first parameters.
        """
        fresh = to_keras(initial(self.meeting.name, self.meeting.shape, seed))
        variables = self.meeting.variables
        fed = {each.initializer.inputs[1]: array for each, array in zip(variables, fresh, strict=True)}
        self.session.run(self.begin, fed)

    def train(self, steps: int, rate: float, momentum: float) -> None:
        """Release the workers, and take steps, each when the gradients of all workers have come.

        Args:
            steps: how many.
            rate: the learning rate.
            momentum: of the optimizer; 0 for none.
        """
        self.session.run(self.release)
        for _ in range(steps):
            self.session.run(self.descend, {self.rate: rate, self.momentum: momentum})

    def parameters(self) -> list[np.ndarray]:
        """Read the present parameters, float32, in the canonical order and shapes."""
        return from_keras(self.session.run(self.meeting.variables))

    def copied(self) -> tf.keras.Model:
        """Make a network outside of the graph, with the present parameters and running statistics."""
        network = build(self.meeting.name, self.meeting.shape)
        network.set_weights(self.session.run(self.meeting.network.weights))
        return network


def held(assignment: Assignment, models: Sequence[ModelShape]) -> Iterator[Key]:
    """Find the models that fit into the server's memory: parameters, velocities, sums, and all workers' gradients.

    The server's host has as much memory as the workers' hosts, so the workers leave out the same models.

    Args:
        assignment: of this member.
        models: that will be measured.

    Yields:
        The name and image shape (height, width, channels) of each model that fits.
    """
    for each in models:
        key = each.model, each.image_shape
        with suppress(MemoryError):
            refuse((HELD + assignment.world_size) * parameter_bytes(*key), "the server's parameters take")
            yield key
