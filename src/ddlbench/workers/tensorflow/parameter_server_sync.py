"""TensorFlow's synchronous parameter server: graphs and sessions, as TensorFlow 1 replicates training.

TensorFlow 2's ParameterServerStrategy is asynchronous only. So this follows TensorFlow's SyncReplicasOptimizer: the
parameters lie on the server, `ps`, each with an accumulator to which every worker adds its gradient; once all have
arrived, the server takes the sums, descends, and releases the workers. In that optimizer the workers share one queue of
tokens, of which a fast worker may take two; here each worker has its own queue, so that it makes one step of each.

All members receive commands over the control socket (see `protocol.messages`); each worker times its own steps.
"""

import os
import time
from math import ceil

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # keep the error in a log's last lines
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")  # servers may start late

import numpy as np
import tensorflow as tf

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
from ddlbench.workers.common.devices import on_gpu
from ddlbench.workers.common.memory import used_bytes
from ddlbench.workers.common.progress import counted
from ddlbench.workers.common.service import of_role, work
from ddlbench.workers.tensorflow.evaluation import evaluation, fingerprint
from ddlbench.workers.tensorflow.gpu import versions, why_not
from ddlbench.workers.tensorflow.group import (
    is_out_of_memory,
    refuse_what_cannot_fit,
    start_server,
    use,
)
from ddlbench.workers.tensorflow.shared_models import Replica, ServerPart, SharedGraph, models_that_fit

FIRST_STEPS = 4  # enough for TCP's windows to grow on a slow link


class Worker:
    """Computes gradients of its share of each batch."""

    def __init__(self, assignment: Assignment) -> None:
        use(assignment)
        self.assignment = assignment
        self.server = start_server(assignment)
        self.used_bytes = used_bytes()

    def connect(self, command: Connect) -> Connected:
        """Make the models that will be measured, and take the first steps of each, with an image of zeros.

        In these steps TensorFlow optimises its graphs, and TCP's windows grow to what training needs.

        Args:
            command: The models and their image shapes.

        Returns:
            The message that it is done.
        """
        self.models = {
            each: Replica(self.assignment, self.server, SharedGraph(self.assignment, *each))
            for each in models_that_fit(self.assignment, command.models)
        }
        for (_, shape), model in self.models.items():
            model.session.run(model.release)
            for _ in range(FIRST_STEPS):
                model.step(np.zeros((1, *shape)), np.zeros(1), 1, together=True)
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point, and try a step of it without communication: it warms caches and shows whether memory suffices.

        Args:
            command: The point, and the seed of its batches.

        Returns:
            Whether the step fits into this worker's memory, and if so how many parameters the model has. Where the
            model does not fit on the server: True without a number, as the server reports that.
        """
        self.point = point = command.point
        world_size = self.assignment.world_size
        if point.key not in self.models:  # the server has no memory for it, and reports that
            return Prepared(fits=True)
        self.model = self.models[point.key]
        self.model.session.run(self.model.release)
        try:
            if not on_gpu(self.assignment):
                refuse_what_cannot_fit("tensorflow_parameter_server_sync", point, world_size, self.used_bytes)
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
        """Time steps, each from its start until the server has applied the gradients and released this worker.

        Args:
            command: How many steps, and whether to begin with the first batch again.

        Returns:
            This worker's step times in milliseconds of wall clock, and the loss of its last step (nats per image).
        """
        if command.from_fresh:
            self.batches.start_again()
        self.model.session.run(self.model.release)
        step_times_ms: list[float] = []
        for _ in counted(command.steps):
            started = time.perf_counter()
            loss = self.model.step(*next(self.batches), self.point.batch_size, together=True)
            step_times_ms.append((time.perf_counter() - started) * 1e3)
        return Trained([step_times_ms], loss)

    def conclude(self, command: Conclude) -> Concluded:
        """Report nothing: the parameters are on the server.

        Args:
            command: Not used.

        Returns:
            A message without hash and test result.
        """
        return Concluded()


class Server:
    """Holds the parameters, applies the sums of gradients, and tests what was learned."""

    part: type[ServerPart] = ServerPart  # of each model

    def __init__(self, assignment: Assignment) -> None:
        use(assignment)
        self.assignment = assignment
        self.server = start_server(assignment)

    def connect(self, command: Connect) -> Connected:
        """Make the models that will be measured, and take the first steps with the workers, at a learning rate of 0.

        Args:
            command: The models and their image shapes.

        Returns:
            The message that it is done.
        """
        self.models = {
            each: self.part(self.server, SharedGraph(self.assignment, *each))
            for each in models_that_fit(self.assignment, command.models)
        }
        for model in self.models.values():
            model.start_again(seed=0)
            model.train(FIRST_STEPS, rate=0.0, momentum=0.0)
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point, and let the workers try a step of it.

        Args:
            command: The point, and the seed of its parameters.

        Returns:
            Whether the server has memory for the model.
        """
        self.point, self.seed = command.point, command.seed
        if self.point.key not in self.models:
            return Prepared(fits=False)
        self.model = self.models[self.point.key]
        self.model.start_again(self.seed)
        self.model.train(0, rate=0.0, momentum=0.0)
        return Prepared(fits=True)

    def train(self, command: Train) -> Trained:
        """Take steps with the workers.

        Args:
            command: How many steps, and whether to begin with fresh parameters.

        Returns:
            A message without times: the workers report theirs.
        """
        if command.from_fresh:
            self.model.start_again(self.seed)
        self.model.train(command.steps, self.point.learning_rate, self.point.momentum)
        return Trained()

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters; test and save them if the command asks for it.

        Args:
            command: Whether to test, and the .npz file to save to (None: do not save).

        Returns:
            The hash of the parameters, and the test's result, if any.
        """
        parameters = self.model.parameters()
        if command.save_to:
            np.savez(command.save_to, *parameters)
        tested = None
        if command.evaluate:
            batches = batches_of(self.point, self.assignment.datasets, seed=self.seed, rank=0, world_size=1)
            images = ceil(self.point.batch_size / self.assignment.world_size)
            tested = evaluation(self.model.copied(), batches, images)
        return Concluded(fingerprint(parameters), tested)


def main(address: str, rank: int) -> None:
    """Run this member of a worker group until the supervisor sends `Stop`.

    Args:
        address: Of the control socket (see `protocol.channel.connect`).
        rank: Of this member.
    """
    work(
        address, rank, of_role({"worker": Worker, "ps": Server}), versions, reconnects=False, why_not=why_not
    )
