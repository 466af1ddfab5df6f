"""TensorFlow's asynchronous parameter server (ParameterServerStrategy): its coordinator, its server, its workers.

The coordinator, `chief`, has all workers compute steps: each reads the parameters from the server, `ps`, and sends it
gradients. TensorFlow gives the next step to whichever worker is free, after a round trip to its coordinator; so a fast
worker makes more steps than a slow one. A worker's own Python only provides its batches.

All members receive commands over the control socket (see `protocol.messages`); the coordinator reports all steps.
"""

import os
import threading
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # keep the error in a log's last lines
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")  # as in TensorFlow's tutorial: servers may start late

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

NEXT = "ddlbench_next"  # a function of a worker that the graph calls


class Model:
    """A model whose parameters are on the server, and the step that the coordinator sends to a worker."""

    def __init__(self, strategy: tf.distribute.Strategy, name: str, shape: Shape) -> None:
        self.strategy, self.name, self.shape = strategy, name, shape
        with strategy.scope():
            self.network = build(name, shape)
            self.optimizer = keras.optimizers.SGD()
            self.optimizer.build(self.network.trainable_variables)

    def start_again(self, seed: int) -> None:
        """Set the parameters to the seed's first weights, and the optimizer's velocities to zero.

        Args:
            seed: Of the first weights.
        """
        load(self.network, initial(self.name, self.shape, seed))
        for velocity in self.optimizer.momentums:
            velocity.assign(tf.zeros(velocity.shape))

    @tf.function
    def step(self, number: tf.Tensor, momentum: float, *, applied: bool) -> tf.Tensor:
        """Make one step on a worker, as a graph.

        Args:
            number: Counts the commands from `prepare` on, a scalar; the worker waits until it has received as many.
            momentum: Of SGD, from 0 to 1.
            applied: False: compute gradients only; the parameters stay as they are.

        Returns:
            (4,), float64: the worker's index, start and end by its host's clock (seconds since 1970), mean loss (nats).
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
        """Compute gradients, wait until the host's share of a core has computed them, and have the server apply them.

        Args:
            images: Of one worker: (images, height, width, channels), float32.
            labels: (images,), int64.
            momentum: Of SGD, from 0 to 1.
            applied: Whether the server applies the gradients.

        Returns:
            The mean loss of these images, a scalar; and what must be computed before the step is over.
        """
        with tf.GradientTape() as tape:
            outputs = self.network(images, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, outputs))
        gradients = tape.gradient(loss, self.network.trainable_variables)
        if not applied:
            return loss, gradients
        self.optimizer.momentum = momentum
        pairs = zip(gradients, self.network.trainable_variables, strict=True)
        return loss, [self.optimizer.apply_gradients(pairs)]


class Chief:
    """The coordinator: it schedules the workers' steps, and tests what was learned."""

    def __init__(self, assignment: Assignment) -> None:
        use(assignment)
        self.paths = assignment.datasets
        self.world_size = assignment.world_size
        self.on_gpus = assignment.devices == "gpu"  # the workers; GPU memory is not estimated
        self.strategy = tf.distribute.ParameterServerStrategy(resolver(assignment, "worker", "ps", "chief"))
        self.coordinator = tf.distribute.coordinator.ClusterCoordinator(self.strategy)
        self.used_bytes = used_bytes()
        self.models: dict[tuple[str, Shape], Model] = {}
        self.commands = 0

    def connect(self, command: Connect) -> Connected:
        """Make the models that will be measured."""
        for each in command.models:
            key = each.model, each.image_shape
            self.models[key] = Model(self.strategy, *key)
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point; a step on each worker, not applied, warms caches and shows whether memory suffices."""
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
        """Schedule steps on free workers until each worker has made enough.

        Args:
            steps: How many each worker must make; fast workers make more.
            applied: Whether the server applies their gradients.

        Returns:
            By worker, its first `steps` steps: start and end by its host's clock (s since 1970), mean loss (nats).
        """
        made: list[list[list[float]]] = [[] for _ in range(self.world_size)]
        wanted = steps * self.world_size
        while min(map(len, made)) < steps:
            scheduled = [self.schedule(applied) for _ in range(wanted)]
            self.coordinator.join()
            for index, *step in (each.fetch() for each in scheduled):
                made[int(index)].append(step)
            wanted = self.world_size  # fast workers may have made a slow one's share
        return [sorted(of_worker)[:steps] for of_worker in made]

    def schedule(self, applied: bool) -> Any:
        """Schedule one step on the next free worker; `fetch` of what is returned gives `Model.step`'s result."""
        arguments = tf.constant(self.commands), self.point.momentum
        return self.coordinator.schedule(self.model.step, arguments, {"applied": applied})

    def train(self, command: Train) -> Trained:
        """Train; a worker's step lasts from the end of its previous one to its own end, so its waiting counts."""
        self.commands += 1
        if command.from_fresh:
            self.model.start_again(self.seed)
        made = self.steps(command.steps, applied=True)
        ends = [[of_worker[0][0], *(ended for _, ended, _ in of_worker)] for of_worker in made]
        step_times_ms = [(np.diff(times) * 1e3).tolist() for times in ends]
        return Trained(step_times_ms, float(np.mean([of_worker[-1][2] for of_worker in made])))

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters; test and save them if the command asks for it."""
        network = self.model.network
        parameters = dump(network)
        if command.save_to:
            np.savez(command.save_to, *parameters)
        batches = batches_of(self.point, self.paths, seed=self.seed, rank=0, world_size=1)
        return Concluded(fingerprint(parameters), evaluation(network, batches) if command.evaluate else None)


class Worker(Idle):
    """Provides its batches to the graph that TensorFlow runs in this process for the coordinator."""

    def __init__(self, assignment: Assignment) -> None:
        self.index = assignment.index
        self.world_size = assignment.world_size
        self.paths = assignment.datasets
        self.timeout_s = assignment.timeout_s
        self.commands = 0
        self.changed = threading.Condition()
        # The coordinator makes the graph and cannot refer to functions of this process but by fixed names.
        self.functions = {NEXT: self.next}
        script_ops._py_funcs._funcs.update(self.functions)
        self.server = start_server(assignment)

    def prepare(self, command: Prepare) -> Prepared:
        """Make the batches of a point; if it does not fit into memory, the coordinator starts no step of it."""
        with self.changed:
            self.batches = batches_of(
                command.point, self.paths, seed=command.seed, rank=self.index, world_size=self.world_size
            )
            self.commands += 1
            self.changed.notify_all()
        return Prepared(fits=True)

    def train(self, command: Train) -> Trained:
        """Continue with the next batch, or begin with the first one again."""
        with self.changed:
            if command.from_fresh:
                self.batches.start_again()
            self.commands += 1
            self.changed.notify_all()
        return Trained()

    def next(self, number: np.ndarray) -> tuple[np.float64, np.ndarray, np.ndarray]:
        """Get the next batch, once this worker has received the command that the coordinator's step belongs to.

        Args:
            number: Of that command (see `Model.step`).

        Returns:
            This worker's index, images (images, height, width, channels) in float32, and labels (images,) in int64.

        Raises:
            TimeoutError: If that command has not arrived within the assignment's timeout.
        """
        with self.changed:
            if not self.changed.wait_for(lambda: self.commands >= number, self.timeout_s):
                raise TimeoutError(f"worker {self.index} received no command within {self.timeout_s:g} s")
            images, labels = next(self.batches)
        return np.float64(self.index), images, labels


class Server(Idle):
    """Holds the parameters; TensorFlow's own server does all the work."""

    def __init__(self, assignment: Assignment) -> None:
        self.server = start_server(assignment)


MEMBERS: dict[str, Callable[[Assignment], Member]] = {"worker": Worker, "ps": Server, "chief": Chief}


def member_of(assignment: Assignment) -> Member:
    """Make the member that a role asks for.

    Args:
        assignment: Of this process.

    Returns:
        The member, which has joined its group.
    """
    return MEMBERS[assignment.role](assignment)


def main(address: str, rank: int) -> None:
    """Run this member of a worker group until the supervisor sends `Stop`.

    Args:
        address: Of the control socket (see `protocol.channel.connect`).
        rank: Of this member.
    """
    work(address, rank, member_of, versions, reconnects=False, why_not=why_not)
