"""TensorFlow's synchronous parameter server: graphs and sessions, as TensorFlow 1 replicates training.

TensorFlow 2's ParameterServerStrategy is asynchronous only. So this module works as TensorFlow's SyncReplicasOptimizer:
the parameters are on the server, `ps`, each with an accumulator to which every worker adds its gradient; the server
takes the sums when all have come, takes a step, and releases the workers. SyncReplicasOptimizer has one queue of tokens
for all, of which a fast worker may take two; here each worker has its own queue, so that it takes part in each step
once.

All receive commands over the control socket (see `protocol.messages`); each worker times its own steps.
"""

import os
import time
from collections.abc import Callable

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # so that an error is in the log's last lines
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
from ddlbench.workers.common.pace import Pace
from ddlbench.workers.common.service import Member, work
from ddlbench.workers.tensorflow.evaluation import evaluation, fingerprint
from ddlbench.workers.tensorflow.gpu import versions, why_not
from ddlbench.workers.tensorflow.group import (
    is_out_of_memory,
    refuse_what_cannot_fit,
    start_server,
    use,
)
from ddlbench.workers.tensorflow.shared_models import Held, Meeting, Replica, held

FIRST_STEPS = 4  # before training, so that TCP's windows grow; on a slow link this would take many steps


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
        """Make the models that will be measured, and take the first steps of each with one black image.

        In these steps TensorFlow prepares its graphs, and TCP's windows grow to what training needs.

        Args:
            command: these models; those that do not fit into the server's memory are left out.

        Returns:
            That it is done.
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
        """Take a point; a step of it, on this worker alone, warms caches and shows whether it fits into memory.

        Args:
            command: the point, and the seed of its batches.

        Returns:
            Whether the step fits here, and the number of parameters; the server reports models that do not fit there.
        """
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
        """Train some steps, each timed from its start until the server has taken it.

        Args:
            command: how many, and whether to begin with the first batch again.

        Returns:
            Step times in ms of wall-clock time, and the last step's loss.
        """
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
        """Do nothing: the server has the parameters.

        Args:
            command: not read.

        Returns:
            No hash.
        """
        return Concluded()


class Server:
    """Holds the parameters, takes the steps, and tests the result."""

    def __init__(self, assignment: Assignment) -> None:
        use(assignment)
        self.assignment = assignment
        self.server = start_server(assignment)

    def connect(self, command: Connect) -> Connected:
        """Make the models that will be measured, and take the first steps with the workers.

        Args:
            command: these models; those that do not fit into memory are left out.

        Returns:
            That it is done.
        """
        self.models = {
            each: Held(self.server, Meeting(self.assignment, *each))
            for each in held(self.assignment, command.models)
        }
        for model in self.models.values():
            model.start_again(seed=0)
            model.train(FIRST_STEPS, rate=0.0, momentum=0.0)
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point with fresh parameters, and let the workers try a step of it.

        Args:
            command: the point, and the seed of its parameters.

        Returns:
            Whether its model fits into memory.
        """
        self.point, self.seed = command.point, command.seed
        if self.point.key not in self.models:
            return Prepared(fits=False)
        self.model = self.models[self.point.key]
        self.model.start_again(self.seed)
        self.model.train(0, rate=0.0, momentum=0.0)
        return Prepared(fits=True)

    def train(self, command: Train) -> Trained:
        """Take some steps with the workers.

        Args:
            command: how many, and whether from fresh parameters.

        Returns:
            No times: the workers report them.
        """
        if command.from_fresh:
            self.model.start_again(self.seed)
        self.model.train(command.steps, self.point.learning_rate, self.point.momentum)
        return Trained()

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters; test and save them if asked.

        Args:
            command: whether to test the parameters, and where to save them.

        Returns:
            The hash, and the test's result if there is one.
        """
        parameters = self.model.parameters()
        if command.save_to:
            np.savez(command.save_to, *parameters)
        tested = None
        if command.evaluate:
            batches = batches_of(self.point, self.assignment.datasets, seed=self.seed, rank=0, world_size=1)
            tested = evaluation(self.model.copied(), batches)
        return Concluded(fingerprint(parameters), tested)


MEMBERS: dict[str, Callable[[Assignment], Member]] = {"worker": Worker, "ps": Server}


def member_of(assignment: Assignment) -> Member:
    """Make the member that an assignment describes.

    Args:
        assignment: of this process; its role is a key of MEMBERS.

    Returns:
        The server or a worker.
    """
    return MEMBERS[assignment.role](assignment)


def main(address: str, rank: int) -> None:
    """Serve the supervisor until it sends Stop.

    Args:
        address: of the control socket.
        rank: of this member.
    """
    work(address, rank, member_of, versions, reconnects=False, why_not=why_not)
