"""TensorFlow's synchronous parameter server with workers whose compute is replayed.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.tensorflow.parameter_server_sync_replay

Accumulators, releases and updates are those of `parameter_server_sync`. A worker reads all parameters at the beginning
of a step, as TensorFlow's graphs do; the forward pass of each array begins when that one has come. It takes the
optimizer's time after its release.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # keep the error in a log's last lines
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")  # servers may start late

from collections.abc import Callable, Iterator, Mapping

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
)
from ddlbench.workers.common.replay.arrays import (
    check,
    check_parameters,
    parameter_shapes,
    sum_of_values,
)
from ddlbench.workers.common.replay.compute import ReplayedCompute
from ddlbench.workers.common.replay.worker import ReplayWorker
from ddlbench.workers.common.service import of_role, work
from ddlbench.workers.tensorflow.gpu import versions
from ddlbench.workers.tensorflow.group import start_server, use
from ddlbench.workers.tensorflow.parameter_server_sync import FIRST_STEPS, Server
from ddlbench.workers.tensorflow.replayed_graph import Gradients, backward, ends_of
from ddlbench.workers.tensorflow.shared_models import NEVER_LATE, ServerPart, SharedGraph, models_that_fit

v1 = tf.compat.v1


class Replica:
    """A worker's part of a model: parameters that come, time that passes, gradients for the server's sums.

    Args:
        assignment: of this worker.
        gradients: of this worker.
        server: TensorFlow's server in this process, which runs the session.
        shared: the graph to which it adds its part.
    """

    def __init__(
        self, assignment: Assignment, gradients: Gradients, server: tf.distribute.Server, shared: SharedGraph
    ) -> None:
        self.assignment = assignment
        self.compute = ReplayedCompute(len(shared.variables))
        self.ends: list[list[float]] = [[0.0, 0.0]] * len(shared.variables)
        self.parameter_count = sum(int(np.prod(each.shape)) for each in shared.variables)
        self.steps = 0
        here = f"/job:worker/task:{assignment.index}"
        with shared.graph.as_default(), shared.graph.container(shared.container), tf.device(here):
            shapes = [tuple(each.shape) for each in shared.variables]
            with tf.control_dependencies(self.forward(shared.variables)):
                ready = backward(self.compute, gradients, shapes)
            added = [
                each.apply_grad(gradient, NEVER_LATE)
                for each, gradient in zip(shared.sums, ready, strict=True)
            ]
            self.release = shared.releases[assignment.index].dequeue()
            with tf.control_dependencies(added):
                self.released = shared.releases[assignment.index].dequeue()
        self.session = v1.Session(server.target, graph=shared.graph, config=shared.options)

    def forward(self, parameters: list[tf.Variable]) -> list[tf.Operation]:
        """Make the operations of the forward pass, each of which takes its parameters, so that they are sent.

        Args:
            parameters: on the server.

        Returns:
            The last operation.
        """
        done: list[tf.Operation] = []
        for place, each in enumerate(parameters):
            read = each.read_value()
            with tf.control_dependencies(done):
                done = [tf.numpy_function(self.takes(place), [read], [], stateful=True)]
        return done

    def takes(self, place: int) -> Callable[[np.ndarray], None]:
        """Make the function that one array's part of the forward pass is.

        Args:
            place: of the array, from 0.

        Returns:
            It takes the array.
        """

        def run(parameter: np.ndarray) -> None:
            self.ends[place] = ends_of(parameter)
            self.compute.forward(range(place, place + 1))

        return run

    def start_again(self) -> None:
        """Count steps anew; gradients stay as they are."""
        self.steps = 0

    def step(self) -> None:
        """Replay one step of synchronous SGD."""
        self.session.run(self.released)
        self.compute.optimizer()
        self.steps += 1

    def parts(self) -> Mapping[str, float]:
        """Return nothing: pulling and pushing overlap with both passes."""
        return {}

    def check(self) -> None:
        """Check the parameters with which the last step began.

        Raises:
            RuntimeError: an update is missing.
        """
        check_parameters(self.assignment, self.steps - 1, self.ends)


class Worker(ReplayWorker[Replica]):
    """A worker that computes nothing and pushes as much as one that does.

    Args:
        assignment: of the worker.
    """

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        use(assignment)
        self.server = start_server(assignment)
        self.gradients = Gradients(assignment)

    def connect(self, command: Connect) -> Connected:
        """Make the models that will be measured, and take the first steps of each.

        Args:
            command: these models.

        Returns:
            That it is done.
        """
        for key in models_that_fit(self.assignment, command.models):
            shared = SharedGraph(self.assignment, *key)
            self.models[key] = Replica(self.assignment, self.gradients, self.server, shared)
        for model in self.models.values():
            model.session.run(model.release)
            model.start_again()
            for _ in range(FIRST_STEPS):
                model.step()
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point, once the server has it.

        Args:
            command: the point.

        Returns:
            That it fits, and the number of parameters; where the server has no memory for it, it reports that.
        """
        if command.point.key not in self.models:
            return Prepared(fits=True)
        model = self.models[command.point.key]
        model.session.run(model.release)
        return super().prepare(command)

    def await_others(self) -> None:
        """Wait until the server has begun, which releases all workers at once."""
        assert self.point is not None
        self.point.session.run(self.point.release)


class ReplayServerPart(ServerPart):
    """The same part, whose parameters begin with zeros and descend at a rate of 1, so that the sums are known."""

    steps = 0

    def start_again(self, seed: int) -> None:
        """Set the parameters to zeros.

        Args:
            seed: not used.
        """
        super().start_again(seed)
        self.steps = 0

    def first_weights(self, seed: int) -> Iterator[np.ndarray]:
        """Make zeros.

        Args:
            seed: not used.

        Returns:
            One array for each parameter, in the canonical order and axes.
        """
        shapes = parameter_shapes(self.shared.name, self.shared.shape)
        return (np.zeros(each, np.float32) for each in shapes)

    def train(self, steps: int, rate: float, momentum: float) -> None:
        """Release the workers, then take steps, each once the gradients of all workers have arrived.

        Args:
            steps: how many; 0: only release the workers.
            rate: not used.
            momentum: not used.
        """
        super().train(steps, 1.0, 0.0)
        self.steps += steps


class ReplayServer(Server):
    """The server; its parts are those of replayed points."""

    part = ReplayServerPart

    def conclude(self, command: Conclude) -> Concluded:
        """Check that each worker's gradients have been applied in each step.

        Args:
            command: not used.

        Returns:
            An empty reply.
        """
        assert isinstance(self.model, ReplayServerPart)
        by_all = self.model.steps * sum_of_values(self.assignment.world_size)
        arrays = self.model.session.run(self.model.shared.variables)
        check("parameter", ([-end for end in ends_of(each)] for each in arrays), by_all, by_all)
        return Concluded()


def main(address: str, rank: int) -> None:
    """Run this member of a worker group until the supervisor sends `Stop`.

    Args:
        address: Of the control socket (see `protocol.channel.connect`).
        rank: Of this member.
    """
    work(address, rank, of_role({"worker": Worker, "ps": ReplayServer}), versions, reconnects=False)
