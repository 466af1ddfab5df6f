"""What all TensorFlow workers share, however gradients are added up: models and optimizers, timed steps, reports."""

import time
from collections.abc import Callable
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
from ddlbench.workers.common.first_weights import initial
from ddlbench.workers.common.layers import Shape
from ddlbench.workers.common.memory import used_bytes
from ddlbench.workers.common.pace import Pace
from ddlbench.workers.tensorflow.evaluation import evaluation, fingerprint
from ddlbench.workers.tensorflow.group import is_out_of_memory, refuse_what_cannot_fit, use
from ddlbench.workers.tensorflow.models import build, dump, load


class Learner:
    """A network and the optimizer that trains it, for all points of a model.

    Args:
        name: of the model, a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).
    """

    def __init__(self, name: str, shape: Shape) -> None:
        self.name, self.shape = name, shape
        self.network = build(name, shape)
        self.momentum = tf.Variable(0.0, trainable=False)
        self.optimizer = keras.optimizers.SGD()
        self.optimizer.momentum = self.momentum
        self.optimizer.build(self.network.trainable_variables)

    def start_again(self, seed: int) -> None:
        """Set parameters and optimizer as the seed determines them.

        Args:
            seed: of the first parameters.
        """
        load(self.network, initial(self.name, self.shape, seed))
        for velocity in self.optimizer.momentums:
            velocity.assign(tf.zeros(velocity.shape))

    def losses(self, images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Compute the loss of each image.

        Args:
            images: float32, (n, height, width, channels).
            labels: int64, (n,).

        Returns:
            Cross entropies, float32, (n,).
        """
        outputs = self.network(images, training=True)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs)

    def descend(self, gradients: list[tf.Tensor]) -> None:
        """Take the optimizer's step.

        Args:
            gradients: the sums over all workers, in the canonical order, with Keras' axes.
        """
        pairs = zip(gradients, self.network.trainable_variables, strict=True)
        self.optimizer.apply_gradients(pairs, skip_gradients_aggregation=True)


class Model(Protocol):
    """What a worker trains: a learner, and how it takes a step of it with the others, or alone."""

    learner: Learner

    def make_step(
        self, images: tf.Tensor, labels: tf.Tensor, batch_size: int, *, together: bool
    ) -> tf.Tensor:
        """Take one step of synchronous SGD.

        Args:
            images: this worker's, float32, (n, height, width, channels).
            labels: int64, (n,).
            batch_size: images of the global batch.
            together: with the other workers; else without communication.

        Returns:
            The mean loss of these images, a scalar.
        """


class Point:
    """The point that is measured: a model with fresh parameters, and this worker's batches.

    Args:
        assignment: of the worker.
        pace: of its host.
        model: that of the point.
        point: its data set, global batch size, learning rate and momentum.
        seed: of its parameters and batches.
    """

    def __init__(
        self, assignment: Assignment, pace: Pace, model: Model, point: TrainingPoint, seed: int
    ) -> None:
        self.on_gpu = on_gpu(assignment)
        self.pace, self.model, self.seed = pace, model, seed
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
        """Set parameters, optimizer and the order of images as the seed determines them."""
        self.model.learner.start_again(self.seed)
        self.batches.start_again()

    def step(self, *, together: bool) -> tf.Tensor:
        """Take one step with the next images.

        Args:
            together: with the other workers; else without communication.

        Returns:
            This worker's mean loss, a scalar.
        """
        images, labels = map(tf.convert_to_tensor, next(self.batches))
        return self.model.make_step(images, labels, self.batch_size, together=together)

    def train(self, command: Train) -> Trained:
        """Train some steps, each timed from its start to its end on this worker.

        Args:
            command: how many, and whether from fresh parameters.

        Returns:
            Step times in ms of wall-clock time, and the last step's loss.
        """
        if command.from_fresh:
            self.start_again()
        step_times_ms: list[float] = []
        loss = tf.constant(float("nan"))
        self.pace.begin()
        for _ in range(command.steps):
            started = time.perf_counter()
            loss = self.step(together=True)
            if self.on_gpu:
                tf.test.experimental.sync_devices()
            step_times_ms.append((time.perf_counter() - started) * 1e3)
        return Trained([step_times_ms], float(loss))

    def conclude(
        self, command: Conclude, *, is_first: bool, strategy: tf.distribute.Strategy | None = None
    ) -> Concluded:
        """Hash the parameters; the first worker also tests and saves them if asked.

        Args:
            command: whether to test the parameters, and where to save them.
            is_first: this is the worker that tests and saves.
            strategy: that mirrors the model, if it is TensorFlow's own.

        Returns:
            The hash, and the test's result if there is one.
        """
        parameters = dump(self.network)
        if command.save_to and is_first:
            np.savez(command.save_to, *parameters)
        is_tested = command.evaluate and is_first
        tested = evaluation(self.network, self.batches, strategy) if is_tested else None
        return Concluded(fingerprint(parameters), tested)


class RingWorker:
    """One worker of a group in which each has all parameters; derived classes add up the gradients.

    Args:
        assignment: of the worker.
    """

    strategy: tf.distribute.Strategy | None = None  # that mirrors the models, if it is TensorFlow's own

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.pace = Pace(
            assignment.core_share, time.process_time
        )  # TensorFlow computes in threads of its own
        self.models: dict[tuple[str, Shape], Model] = {}
        self.point: Point | None = None
        use(assignment)
        self.used_bytes = used_bytes()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point; a step of it, on this worker alone, warms caches and shows whether it fits into memory.

        Args:
            command: the point, and the seed of its parameters and batches.

        Returns:
            Whether the step fits, and the number of parameters.
        """
        self.point = None
        given = command.point
        model = self.models[given.key]
        try:
            if not on_gpu(self.assignment):
                refuse_what_cannot_fit(given, self.assignment.world_size, self.used_bytes)
            point = Point(self.assignment, self.pace, model, given, command.seed)
            point.step(together=False)
        except (tf.errors.OpError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return Prepared(fits=False)
        self.point = point
        return Prepared(fits=True, parameter_count=point.network.count_params())

    def train(self, command: Train) -> Trained:
        """Train the point for some steps.

        Args:
            command: how many, and whether from fresh parameters or from the present ones.

        Returns:
            Step times in ms, and the last step's loss.
        """
        assert self.point is not None
        return self.point.train(command)

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters; the first worker also tests and saves them if asked.

        Args:
            command: whether to test the parameters, and where to save them.

        Returns:
            The hash, and the first worker's test result.
        """
        assert self.point is not None
        return self.point.conclude(command, is_first=self.assignment.index == 0, strategy=self.strategy)

    def largest(self) -> int:
        """Count the parameters of the largest model."""
        return max(model.learner.network.count_params() for model in self.models.values())


def then(pace: Pace, call: Callable[[], None], tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    """Delay tensors until all of them have been computed and a Python function has returned.

    Args:
        pace: of this host; if its cores are its own, nothing is called or delayed.
        call: the function, which runs in TensorFlow's graph.
        tensors: of any shapes.

    Returns:
        The same tensors.
    """
    if pace.core_share == 1:
        return [tf.identity(each) for each in tensors]
    with tf.control_dependencies(tensors):
        called = tf.numpy_function(call, [], [])
    with tf.control_dependencies([called]):
        return [tf.identity(each) for each in tensors]
