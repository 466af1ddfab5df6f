"""TensorFlow's synchronous parameter server: graphs and sessions, as TensorFlow 1 replicates training.

TensorFlow 2's ParameterServerStrategy is asynchronous only. So it is done as TensorFlow's SyncReplicasOptimizer does:
the parameters lie on the server, `ps`, each with an accumulator to which every worker adds its gradient; the server
takes the sums when all have come, descends, and releases the workers. There they share one queue of tokens, of which a
fast worker may take two; here each has its own, so that it makes one step of each.

All are told what to do over the control socket (see `protocol.messages`); each worker times its own steps.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # a log's last lines should tell what went wrong
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")  # servers may start late

import numpy as np
import tensorflow as tf

from ddlbench.protocol.messages import (
    Assignment,
    Conclude,
    Concluded,
    Connect,
    Connected,
    ModelShape,
    Prepare,
    Prepared,
    Train,
    Trained,
)
from ddlbench.workers.common.architectures import Shape, initial
from ddlbench.workers.common.batches import batches_of
from ddlbench.workers.common.devices import on_gpu
from ddlbench.workers.common.memory import parameter_bytes, refuse, used_bytes
from ddlbench.workers.common.pace import Pace
from ddlbench.workers.common.service import Member, work
from ddlbench.workers.tensorflow.evaluation import evaluation, fingerprint
from ddlbench.workers.tensorflow.gpu import versions, why_not
from ddlbench.workers.tensorflow.group import (
    is_out_of_memory,
    refuse_what_cannot_fit,
    start_server,
    threads,
    use,
)
from ddlbench.workers.tensorflow.models import build, from_keras, to_keras
from ddlbench.workers.tensorflow.training import then

Key = tuple[str, Shape]  # of a model: its name, and the shape of its images

v1 = tf.compat.v1
SERVER = "/job:ps/task:0"
NEVER_LATE = tf.int64.max  # as the step of a gradient: no accumulator refuses it
FIRST_STEPS = 4  # first steps: on a slow link TCP's windows would take many to grow
HELD = (
    3  # times that the server has parameters, besides what comes: themselves, velocities, sums of gradients
)


class Meeting:
    """A model's graph as far as all members have it: its network, and on the server what they meet at.

    What is on the server is known there by its name; that of each model is in a container of its own.
    """

    def __init__(self, assignment: Assignment, name: str, shape: Shape) -> None:
        self.name, self.shape = name, shape
        self.graph, self.container = tf.Graph(), "-".join((name, *map(str, shape)))
        task = f"/job:{assignment.role}/task:{assignment.index}"
        self.place = v1.train.replica_device_setter(
            cluster=tf.train.ClusterSpec(assignment.cluster), worker_device=task
        )
        self.options = threads(assignment)
        self.options.device_filters.extend({SERVER, task})  # a session waits for no other member
        self.options.operation_timeout_in_ms = int(1000 * assignment.timeout_s)
        with self.graph.as_default(), self.graph.container(self.container), v1.device(self.place):
            self.network = build(name, shape)
        self.variables = self.network.trainable_variables
        with self.graph.as_default(), self.graph.container(self.container), tf.device(SERVER):
            self.sums = [
                v1.ConditionalAccumulator(
                    tf.float32, each.shape, shared_name=f"sum{number}", reduction_type="SUM"
                )
                for number, each in enumerate(self.variables)
            ]
            self.releases = [
                tf.queue.FIFOQueue(2, tf.bool, [()], shared_name=f"release{worker}")
                for worker in range(assignment.world_size)
            ]


class Replica:
    """A worker's part of a model: it computes gradients of its images, has them added up, and waits for its release."""

    def __init__(
        self, assignment: Assignment, server: tf.distribute.Server, pace: Pace, meeting: Meeting
    ) -> None:
        network, place = meeting.network, meeting.place
        with meeting.graph.as_default(), meeting.graph.container(meeting.container), v1.device(place):
            self.images = v1.placeholder(tf.float32, (None, *meeting.shape))
            self.labels = v1.placeholder(tf.int64, (None,))
            self.batch_size = v1.placeholder(tf.float32, ())
            before = len(meeting.graph.get_operations())
            outputs = network(self.images, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(self.labels, outputs)
            self.loss = tf.reduce_mean(losses)
            gradients = tf.gradients(tf.reduce_sum(losses) / self.batch_size, meeting.variables)
            gradients = then(pace, pace.keep, gradients)
            self.computed = tf.group(gradients)
            added = [
                each.apply_grad(gradient, NEVER_LATE)
                for each, gradient in zip(meeting.sums, gradients, strict=True)
            ]
            # The running statistics of BatchNorm are the first worker's, as those of other libraries' first replicas.
            statistics = [
                operation
                for operation in meeting.graph.get_operations()[before:]
                if operation.type == "AssignSubVariableOp" and assignment.index == 0
            ]
            self.release = meeting.releases[assignment.index].dequeue()
            with tf.control_dependencies([*added, *statistics]):
                self.released = meeting.releases[assignment.index].dequeue()
        self.parameter_count: int = network.count_params()
        self.session = v1.Session(server.target, graph=meeting.graph, config=meeting.options)

    def step(self, images: np.ndarray, labels: np.ndarray, batch_size: int, *, together: bool) -> float:
        """One step of synchronous SGD, or, not `together`, what this worker computes of it; returns its loss."""
        fed = {self.images: images, self.labels: labels, self.batch_size: batch_size}
        loss, _ = self.session.run([self.loss, self.released if together else self.computed], fed)
        return float(loss)


class Held:
    """The server's part of a model: parameters, what it makes of the sums, and how it releases the workers."""

    def __init__(self, server: tf.distribute.Server, meeting: Meeting) -> None:
        self.meeting = meeting
        with meeting.graph.as_default(), meeting.graph.container(meeting.container), tf.device(SERVER):
            self.rate, self.momentum = (v1.placeholder(tf.float32, ()) for _ in range(2))
            self.release = [each.enqueue(True) for each in meeting.releases]
            optimizer = v1.train.MomentumOptimizer(self.rate, self.momentum)
            workers = len(meeting.releases)
            sums = [each.take_grad(workers) for each in meeting.sums]
            descent = optimizer.apply_gradients(zip(sums, meeting.variables, strict=True))
            with tf.control_dependencies([descent]):
                self.descend = [each.enqueue(True) for each in meeting.releases]
            self.begin = v1.variables_initializer([*meeting.network.weights, *optimizer.variables()])
        self.session = v1.Session(server.target, graph=meeting.graph, config=meeting.options)

    def start_again(self, seed: int) -> None:
        """Set parameters, velocities and running statistics to what the seed says."""
        fresh = to_keras(initial(self.meeting.name, self.meeting.shape, seed))
        variables = self.meeting.variables
        fed = {each.initializer.inputs[1]: array for each, array in zip(variables, fresh, strict=True)}
        self.session.run(self.begin, fed)

    def train(self, steps: int, rate: float, momentum: float) -> None:
        """Release the workers, and descend so many times, whenever the gradients of all have come."""
        self.session.run(self.release)
        for _ in range(steps):
            self.session.run(self.descend, {self.rate: rate, self.momentum: momentum})

    def parameters(self) -> list[np.ndarray]:
        """The parameters now, in the canonical order and layout."""
        return from_keras(self.session.run(self.meeting.variables))

    def copied(self) -> tf.keras.Model:
        """A network that has the parameters and running statistics of now, outside of the graph."""
        network = build(self.meeting.name, self.meeting.shape)
        network.set_weights(self.session.run(self.meeting.network.weights))
        return network


class Worker:
    """Computes gradients of its share of each batch."""

    def __init__(self, assignment: Assignment) -> None:
        use(assignment)
        self.assignment = assignment
        self.pace = Pace(
            assignment.core_share, time.process_time
        )  # TensorFlow computes in threads of its own
        self.server = start_server(assignment)
        self.used_bytes = used_bytes()

    def connect(self, command: Connect) -> Connected:
        """Make the models that will be measured, and the first steps of each, of nothing.

        In these TensorFlow gets its graphs ready, and TCP's windows grow to what training needs.
        """
        self.models = {
            each: Replica(self.assignment, self.server, self.pace, Meeting(self.assignment, *each))
            for each in held(self.assignment, command.models)
        }
        for (_, shape), model in self.models.items():
            model.session.run(model.release)
            for _ in range(FIRST_STEPS):
                model.step(np.zeros((1, *shape)), np.zeros(1), 1, together=True)
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point; a step of it, on this worker alone, warms caches and tells whether it fits into memory."""
        self.point = point = command.point
        world_size = self.assignment.world_size
        if point.key not in self.models:  # for which the server has no room
            return Prepared(fits=True)
        self.model = self.models[point.key]
        self.model.session.run(self.model.release)
        try:
            if not on_gpu(self.assignment):
                refuse_what_cannot_fit(point, world_size, self.used_bytes)
            self.batches = batches_of(
                point,
                self.assignment.datasets,
                seed=command.seed,
                rank=self.assignment.index,
                world_size=world_size,
            )
            self.model.step(*next(self.batches), point.batch_size, together=False)
        except (tf.errors.OpError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            return Prepared(fits=False)
        return Prepared(fits=True, parameter_count=self.model.parameter_count)

    def train(self, command: Train) -> Trained:
        """Time some steps, each from its start until the server has made it, in milliseconds of wall clock."""
        if command.from_fresh:
            self.batches.start_again()
        self.model.session.run(self.model.release)
        step_times_ms: list[float] = []
        for _ in range(command.steps):
            started = time.perf_counter()
            self.pace.begin()
            loss = self.model.step(*next(self.batches), self.point.batch_size, together=True)
            step_times_ms.append((time.perf_counter() - started) * 1e3)
        return Trained([step_times_ms], loss)

    def conclude(self, command: Conclude) -> Concluded:
        """Nothing is known here."""
        return Concluded()


class Server:
    """Holds the parameters, takes the steps, and knows what was learnt."""

    def __init__(self, assignment: Assignment) -> None:
        use(assignment)
        self.assignment = assignment
        self.server = start_server(assignment)

    def connect(self, command: Connect) -> Connected:
        """Make the models that will be measured, and the first steps with the workers."""
        self.models = {
            each: Held(self.server, Meeting(self.assignment, *each))
            for each in held(self.assignment, command.models)
        }
        for model in self.models.values():
            model.start_again(seed=0)
            model.train(FIRST_STEPS, rate=0.0, momentum=0.0)
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point, and let the workers try a step of it."""
        self.point, self.seed = command.point, command.seed
        if self.point.key not in self.models:
            return Prepared(fits=False)
        self.model = self.models[self.point.key]
        self.model.start_again(self.seed)
        self.model.train(0, rate=0.0, momentum=0.0)
        return Prepared(fits=True)

    def train(self, command: Train) -> Trained:
        """Take some steps with the workers."""
        if command.from_fresh:
            self.model.start_again(self.seed)
        self.model.train(command.steps, self.point.learning_rate, self.point.momentum)
        return Trained()

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters; evaluate the test set and save them if asked."""
        parameters = self.model.parameters()
        if command.save_to:
            np.savez(command.save_to, *parameters)
        tested = None
        if command.evaluate:
            batches = batches_of(self.point, self.assignment.datasets, seed=self.seed, rank=0, world_size=1)
            tested = evaluation(self.model.copied(), batches)
        return Concluded(fingerprint(parameters), tested)


def held(assignment: Assignment, models: Sequence[ModelShape]) -> Iterator[Key]:
    """The models for which a host has room on which they, their velocities and all workers' gradients are.

    The server's is as large as the workers'; so they leave out the same.
    """
    for each in models:
        key = each.model, each.image_shape
        with suppress(MemoryError):
            refuse((HELD + assignment.world_size) * parameter_bytes(*key), "the server's parameters take")
            yield key


MEMBERS: dict[str, Callable[[Assignment], Member]] = {"worker": Worker, "ps": Server}


def member_of(assignment: Assignment) -> Member:
    """What its role makes this process."""
    return MEMBERS[assignment.role](assignment)


def main(address: str, rank: int) -> None:
    """Serve the supervisor at `address` as `rank` until it says stop."""
    work(address, rank, member_of, versions, reconnects=False, why_not=why_not)
