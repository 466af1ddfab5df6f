"""What TensorFlow's ring workers share, however gradients are summed: the trained model, timed steps, reports."""

import time
from abc import ABC, abstractmethod
from typing import Protocol

import numpy as np
import tensorflow as tf
from tensorflow import keras

from ddlbench.protocol.messages import (
    Assignment,
    Conclude,
    Concluded,
    Prepare,
    Prepared,
    Train,
    Trained,
    TrainingPoint,
)
from ddlbench.workers.common.batches import batches_of
from ddlbench.workers.common.devices import on_gpu
from ddlbench.workers.common.memory import used_bytes
from ddlbench.workers.common.models.first_weights import initial
from ddlbench.workers.common.models.layers import Shape
from ddlbench.workers.common.progress import counted
from ddlbench.workers.tensorflow.evaluation import evaluation, fingerprint
from ddlbench.workers.tensorflow.group import is_out_of_memory, refuse_what_cannot_fit, use
from ddlbench.workers.tensorflow.models import build, dump, load


class Learner:
    """A network and its optimizer; all points with the same model and image shape share them.

    Args:
        name: Of a model in `architectures`.
        shape: Of an image: height, width, channels.
    """

    def __init__(self, name: str, shape: Shape) -> None:
        self.name, self.shape = name, shape
        self.network = build(name, shape)
        self.momentum = tf.Variable(0.0, trainable=False)
        self.optimizer = keras.optimizers.SGD()
        self.optimizer.momentum = self.momentum
        self.optimizer.build(self.network.trainable_variables)

    def start_again(self, seed: int) -> None:
        """Set the parameters to the seed's first weights, and the optimizer's velocities to zero.

        Args:
            seed: Of the first weights.
        """
        load(self.network, initial(self.name, self.shape, seed))
        for velocity in self.optimizer.momentums:
            velocity.assign(tf.zeros(velocity.shape))

    def losses(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Compute the cross-entropy of each image, in training mode.

        Args:
            images: (images, height, width, channels), float32.
            labels: (images,), int64.

        Returns:
            (images,), in nats.
        """
        outputs = self.network(images, training=True)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs)

    def descend(self, gradients: list[tf.Tensor]) -> None:
        """Take the optimizer's step.

        Args:
            gradients: Already summed over the workers, in the order of the trainable variables and with their shapes.
        """
        pairs = zip(gradients, self.network.trainable_variables, strict=True)
        self.optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)


class Model(Protocol):
    """What a worker trains: a learner, and how it makes a step with the other workers, or alone."""

    learner: Learner

    def make_step(
        self, images: tf.Tensor, labels: tf.Tensor, batch_size: int, *, together: bool
    ) -> tf.Tensor:
        """Make one step of synchronous SGD.

        Args:
            images: Of this worker: (images, height, width, channels), float32.
            labels: (images,), int64.
            batch_size: Images of all workers together, by which the gradients are divided.
            together: False: without communication, only what this worker computes of a step.

        Returns:
            The mean loss of these images in nats, a scalar.
        """


class Point:
    """The training point that is measured: a model with fresh parameters, and this worker's share of each batch.

    Args:
        assignment: Of this process; its index and world size determine the share.
        model: That the point names.
        point: Its batch size is that of all workers together.
        seed: Of the first weights and of the order of the images.
    """

    def __init__(self, assignment: Assignment, model: Model, point: TrainingPoint, seed: int) -> None:
        self.on_gpu = on_gpu(assignment)
        self.model, self.seed = model, seed
        self.batch_size = point.batch_size
        self.network = model.learner.network
        model.learner.optimizer.learning_rate = point.learning_rate
        model.learner.momentum.assign(point.momentum)
        self.batches = batches_of(
            point,
            assignment.datasets,
            seed=seed,
            rank=assignment.index,
            world_size=assignment.world_size,
        )
        self.start_again()

    def start_again(self) -> None:
        """Set parameters, optimizer and the order of the images back to what the seed determines."""
        self.model.learner.start_again(self.seed)
        self.batches.start_again()

    def step(self, *, together: bool) -> tf.Tensor:
        """Make one step with the next batch.

        Args:
            together: Whether with the other workers; False: without communication.

        Returns:
            The mean loss of this worker's images in nats, a scalar.
        """
        images, labels = map(tf.convert_to_tensor, next(self.batches))
        return self.model.make_step(images, labels, self.batch_size, together=together)

    def train(self, steps: int) -> Trained:
        """Time steps, each from its start to its end on this worker.

        Args:
            steps: How many.

        Returns:
            This worker's step times in milliseconds of wall clock, and the loss of its last step (nats per image).
        """
        step_times_ms: list[float] = []
        loss = tf.constant(float("nan"))
        for _ in counted(steps):
            started = time.perf_counter()
            loss = self.step(together=True)
            if self.on_gpu:
                tf.test.experimental.sync_devices()
            step_times_ms.append((time.perf_counter() - started) * 1e3)
        return Trained([step_times_ms], float(loss))

    def conclude(
        self, command: Conclude, *, is_first: bool, strategy: tf.distribute.Strategy | None = None
    ) -> Concluded:
        """Hash the parameters; the first worker also tests and saves them if the command asks for it.

        Args:
            command: Whether to test, and the .npz file to save to (None: do not save).
            is_first: Whether this is the worker that tests and saves.
            strategy: That mirrors the network's variables; None: not mirrored.

        Returns:
            The hash of the parameters, and the test's result if this worker has tested.
        """
        parameters = dump(self.network)
        if command.save_to and is_first:
            np.savez(command.save_to, *parameters)
        is_tested = command.evaluate and is_first
        images = self.batches.share.stop - self.batches.share.start
        tested = evaluation(self.network, self.batches, images, strategy) if is_tested else None
        return Concluded(fingerprint(parameters), tested)


class RingWorker(ABC):
    """One worker of a group in which each has all parameters; subclasses define how gradients are summed."""

    strategy: tf.distribute.Strategy | None = None  # None where TensorFlow does not sum gradients

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.models: dict[tuple[str, Shape], Model] = {}
        self.point: Point | None = None
        use(assignment)
        self.used_bytes = used_bytes()

    @abstractmethod
    def await_others(self) -> None:
        """Wait until all workers are here."""

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point, and try a step of it without communication: it warms caches and shows whether memory suffices.

        Args:
            command: The point, and the seed of its parameters and batches.

        Returns:
            Whether the step fits into memory, and if so how many parameters the model has.
        """
        self.point = None
        given = command.point
        model = self.models[given.key]
        try:
            if not on_gpu(self.assignment):
                refuse_what_cannot_fit("tensorflow", given, self.assignment.world_size, self.used_bytes)
            point = Point(self.assignment, model, given, command.seed)
            point.step(together=False)
        except (tf.errors.OpError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return Prepared(fits=False)
        self.point = point
        return Prepared(fits=True, parameter_count=point.network.count_params())

    def train(self, command: Train) -> Trained:
        """Train the prepared point, from its current or from fresh parameters.

        Args:
            command: How many steps, and whether to begin with fresh parameters.

        Returns:
            This worker's step times (milliseconds) and last loss (see `Point.train`).
        """
        assert self.point is not None
        if command.from_fresh:
            self.point.start_again()
            self.await_others()  # else a worker that was ready sooner would wait in its first step
        return self.point.train(command.steps)

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters; the first worker also tests and saves them if the command asks for it.

        Args:
            command: Whether to test, and the .npz file to save to (None: do not save).

        Returns:
            The hash of the parameters, and on the first worker the test's result, if any.
        """
        assert self.point is not None
        return self.point.conclude(command, is_first=self.assignment.index == 0, strategy=self.strategy)

    def largest(self) -> int:
        """Count the parameters of the largest model."""
        return max(model.learner.network.count_params() for model in self.models.values())
