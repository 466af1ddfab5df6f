"""The coordinator of TensorFlow's asynchronous parameter server, and the graph of a step whose compute is replayed."""

from dataclasses import replace
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow import keras

from ddlbench.protocol.messages import (
    Assignment,
    Conclude,
    Concluded,
    Connect,
    Connected,
    Prepare,
    Prepared,
    Shape,
    Train,
    Trained,
)
from ddlbench.workers.common.replay.arrays import check, parameter_shapes
from ddlbench.workers.tensorflow.coordinator import Chief
from ddlbench.workers.tensorflow.made_steps import MadeStep
from ddlbench.workers.tensorflow.replayed_graph import FIRST_STEPS, ends_of

# Functions of a worker that the graph calls.
BEGIN, FORWARD, BACKWARD, OPTIMIZER = (
    f"ddlbench_{part}" for part in ("begin", "forward", "backward", "optimizer")
)


class ReplayModel:
    """A model whose parameters are on the server, and the step that the coordinator sends to a worker.

    Args:
        strategy: that places variables on the server.
        number: of the model, from 0.
        name: of a model in `architectures`.
        shape: of an image, (height, width, channels).
    """

    def __init__(self, strategy: tf.distribute.Strategy, number: int, name: str, shape: Shape) -> None:
        self.strategy, self.number = strategy, number
        with strategy.scope():
            self.variables = [tf.Variable(tf.zeros(each)) for each in parameter_shapes(name, shape)]
            self.optimizer = keras.optimizers.SGD(1.0)
            self.optimizer.build(self.variables)

    def start_again(self, seed: int) -> None:
        """Set the parameters to zeros.

        Args:
            seed: not used.
        """
        for each in self.variables:
            each.assign(tf.zeros(each.shape))

    @tf.function
    def step(self, command: tf.Tensor) -> tf.Tensor:
        """Make one step on a worker, as a graph.

        Args:
            command: its number, a scalar; the worker waits until it has received as many.

        Returns:
            (4,), float64: the worker's index, start and end by its host's clock (seconds since 1970), not a number.
        """
        began = tf.timestamp()
        with tf.control_dependencies([began]):
            (index,) = tf.raw_ops.PyFunc(
                input=[command, tf.constant(self.number)], token=BEGIN, Tout=[tf.float64]
            )
        with tf.control_dependencies([index]):
            updated = self.strategy.run(self.descend)
        with tf.control_dependencies(updated):
            (done,) = tf.raw_ops.PyFunc(input=[], token=OPTIMIZER, Tout=[tf.float32])
        with tf.control_dependencies([done]):
            ended = tf.timestamp()
        return tf.stack([tf.reshape(index, ()), began, ended, tf.constant(np.nan, tf.float64)])

    @tf.function  # of its own: what depends on its outputs begins once the server has applied all gradients
    def descend(self) -> list[Any]:
        """Take the parameters from the server, let both passes take their time, and have the server apply gradients.

        Returns:
            What must be there before the optimizer's time begins.
        """
        done: list[tf.Tensor] = []
        for place, variable in enumerate(self.variables):
            read = tf.identity(variable)
            with tf.control_dependencies(done):
                done = tf.raw_ops.PyFunc(input=[read, tf.constant(place)], token=FORWARD, Tout=[tf.float32])
        gradients = []
        for place, variable in reversed(list(enumerate(self.variables))):
            with tf.control_dependencies(done):
                done = tf.raw_ops.PyFunc(input=[tf.constant(place)], token=BACKWARD, Tout=[tf.float32])
            gradients.append(tf.ensure_shape(done[0], variable.shape))
        return [self.optimizer.apply_gradients(zip(gradients[::-1], self.variables, strict=True))]


class ReplayChief(Chief):
    """The coordinator: it schedules the workers' steps, and checks what came of them.

    Args:
        assignment: of the coordinator.
    """

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        self.replayed: dict[tuple[str, Shape], ReplayModel] = {}
        self.pushed = 0.0  # what all workers have pushed since the parameters were zeros, as one number

    def connect(self, command: Connect) -> Connected:
        """Make the models, with their parameters on the server, and take first steps with the workers.

        Args:
            command: the models that will be measured.

        Returns:
            That it is done.
        """
        self.commands += 1
        for number, each in enumerate(command.models):
            key = each.model, each.image_shape
            self.replay = self.replayed[key] = ReplayModel(self.strategy, number, *key)
            self.made(FIRST_STEPS, applied=False)
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point; nothing has to be tried.

        Args:
            command: the point.

        Returns:
            That it fits, and the number of its parameters.
        """
        self.commands += 1
        self.seed = command.seed
        self.replay = self.replayed[command.point.key]
        return Prepared(
            fits=True, parameter_count=sum(each.shape.num_elements() for each in self.replay.variables)
        )

    def start_again(self) -> None:
        """Set the server's parameters to zeros."""
        self.replay.start_again(self.seed)
        self.pushed = 0.0

    def made(self, steps: int, *, applied: bool) -> list[list[MadeStep]]:
        """Schedule steps on free workers until each worker has made enough, and note what they have pushed.

        Args:
            steps: how many each worker must make; fast workers make more.
            applied: whether they are counted; the server applies all.

        Returns:
            All steps that each worker has made, in order.
        """
        found = super().made(steps, applied=applied)
        self.pushed += sum(number * len(steps) for number, steps in enumerate(found, start=1))
        return found

    def schedule(self, applied: bool) -> Any:
        """Schedule one step on the next free worker.

        Args:
            applied: not used.

        Returns:
            TensorFlow's `RemoteValue`.
        """
        return self.coordinator.schedule(self.replay.step, (tf.constant(self.commands),))

    def train(self, command: Train) -> Trained:
        """Replay steps.

        Args:
            command: how many each worker makes, and whether from zeros.

        Returns:
            Step times in ms by worker; nothing has a loss.
        """
        return replace(super().train(command), train_loss=None)

    def conclude(self, command: Conclude) -> Concluded:
        """Check that the server has applied each gradient of each worker's steps.

        Args:
            command: not used.

        Returns:
            An empty reply.
        """
        ends = (ends_of(-each.numpy()) for each in self.replay.variables)
        check("parameter", ends, self.pushed, self.pushed)
        return Concluded()
