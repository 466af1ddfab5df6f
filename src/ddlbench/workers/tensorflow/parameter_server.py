"""TensorFlow's asynchronous parameter server (ParameterServerStrategy): its coordinator, its server, its workers.

The coordinator, `chief`, has all workers compute steps: each reads the parameters from the server, `ps`, and sends it
gradients. TensorFlow gives the next step to whichever worker is free, after a round trip to its coordinator; so a fast
worker makes more steps than a slow one. A worker's own Python has no part in that but to hand its batches out.

All are told what to do over the control socket (see `protocol.messages`); the coordinator reports the steps
of each worker.
"""

import os
import threading
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # a log's last lines should tell what went wrong
os.environ.setdefault(
    "GRPC_FAIL_FAST", "use_caller"
)  # as TensorFlow's tutorial has it: servers may start late

import numpy as np
import tensorflow as tf
from tensorflow import keras
from tensorflow.python.ops import script_ops

from ddlbench.protocol.messages import (
    Assignment,
    Conclude,
    Concluded,
    Connect,
    Connected,
    Prepare,
    Prepared,
    Train,
    Trained,
)
from ddlbench.workers.common.batches import batches_of
from ddlbench.workers.common.first_weights import initial
from ddlbench.workers.common.layers import Shape
from ddlbench.workers.common.memory import used_bytes
from ddlbench.workers.common.pace import Pace
from ddlbench.workers.common.service import Idle, Member, work
from ddlbench.workers.tensorflow.evaluation import evaluation, fingerprint
from ddlbench.workers.tensorflow.gpu import versions, why_not
from ddlbench.workers.tensorflow.group import (
    is_out_of_memory,
    refuse_what_cannot_fit,
    resolver,
    start_server,
    use,
)
from ddlbench.workers.tensorflow.models import build, dump, load

NEXT, KEEP = "ddlbench_next", "ddlbench_keep"  # what the graph calls in a worker's Python


class Model:
    """A model whose parameters are on the server, and the step that a worker is sent."""

    def __init__(self, strategy: tf.distribute.Strategy, name: str, shape: Shape, *, paced: bool) -> None:
        self.strategy, self.name, self.shape, self.paced = strategy, name, shape, paced
        with strategy.scope():
            self.network = build(name, shape)
            self.optimizer = keras.optimizers.SGD()
            self.optimizer.build(self.network.trainable_variables)

    def start_again(self, seed: int) -> None:
        """Set parameters and optimizer to what the seed says."""
        load(self.network, initial(self.name, self.shape, seed))
        for velocity in self.optimizer.momentums:
            velocity.assign(tf.zeros(velocity.shape))

    @tf.function
    def step(self, number: tf.Tensor, momentum: float, *, applied: bool) -> tf.Tensor:
        """One step on a worker, `number` being the command that it belongs to.

        Returns the worker's index, when it began and ended by the clock of its host (s), and its loss.
        """
        began = tf.timestamp()
        with tf.control_dependencies([began]):
            index, images, labels = tf.raw_ops.PyFunc(
                input=[number], token=NEXT, Tout=[tf.float64, tf.float32, tf.int64]
            )
        images = tf.ensure_shape(images, (None, *self.shape))
        labels = tf.ensure_shape(labels, (None,))
        loss, written = self.strategy.run(self.descend, (images, labels, momentum, applied))
        with tf.control_dependencies(written):
            return tf.stack([tf.reshape(index, ()), began, tf.timestamp(), tf.cast(loss, tf.float64)])

    def descend(
        self, images: tf.Tensor, labels: tf.Tensor, momentum: float, applied: bool
    ) -> tuple[tf.Tensor, list[Any]]:
        """Compute gradients, wait until the host's share of a core has made them, and have the server apply them."""
        with tf.GradientTape() as tape:
            outputs = self.network(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs))
        gradients = tape.gradient(loss, self.network.trainable_variables)
        if self.paced:
            with tf.control_dependencies(gradients):
                kept = tf.raw_ops.PyFunc(input=[], token=KEEP, Tout=[tf.float32])
            with tf.control_dependencies(kept):
                gradients = [tf.identity(each) for each in gradients]
        if not applied:
            return loss, gradients
        self.optimizer.momentum = momentum
        pairs = zip(gradients, self.network.trainable_variables, strict=True)
        return loss, [self.optimizer.apply_gradients(pairs)]


class Chief:
    """The coordinator: it has the workers make steps, and knows what was learnt."""

    def __init__(self, assignment: Assignment) -> None:
        use(assignment)
        self.paths = assignment.datasets
        self.world_size = assignment.world_size
        self.paced = assignment.core_share < 1
        self.on_gpus = assignment.devices == "gpu"  # the workers; their memory is not ours to reckon
        self.strategy = tf.distribute.ParameterServerStrategy(resolver(assignment, "worker", "ps", "chief"))
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)
        self.used_bytes = used_bytes()
        self.models: dict[tuple[str, Shape], Model] = {}
        self.commands = 0

    def connect(self, command: Connect) -> Connected:
        """Make the models that will be measured."""
        for each in command.models:
            key = each.model, each.image_shape
            self.models[key] = Model(self.strategy, *key, paced=self.paced)
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point; a step on each worker that is not applied warms caches and tells whether it fits."""
        self.point, self.seed = command.point, command.seed
        self.commands += 1
        self.model = self.models[self.point.key]
        try:
            if not self.on_gpus:
                refuse_what_cannot_fit(self.point, self.world_size, self.used_bytes)
            self.model.optimizer.learning_rate = self.point.learning_rate
            self.model.start_again(self.seed)
            self.steps(1, applied=False)
        except (tf.errors.OpError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return Prepared(fits=False)
        return Prepared(fits=True, parameter_count=self.model.network.count_params())

    def steps(self, steps: int, *, applied: bool) -> list[list[list[float]]]:
        """Have steps made until each worker has made so many; what `Model.step` returned of those, by worker."""
        made: list[list[list[float]]] = [[] for _ in range(self.world_size)]
        wanted = steps * self.world_size
        while min(map(len, made)) < steps:
            scheduled = [self.schedule(applied) for _ in range(wanted)]
            self.coordinator.join()
            for index, *step in (each.fetch() for each in scheduled):
                made[int(index)].append(step)
            wanted = self.world_size  # of a slow worker others may have made some
        return [sorted(of_worker)[:steps] for of_worker in made]

    def schedule(self, applied: bool) -> Any:
        """Have a step made by the next worker that is free."""
        arguments = tf.constant(self.commands), self.point.momentum
        return self.coordinator.schedule(self.model.step, arguments, {"applied": applied})

    def train(self, command: Train) -> Trained:
        """Train the point for some steps; a worker's step lasts until its next one begins, and what it waits counts."""
        self.commands += 1
        if command.from_fresh:
            self.model.start_again(self.seed)
        made = self.steps(command.steps, applied=True)
        ends = [[of_worker[0][0], *(ended for _, ended, _ in of_worker)] for of_worker in made]
        step_times_ms = [(np.diff(times) * 1e3).tolist() for times in ends]
        return Trained(step_times_ms, float(np.mean([of_worker[-1][2] for of_worker in made])))

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters; evaluate the test set and save them if asked."""
        network = self.model.network
        parameters = dump(network)
        if command.save_to:
            np.savez(command.save_to, *parameters)
        batches = batches_of(self.point, self.paths, seed=self.seed, rank=0, world_size=1)
        return Concluded(fingerprint(parameters), evaluation(network, batches) if command.evaluate else None)


class Worker(Idle):
    """Hands its batches out to the graph that TensorFlow runs in this process for the coordinator."""

    def __init__(self, assignment: Assignment) -> None:
        self.index = assignment.index
        self.world_size = assignment.world_size
        self.paths = assignment.datasets
        self.timeout_s = assignment.timeout_s
        self.pace = Pace(assignment.core_share)
        self.commands = 0
        self.changed = threading.Condition()
        # The graph is the coordinator's, which cannot know our functions; so they are registered under fixed names.
        self.functions = {NEXT: self.next, KEEP: self.keep}
        script_ops._py_funcs._funcs.update(self.functions)
        self.server = start_server(assignment)

    def prepare(self, command: Prepare) -> Prepared:
        """Make the batches of a point; one that cannot fit the coordinator does not begin either."""
        with self.changed:
            self.batches = batches_of(
                command.point, self.paths, seed=command.seed, rank=self.index, world_size=self.world_size
            )
            self.commands += 1
            self.changed.notify_all()
        return Prepared(fits=True)

    def train(self, command: Train) -> Trained:
        """Go on with the batches where they are, or begin again."""
        with self.changed:
            if command.from_fresh:
                self.batches.start_again()
            self.commands += 1
            self.changed.notify_all()
        return Trained()

    def next(self, number: np.ndarray) -> tuple[np.float64, np.ndarray, np.ndarray]:
        """Our index, images and labels of the next step, once we have been told what the coordinator was told."""
        with self.changed:
            if not self.changed.wait_for(lambda: self.commands >= number, self.timeout_s):
                raise TimeoutError(f"worker {self.index} was not told to train in {self.timeout_s:g} s")
            images, labels = next(self.batches)
        self.pace.begin()
        return np.float64(self.index), images, labels

    def keep(self) -> np.float32:
        """Wait until the host's share of a core has computed what was computed."""
        self.pace.keep()
        return np.float32(0)


class Server(Idle):
    """Holds the parameters; TensorFlow does all of it."""

    def __init__(self, assignment: Assignment) -> None:
        self.server = start_server(assignment)


MEMBERS: dict[str, Callable[[Assignment], Member]] = {"worker": Worker, "ps": Server, "chief": Chief}


def member_of(assignment: Assignment) -> Member:
    """What its role makes this process."""
    return MEMBERS[assignment.role](assignment)


def main(address: str, rank: int) -> None:
    """Serve the supervisor at `address` as `rank` until it says stop."""
    work(address, rank, member_of, versions, reconnects=False, why_not=why_not)
