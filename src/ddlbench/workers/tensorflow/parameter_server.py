"""TensorFlow's asynchronous parameter server (ParameterServerStrategy): its coordinator, its server, its workers.

The coordinator, `chief`, has all workers compute steps: each reads the parameters from the server, `ps`, and sends it
gradients. TensorFlow gives the next step to whichever worker is free, after a round trip to its coordinator; so a fast
worker makes more steps than a slow one. A worker's own Python only provides its batches.

All members receive commands over the control socket (see `protocol.messages`); the coordinator reports all steps.
"""

import os
import threading

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "1")  # keep the error in a log's last lines
os.environ.setdefault("GRPC_FAIL_FAST", "use_caller")  # as in TensorFlow's tutorial: servers may start late

import numpy as np
from tensorflow.python.ops import script_ops

from ddlbench.protocol.messages import Assignment, Prepare, Prepared, Train, Trained
from ddlbench.workers.common.batches import batches_of
from ddlbench.workers.common.service import Idle, await_turn, of_role, work
from ddlbench.workers.tensorflow.coordinator import Chief
from ddlbench.workers.tensorflow.gpu import versions, why_not
from ddlbench.workers.tensorflow.group import start_server
from ddlbench.workers.tensorflow.server_model import NEXT


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
        """Make the batches of a point; if it does not fit into memory, the coordinator starts no step of it.

        Args:
            command: the point, and the seed of its batches.

        Returns:
            That the batches fit.
        """
        with self.changed:
            self.batches = batches_of(
                command.point, self.paths, seed=command.seed, rank=self.index, world_size=self.world_size
            )
            self.commands += 1
            self.changed.notify_all()
        return Prepared(fits=True)

    def train(self, command: Train) -> Trained:
        """Continue with the next batch, or begin with the first one again.

        Args:
            command: whether from fresh parameters; the coordinator counts and times the steps.

        Returns:
            No times.
        """
        await_turn(self.index, command)
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


def main(address: str, rank: int) -> None:
    """Run this member of a worker group until the supervisor sends `Stop`.

    Args:
        address: Of the control socket (see `protocol.channel.connect`).
        rank: Of this member.
    """
    work(
        address,
        rank,
        of_role({"worker": Worker, "ps": Server, "chief": Chief}),
        versions,
        reconnects=False,
        why_not=why_not,
    )
