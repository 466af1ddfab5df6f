"""A Horovod worker with TensorFlow: synchronous data-parallel training in a ring over Gloo, one point after another.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.horovod.tensorflow_worker

It receives commands over the control socket (see `protocol.messages`), as TensorFlow's `ring_allreduce` does, and
trains in the same loop. Gradients are added up while TensorFlow computes others; `torch_worker` says what Horovod does
meanwhile.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # so that an error is in the log's last lines

import horovod
import horovod.tensorflow as hvd
import tensorflow as tf

from ddlbench.protocol.messages import Assignment, Connect, Connected
from ddlbench.workers.common.layers import Shape
from ddlbench.workers.common.pace import Pace
from ddlbench.workers.common.service import work
from ddlbench.workers.horovod.group import meeting
from ddlbench.workers.tensorflow.training import Learner, RingWorker, then


class Model:
    """A model of the group and the step that trains it, the same at all its points.

    Args:
        pace: of this host.
        name: of the model, a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).
    """

    def __init__(self, pace: Pace, name: str, shape: Shape) -> None:
        self.pace = pace
        self.learner = Learner(name, shape)
        self.new_tape = paced_tape(pace) if pace.core_share < 1 else tf.GradientTape

    def make_step(
        self, images: tf.Tensor, labels: tf.Tensor, batch_size: int, *, together: bool
    ) -> tf.Tensor:
        """Take one step of synchronous SGD.

        Args:
            images: this worker's, float32, (n, height, width, channels).
            labels: int64, (n,).
            batch_size: images of the global batch.
            together: with the other workers; else the step is this worker's alone.

        Returns:
            The mean loss of these images, a scalar.
        """
        if not together:  # make the graph of a step with the others too, before they train
            self.step.get_concrete_function(images, labels, batch_size, together=True)
        return self.step(images, labels, batch_size, together=together)

    @tf.function
    def step(self, images: tf.Tensor, labels: tf.Tensor, batch_size: int, *, together: bool) -> tf.Tensor:
        """Take a step as a graph, which TensorFlow compiles for each size of a batch.

        Args:
            images: this worker's, float32, (n, height, width, channels).
            labels: int64, (n,).
            batch_size: images of the global batch.
            together: as of `make_step`; there is a graph for each value.

        Returns:
            The mean loss of these images, a scalar.
        """
        with self.new_tape() as tape:
            losses = self.learner.losses(images, labels)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=batch_size)
        if together:  # a share of the whole batch's mean loss from each
            tape = hvd.DistributedGradientTape(tape, op=hvd.Sum)
        gradients = tape.gradient(loss, self.learner.network.trainable_variables)
        self.learner.descend(then(self.pace, self.pace.begin, gradients))
        return tf.reduce_mean(losses)


def paced_tape(pace: Pace) -> type[tf.GradientTape]:
    """Make a tape of which each gradient waits until the host's share of a core would have computed it.

    Args:
        pace: of this host.

    Returns:
        A subclass of TensorFlow's tape.
    """

    class PacedTape(tf.GradientTape):
        def gradient(self, *arguments: object, **named: object) -> list[tf.Tensor]:
            gradients = super().gradient(*arguments, **named)
            return [then(pace, pace.keep, [each])[0] for each in gradients]

    return PacedTape


class Worker(RingWorker):
    """One worker of the group."""

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        self.meetings = 0

    def connect(self, command: Connect) -> Connected:
        """Replace all connections, and make the models that will be measured.

        Args:
            command: these models.

        Returns:
            That it is done.
        """
        self.point = None
        if hvd.is_initialized():
            hvd.shutdown()
        for each in command.models:
            if (key := (each.model, each.image_shape)) not in self.models:
                self.models[key] = Model(self.pace, *key)
        with meeting(self.assignment, self.meetings):
            hvd.init()
            self.widen()
        self.meetings += 1
        return Connected()

    def widen(self) -> None:
        """Send as much as training will, so that TCP's windows grow; on a slow link this would take many steps."""
        largest = self.largest()
        for _ in range(4):
            hvd.allreduce(tf.zeros(4 * largest), op=hvd.Sum)


def main(address: str, rank: int) -> None:
    """Serve the supervisor until it sends Stop.

    Args:
        address: of the control socket.
        rank: of this member.
    """
    versions = {"horovod": horovod.__version__, "tensorflow": tf.__version__}
    work(address, rank, Worker, lambda assignment: versions, reconnects=True)
