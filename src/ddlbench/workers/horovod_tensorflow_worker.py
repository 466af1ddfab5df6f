"""A Horovod worker with TensorFlow: synchronous data-parallel training in a ring over Gloo, one point after another.

    python -m ddlbench.workers.fork_server ddlbench.workers.horovod_tensorflow_worker

It is told what to do over the control socket (see `channel`), as `tensorflow_worker` is, with whose loop it trains.
Gradients are added up while TensorFlow computes others; for what Horovod does meanwhile see `horovod_torch_worker`.
"""

import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # a log's last lines should tell what went wrong

import horovod
import horovod.tensorflow as hvd
import tensorflow as tf

from ddlbench.workers.architectures import Shape
from ddlbench.workers.channel import Channel, Message
from ddlbench.workers.horovod_group import meeting
from ddlbench.workers.memory import used_bytes
from ddlbench.workers.pace import Pace
from ddlbench.workers.service import commands_of, serve
from ddlbench.workers.tensorflow_group import use
from ddlbench.workers.tensorflow_training import Learner, Point, prepared, then


class Model:
    """A model of the group and the step that trains it, the same at all its points."""

    def __init__(self, pace: Pace, name: str, shape: Shape) -> None:
        self.pace = pace
        self.learner = Learner(name, shape)
        self.new_tape = paced_tape(pace) if pace.core_share < 1 else tf.GradientTape

    def make_step(
        self, images: tf.Tensor, labels: tf.Tensor, batch_size: int, *, together: bool
    ) -> tf.Tensor:
        """One step of synchronous SGD, or, not `together`, one on this worker alone; returns its loss."""
        if (
            not together
        ):  # the graph of a step with the others is made, too, so that it is there when they train
            self.step.get_concrete_function(images, labels, batch_size, together=True)
        return self.step(images, labels, batch_size, together=together)

    @tf.function
    def step(self, images: tf.Tensor, labels: tf.Tensor, batch_size: int, *, together: bool) -> tf.Tensor:
        """The same as a graph, which TensorFlow makes for each size of a batch."""
        with self.new_tape() as tape:
            losses = self.learner.losses(images, labels)
            loss = tf.nn.compute_average_loss(losses, global_batch_size=batch_size)
        if together:  # a share of the whole batch's mean loss from each
            tape = hvd.DistributedGradientTape(tape, op=hvd.Sum)
        gradients = tape.gradient(loss, self.learner.network.trainable_variables)
        self.learner.descend(then(self.pace, self.pace.begin, gradients))
        return tf.reduce_mean(losses)


def paced_tape(pace: Pace) -> type[tf.GradientTape]:
    """A tape each of whose gradients waits until the host's share of a core has made it."""

    class PacedTape(tf.GradientTape):
        def gradient(self, *arguments: object, **named: object) -> list[tf.Tensor]:
            gradients = super().gradient(*arguments, **named)
            return [then(pace, pace.keep, [each])[0] for each in gradients]

    return PacedTape


class Worker:
    """One worker of the group."""

    def __init__(self, job: Message) -> None:
        self.job = job
        self.meetings = 0
        self.pace = Pace(job["core_share"], time.process_time)  # TensorFlow computes in threads of its own
        self.point: Point | None = None
        self.models: dict[tuple[str, Shape], Model] = {}
        use(job)
        self.used_bytes = used_bytes()

    def connect(self, command: Message) -> Message:
        """Replace all connections, and make the models that will be measured: [name, image shape] each."""
        self.point = None
        if hvd.is_initialized():
            hvd.shutdown()
        for name, shape in command["models"]:
            if (name, tuple(shape)) not in self.models:
                self.models[name, tuple(shape)] = Model(self.pace, name, tuple(shape))
        with meeting(self.job, self.meetings):
            hvd.init()
            self.widen()
        self.meetings += 1
        return {"event": "connected"}

    def widen(self) -> None:
        """Send as much as training will: on a slow link TCP's windows would take many steps to grow to that."""
        largest = max(model.learner.network.count_params() for model in self.models.values())
        for _ in range(4):
            hvd.allreduce(tf.zeros(4 * largest), op=hvd.Sum)

    def prepare(self, command: Message) -> Message:
        """Take a point; a step of it, on this worker alone, warms caches and tells whether it fits into memory."""
        self.point = None
        answer, self.point = prepared(command, self.job, self.used_bytes, lambda: self.take_point(command))
        return answer

    def take_point(self, command: Message) -> Point:
        """The point, on its model."""
        point = command["point"]
        model = self.models[point["model"], tuple(point["image_shape"])]
        return Point(self.job, self.pace, model, point, command["seed"])

    def train(self, command: Message) -> Message:
        """Train the point for some steps, going on where it is or from its fresh parameters."""
        assert self.point is not None
        return self.point.train(command)

    def conclude(self, command: Message) -> Message:
        """Hash the parameters; the first worker evaluates the test set and saves them if asked."""
        assert self.point is not None
        return self.point.conclude(command, is_first=self.job["index"] == 0)


def main(control: str, rank: int) -> None:
    """Serve the supervisor at `control` as `rank` until it says stop."""
    channel = Channel(control, rank)
    worker = Worker(channel.receive())
    versions = {"horovod": horovod.__version__, "tensorflow": tf.__version__}
    channel.send({"event": "ready", "reconnects": True, "versions": versions})
    serve(channel, commands_of(worker))
