"""TensorFlow's asynchronous parameter server with workers whose compute is replayed.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.tensorflow.parameter_server_replay

Coordinator, server and schedule are those of `parameter_server`. The coordinator's graph calls functions of the
worker's Python by fixed names: one that takes an array of parameters from the server and lets its forward pass take its
time, one that gives an array of gradients when it is due, and the optimizer.
"""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # keep the error in a log's last lines
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")  # servers may start late

import threading

import numpy as np
from tensorflow.python.ops import script_ops

from ddlbench.protocol.messages import (
    Assignment,
    Connect,
    Connected,
    Prepare,
    Prepared,
    Shape,
    Train,
    Trained,
)
from ddlbench.workers.common.replay.arrays import parameter_shapes
from ddlbench.workers.common.replay.compute import ReplayedCompute
from ddlbench.workers.common.service import Idle, await_turn, of_role, work
from ddlbench.workers.tensorflow.gpu import versions
from ddlbench.workers.tensorflow.group import start_server
from ddlbench.workers.tensorflow.parameter_server import Server
from ddlbench.workers.tensorflow.replay_coordinator import BACKWARD, BEGIN, FORWARD, OPTIMIZER, ReplayChief
from ddlbench.workers.tensorflow.replayed_graph import Gradients


class Model:
    """The shapes of a model's gradients, and the time that each takes.

    Args:
        name: of a model in `architectures`.
        shape: of an image, (height, width, channels).
    """

    def __init__(self, name: str, shape: Shape) -> None:
        self.shapes = list(parameter_shapes(name, shape))
        self.compute = ReplayedCompute(len(self.shapes))


class Worker(Idle):
    """Takes the time of each part of a step, in the graph that TensorFlow runs in this process for the coordinator.

    Args:
        assignment: of the worker.
    """

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.gradients = Gradients(assignment)
        self.models: list[Model] = []
        self.numbers: dict[tuple[str, Shape], int] = {}
        self.commands = 0
        self.changed = threading.Condition()
        self.functions = {
            BEGIN: self.begin,
            FORWARD: self.forward,
            BACKWARD: self.backward,
            OPTIMIZER: self.optimizer,
        }
        script_ops._py_funcs._funcs.update(self.functions)
        self.server = start_server(assignment)

    def connect(self, command: Connect) -> Connected:
        """Make the gradients of all models; the coordinator then makes first steps, which take no device's time.

        Args:
            command: the models that will be measured.

        Returns:
            That it is done.
        """
        for each in command.models:
            key = each.model, each.image_shape
            self.numbers[key] = len(self.models)
            self.models.append(Model(*key))
            self.gradients.hold(self.models[-1].shapes)
        self.note_command()
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point: the step that is replayed.

        Args:
            command: the point.

        Returns:
            That it fits.
        """
        self.model = self.models[self.numbers[command.point.key]]
        self.model.compute.take(self.assignment, command.point.replay)
        self.note_command()
        return Prepared(fits=True)

    def train(self, command: Train) -> Trained:
        """Let the coordinator's steps begin.

        Args:
            command: whether this is a new repetition.

        Returns:
            No times: the coordinator reports them.
        """
        if command.from_fresh:
            self.model.compute.start_again()
        await_turn(self.assignment.index, command)
        self.note_command()
        return Trained()

    def note_command(self) -> None:
        """Count a command that has been carried out."""
        with self.changed:
            self.commands += 1
            self.changed.notify_all()

    def begin(self, command: np.ndarray, model: np.ndarray) -> np.float64:
        """Begin a step, once this worker has received the command that it belongs to.

        Args:
            command: its number.
            model: its number.

        Returns:
            This worker's index.

        Raises:
            TimeoutError: the command has not arrived in time.
        """
        timeout_s = self.assignment.timeout_s
        with self.changed:
            if not self.changed.wait_for(lambda: self.commands >= command, timeout_s):
                raise TimeoutError(
                    f"worker {self.assignment.index} received no command within {timeout_s:g} s"
                )
        self.model = self.models[int(model)]
        return np.float64(self.assignment.index)

    def forward(self, parameter: np.ndarray, place: np.ndarray) -> np.float32:
        """Let an array's part of the forward pass take its time.

        Args:
            parameter: the array, as it came from the server.
            place: of it, from 0.

        Returns:
            A number, for what depends on it.
        """
        self.model.compute.forward(range(int(place), int(place) + 1))
        return np.float32(parameter.flat[0])

    def backward(self, place: np.ndarray) -> np.ndarray:
        """Let the time pass before an array's gradient is ready.

        Args:
            place: of the array, from 0.

        Returns:
            The gradient, which is not copied.
        """
        self.model.compute.backward(range(int(place), int(place) + 1))
        return self.gradients.of(self.model.shapes[int(place)])

    def optimizer(self) -> np.float32:
        """Let the optimizer take its time.

        Returns:
            A number, for what depends on it.
        """
        self.model.compute.optimizer()
        return np.float32(0)


def main(address: str, rank: int) -> None:
    """Run this member of a worker group until the supervisor sends `Stop`.

    Args:
        address: Of the control socket (see `protocol.channel.connect`).
        rank: Of this member.
    """
    work(
        address,
        rank,
        of_role({"worker": Worker, "ps": Server, "chief": ReplayChief}),
        versions,
        reconnects=False,
    )
