"""A TensorFlow worker: synchronous data-parallel training (MultiWorkerMirroredStrategy) in a ring over gRPC, or NCCL.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.tensorflow.ring_allreduce

It receives commands over the control socket (see `protocol.messages`):
    connect  make the models, all workers alike, while the links are open
    prepare  take a point: fresh parameters, its batches; a step without communication shows whether it fits
    train    some steps, each timed
    conclude hash the parameters and, if asked, evaluate the test set
    stop

The loop is our own: Keras' `fit` takes a tenth to a third longer with small models, and times no steps. TensorFlow
sends all gradients as one, as is its default, and so begins when the backward pass has ended; nothing overlaps.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # so that an error is in the log's last lines

import tensorflow as tf

from ddlbench.protocol.messages import Assignment, Connect, Connected
from ddlbench.workers.common.devices import on_gpu
from ddlbench.workers.common.layers import Shape
from ddlbench.workers.common.memory import used_bytes
from ddlbench.workers.common.pace import Pace
from ddlbench.workers.common.service import work
from ddlbench.workers.tensorflow.gpu import versions, why_not
from ddlbench.workers.tensorflow.group import resolver
from ddlbench.workers.tensorflow.training import Learner, RingWorker, then


class Model:
    """A model of the group and the step that trains it, the same at all its points.

    Args:
        strategy: that mirrors the model over the workers.
        pace: of this host.
        name: of the model, a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).
    """

    def __init__(self, strategy: tf.distribute.Strategy, pace: Pace, name: str, shape: Shape) -> None:
        self.strategy, self.pace = strategy, pace
        with strategy.scope():
            self.learner = Learner(name, shape)

    def make_step(
        self, images: tf.Tensor, labels: tf.Tensor, batch_size: int, *, together: bool
    ) -> tf.Tensor:
        """Take one step of synchronous SGD.

        Args:
            images: this worker's, float32, (n, height, width, channels).
            labels: int64, (n,).
            batch_size: images of the global batch.
            together: with the other workers; else only the gradients are computed, here alone.

        Returns:
            The mean loss of these images, a scalar.
        """
        return self.step(images, labels, batch_size, tf.constant(together))

    @tf.function
    def step(self, images: tf.Tensor, labels: tf.Tensor, batch_size: int, together: tf.Tensor) -> tf.Tensor:
        """Take a step as a graph, which TensorFlow compiles at the first call with each size of a batch.

        Args:
            images: this worker's, float32, (n, height, width, channels).
            labels: int64, (n,).
            batch_size: images of the global batch.
            together: as of `make_step`, a boolean scalar, so that one graph serves both.

        Returns:
            The mean loss of these images, a scalar.
        """
        loss, gradients = self.strategy.run(self.backward, (images, labels, batch_size))
        if together:
            self.strategy.run(self.update, (gradients,))
        return loss

    def backward(
        self, images: tf.Tensor, labels: tf.Tensor, batch_size: int
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Compute the loss of these images, and their part of the gradients of the global batch's mean loss.

        Args:
            images: this worker's, float32, (n, height, width, channels).
            labels: int64, (n,).
            batch_size: images of the global batch.

        Returns:
            The mean loss of these images, a scalar, and the gradients in the canonical order, with Keras' axes.
        """
        with tf.GradientTape() as tape:
            losses = self.learner.losses(images, labels)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=batch_size)
        return tf.reduce_mean(losses), tape.gradient(loss, self.learner.network.trainable_variables)

    def update(self, gradients: list[tf.Tensor]) -> None:
        """Add up the workers' gradients and take the optimizer's step.

        It first waits until the host's share of a core would have computed the gradients.

        Args:
            gradients: this worker's, in the canonical order, with Keras' axes.
        """
        gradients = then(self.pace, self.pace.keep, gradients)
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        self.learner.descend(then(self.pace, self.pace.begin, gradients))


class Worker(RingWorker):
    """One worker of the group."""

    strategy: tf.distribute.Strategy

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        self.strategy = join(assignment)
        self.used_bytes = used_bytes()  # joining took some

    def connect(self, command: Connect) -> Connected:
        """Make the models that will be measured, and let TCP's windows grow.

        Args:
            command: these models.

        Returns:
            That it is done.
        """
        for each in command.models:
            key = each.model, each.image_shape
            self.models[key] = Model(self.strategy, self.pace, *key)
        largest = self.largest()
        for _ in range(4):
            self.widen(largest)
        # All workers refuse a point or none does. TensorFlow numbers collectives when a worker traces a step; a worker
        # that has traced one more step than the others would wait for ever.
        self.used_bytes = int(self.mean_over_workers(tf.constant([float(self.used_bytes)]))[0])
        return Connected()

    @tf.function
    def widen(self, largest: int) -> None:
        """Send as much as training will, so that TCP's windows grow; on a slow link this would take many steps.

        Args:
            largest: parameters of the largest model.
        """

        def send() -> None:
            tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.zeros(largest))

        self.strategy.run(send)

    @tf.function
    def mean_over_workers(self, value: tf.Tensor) -> tf.Tensor:
        """Average a number over the workers.

        Args:
            value: this worker's, (1,).

        Returns:
            The mean, (1,), the same on all workers.
        """

        def reduce() -> tf.Tensor:
            return tf.distribute.get_replica_context().all_reduce(
                tf.distribute.ReduceOp.MEAN, value + tf.zeros(1)
            )

        return self.strategy.run(reduce)


def join(assignment: Assignment) -> tf.distribute.Strategy:
    """Start this worker's server and connect it to the others', over gRPC or, between GPUs, over NCCL.

    Args:
        assignment: of this worker.

    Returns:
        The strategy that mirrors models over the workers.
    """
    implementations = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=implementations.NCCL if on_gpu(assignment) else implementations.RING
    )
    return tf.distribute.MultiWorkerMirroredStrategy(resolver(assignment, "worker"), options)


def main(address: str, rank: int) -> None:
    """Serve the supervisor until it sends Stop.

    Args:
        address: of the control socket.
        rank: of this member.
    """
    work(address, rank, Worker, versions, reconnects=False, why_not=why_not)
