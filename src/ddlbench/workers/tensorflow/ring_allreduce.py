"""A TensorFlow worker: synchronous data-parallel training (MultiWorkerMirroredStrategy) in a ring over gRPC, or NCCL.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.tensorflow.ring_allreduce

It receives commands over the control socket (see `protocol.messages`):
    connect  make the models, all workers alike, while the links are open
    prepare  take a point: fresh parameters, its batches; a step without communication shows whether memory suffices
    train    some steps, each timed
    conclude hash the parameters and, if asked, evaluate the test set
    stop     end

The loop is our own: Keras' `fit` takes a tenth to a third longer with small models, and times no steps. By default
TensorFlow sends all gradients as one, after the backward pass; communication does not overlap with computation.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # keep the error in a log's last lines

import tensorflow as tf

from ddlbench.protocol.messages import Assignment, Connect, Connected
from ddlbench.workers.common.devices import on_gpu
from ddlbench.workers.common.memory import used_bytes
from ddlbench.workers.common.models.layers import Shape
from ddlbench.workers.common.service import work
from ddlbench.workers.tensorflow.gpu import versions, why_not
from ddlbench.workers.tensorflow.group import resolver, wait_for_silent_members
from ddlbench.workers.tensorflow.training import Learner, RingWorker


class Model:
    """A model of the group and the step that trains it; all points with this model share it.

    Args:
        strategy: That mirrors variables on all workers.
        name: Of a model in `architectures`.
        shape: Of an image: height, width, channels.
    """

    def __init__(self, strategy: tf.distribute.Strategy, name: str, shape: Shape) -> None:
        self.strategy = strategy
        with strategy.scope():
            self.learner = Learner(name, shape)

    def make_step(
        self, images: tf.Tensor, labels: tf.Tensor, batch_size: int, *, together: bool
    ) -> tf.Tensor:
        """Make one step of synchronous SGD.

        Args:
            images: Of this worker: (images, height, width, channels), float32.
            labels: (images,), int64.
            batch_size: Images of all workers together, by which the gradients are divided.
            together: False: compute gradients only; the parameters stay as they are.

        Returns:
            The mean loss of these images in nats, a scalar.
        """
        return self.step(images, labels, batch_size, tf.constant(together))

    @tf.function
    def step(self, images: tf.Tensor, labels: tf.Tensor, batch_size: int, together: tf.Tensor) -> tf.Tensor:
        """Make a step as a graph; TensorFlow compiles it for each size of a batch, when it is first called.

        Args:
            images: Of this worker: (images, height, width, channels), float32.
            labels: (images,), int64.
            batch_size: Images of all workers together, by which the gradients are divided.
            together: A boolean scalar (see `make_step`); as a tensor it needs no graph for each value.

        Returns:
            The mean loss of these images in nats, a scalar.
        """
        loss, gradients = self.strategy.run(self.backward, (images, labels, batch_size))
        if together:
            self.strategy.run(self.update, (gradients,))
        return loss

    def backward(
        self, images: tf.Tensor, labels: tf.Tensor, batch_size: int
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Compute the loss and the gradients of this worker's images, as a replica of the strategy.

        Args:
            images: Of this worker: (images, height, width, channels), float32.
            labels: (images,), int64.
            batch_size: Images of all workers together, by which the gradients are divided.

        Returns:
            The mean loss of these images in nats, a scalar; and their part of the gradients of the whole batch's mean
            loss, in the order of the trainable variables.
        """
        with tf.GradientTape() as tape:
            losses = self.learner.losses(images, labels)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=batch_size)
        return tf.reduce_mean(losses), tape.gradient(loss, self.learner.network.trainable_variables)

    def update(self, gradients: list[tf.Tensor]) -> None:
        """Sum the workers' gradients and descend, as a replica of the strategy.

        Args:
            gradients: Of this worker (see `backward`).
        """
        context = tf.distribute.get_replica_context()
        gradients = context.all_reduce(tf.distribute.ReduceOp.SUM, gradients)
        self.learner.descend(gradients)


class Worker(RingWorker):
    """One worker of the group."""

    strategy: tf.distribute.Strategy

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        self.strategy = join(assignment)
        self.used_bytes = used_bytes()  # joining the group took memory

    def connect(self, command: Connect) -> Connected:
        """Make the models that will be measured, and let TCP's windows grow.

        Args:
            command: The models and their image shapes.

        Returns:
            The message that it is done.
        """
        for each in command.models:
            key = each.model, each.image_shape
            self.models[key] = Model(self.strategy, *key)
        largest = self.largest()
        for _ in range(4):
            self.widen(largest)
        # All workers must refuse a point, or none: TensorFlow numbers collectives when a step is traced, so a worker
        # that has traced a step would wait for ever for those that have not.
        self.used_bytes = int(mean_over_workers(self.strategy, tf.constant([float(self.used_bytes)]))[0])
        return Connected()

    def await_others(self) -> None:
        """Wait until all workers are here."""
        barrier(self.strategy)

    @tf.function
    def widen(self, largest: int) -> None:
        """Sum as many numbers as training will: on a slow link TCP's windows would need many steps to grow to that.

        Args:
            largest: How many float32 numbers: the parameters of the largest model.
        """

        def send() -> None:
            tf.distribute.get_replica_context().all_reduce(tf.distribute.ReduceOp.SUM, tf.zeros(largest))

        self.strategy.run(send)


@tf.function
def mean_over_workers(strategy: tf.distribute.Strategy, value: tf.Tensor) -> tf.Tensor:
    """Average a number over all workers.

    Args:
        strategy: Of this worker.
        value: Its number: (1,), float32.

    Returns:
        The mean: (1,), float32, equal on all workers.
    """

    def reduce() -> tf.Tensor:
        return tf.distribute.get_replica_context().all_reduce(
            tf.distribute.ReduceOp.MEAN, value + tf.zeros(1)
        )

    return strategy.run(reduce)


def barrier(strategy: tf.distribute.Strategy) -> None:
    """Wait until all workers are here: they average one number.

    Args:
        strategy: Of this worker.
    """
    mean_over_workers(strategy, tf.zeros(1)).numpy()


def join(assignment: Assignment) -> tf.distribute.Strategy:
    """Start this worker's server and find the others, by their hosts' addresses; none is taken for dead too soon.

    Args:
        assignment: Of this process. On GPUs NCCL sums gradients, otherwise TensorFlow's own ring over gRPC does.

    Returns:
        The strategy that mirrors variables on all workers of the group.
    """
    wait_for_silent_members(assignment)
    implementations = tf.distribute.experimental.CommunicationImplementation
    options = tf.distribute.experimental.CommunicationOptions(
        implementation=implementations.NCCL if on_gpu(assignment) else implementations.RING
    )
    return tf.distribute.MultiWorkerMirroredStrategy(resolver(assignment, "worker"), options)


def main(address: str, rank: int) -> None:
    """Run this member of a worker group until the supervisor sends `Stop`.

    Args:
        address: Of the control socket (see `protocol.channel.connect`).
        rank: Of this member.
    """
    work(address, rank, Worker, versions, reconnects=False, why_not=why_not)
