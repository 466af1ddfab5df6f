"""A Horovod worker with TensorFlow: synchronous data-parallel training in a ring over Gloo, one point after another.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.horovod.tensorflow_worker

It receives commands over the control socket (see `protocol.messages`), and shares its training loop with TensorFlow's
`ring_allreduce`. Gradients are summed while TensorFlow computes others; `torch_worker` describes Horovod's own traffic.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # keep the error in a log's last lines

import horovod
import horovod.tensorflow as hvd
import tensorflow as tf

from ddlbench.protocol.messages import Assignment, Connect, Connected
from ddlbench.workers.common.models.layers import Shape
from ddlbench.workers.common.service import work
from ddlbench.workers.horovod.group import dilated, meeting
from ddlbench.workers.tensorflow.training import Learner, RingWorker


class Model:
    """A model of the group and the step that trains it; all points with this model share it.

    Args:
        name: Of a model in `architectures`.
        shape: Of an image: height, width, channels.
    """

    def __init__(self, name: str, shape: Shape) -> None:
        self.learner = Learner(name, shape)

    def make_step(
        self, images: tf.Tensor, labels: tf.Tensor, batch_size: int, *, together: bool
    ) -> tf.Tensor:
        """Make one step of synchronous SGD; without communication it also traces the graph of a step with it.

        Args:
            images: Of this worker: (images, height, width, channels), float32.
            labels: (images,), int64.
            batch_size: Images of all workers together, by which the gradients are divided.
            together: False: without communication; this worker applies its own gradients.

        Returns:
            The mean loss of these images in nats, a scalar.
        """
        if not together:  # trace the other graph, too, so that no timed step has to
            self.step.get_concrete_function(images, labels, batch_size, together=True)
        return self.step(images, labels, batch_size, together=together)

    @tf.function
    def step(self, images: tf.Tensor, labels: tf.Tensor, batch_size: int, *, together: bool) -> tf.Tensor:
        """Make a step as a graph; TensorFlow makes one for each size of a batch.

        Args:
            images: Of this worker: (images, height, width, channels), float32.
            labels: (images,), int64.
            batch_size: Images of all workers together, by which the gradients are divided.
            together: False: without communication; this worker applies its own gradients.

        Returns:
            The mean loss of these images in nats, a scalar.
        """
        with tf.GradientTape() as tape:
            losses = self.learner.losses(images, labels)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=batch_size)
        if together:  # each gradient is a share of that of the whole batch's mean loss
            tape = hvd.DistributedGradientTape(tape, op=hvd.Sum)
        gradients = tape.gradient(loss, self.learner.network.trainable_variables)
        self.learner.descend(gradients)
        return tf.reduce_mean(losses)


class Worker(RingWorker):
    """One worker of the group."""

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        self.meetings = 0

    def connect(self, command: Connect) -> Connected:
        """Replace all connections, and make the models that will be measured.

        Args:
            command: The models and their image shapes; those that exist are kept.

        Returns:
            The message that it is done.
        """
        self.point = None
        if hvd.is_initialized():
            hvd.shutdown()
        for each in command.models:
            if (key := (each.model, each.image_shape)) not in self.models:
                self.models[key] = Model(*key)
        with meeting(dilated(self.assignment, command), self.meetings):
            hvd.init()
            self.widen()
        self.meetings += 1
        return Connected()

    def await_others(self) -> None:
        """Wait until all ranks are here: Horovod has no barrier for TensorFlow, so they add up one number."""
        hvd.allreduce(tf.zeros(1), op=hvd.Sum, name="barrier")

    def widen(self) -> None:
        """Sum four times as many float32 numbers as the largest model has, four times.

        On a slow link TCP's windows would otherwise need many steps to grow to what training needs.
        """
        largest = self.largest()
        for _ in range(4):
            hvd.allreduce(tf.zeros(4 * largest), op=hvd.Sum)


def main(address: str, rank: int) -> None:
    """Run this member of a worker group until the supervisor sends `Stop`.

    Args:
        address: Of the control socket (see `protocol.channel.connect`).
        rank: Of this member.
    """
    versions = {"horovod": horovod.__version__, "tensorflow": tf.__version__}
    work(address, rank, Worker, lambda assignment: versions, reconnects=True)
