"""PyTorch's parameter server with workers whose compute is replayed: real gradients to the server, its parameters back.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.torch.parameter_server_replay

The calls are those of `parameter_server`: a worker pushes all gradients after its backward pass, and the reply is the
parameters. The server adds gradients up and descends in earnest. A worker takes the optimizer's time after the reply.
"""

import time
from collections.abc import Mapping
from functools import partial
from itertools import pairwise

import torch
from torch.distributed import rpc

from ddlbench.protocol.messages import (
    Assignment,
    Conclude,
    Concluded,
    Connect,
    Connected,
    Shape,
    Train,
    Trained,
)
from ddlbench.workers.common.memory import refuse
from ddlbench.workers.common.replay.arrays import (
    check,
    check_parameters,
    own_value,
    parameter_shapes,
    sum_of_values,
)
from ddlbench.workers.common.replay.compute import ReplayedCompute
from ddlbench.workers.common.replay.worker import ReplayWorker
from ddlbench.workers.common.service import work
from ddlbench.workers.torch.gpu import versions
from ddlbench.workers.torch.parameter_server import SERVER, joined
from ddlbench.workers.torch.replayed_network import ends_of
from ddlbench.workers.torch.server import Server, await_training, echo, push

_WIDENING = 4  # round trips of all parameters


class Model:
    """A worker's gradients of a model, and the server's parameters as they came last.

    Args:
        assignment: of the worker.
        name: of a model in `architectures`.
        shape: of an image, (height, width, channels).
    """

    def __init__(self, assignment: Assignment, name: str, shape: Shape) -> None:
        self.assignment = assignment
        self.gradients = zeros(name, shape)
        self.parameters: list[torch.Tensor] = []
        self.compute = ReplayedCompute(len(self.gradients))
        self.parameter_count = sum(each.numel() for each in self.gradients)
        self.steps = 0
        self.marks_s = (0.0, 0.0, 0.0, 0.0)

    def start_again(self) -> None:
        """Fill all gradients with this worker's value."""
        for each in self.gradients:
            each.fill_(own_value(self.assignment))
        self.steps = 0

    def step(self) -> None:
        """Replay a step: both passes, then one call to the server."""
        began_s = time.perf_counter()
        self.compute.forward()
        forward_s = time.perf_counter()
        self.compute.backward(range(len(self.gradients)))
        backward_s = time.perf_counter()
        self.parameters = rpc.rpc_sync(SERVER, push, args=(self.gradients,))
        self.marks_s = began_s, forward_s, backward_s, time.perf_counter()
        self.compute.optimizer()
        self.steps += 1

    def parts(self) -> Mapping[str, float]:
        """Return how long the last step's passes and its call to the server took, in ms."""
        names = ("forward_ms", "backward_ms", "communication_ms")
        return {
            name: (end_s - begin_s) * 1e3
            for name, (begin_s, end_s) in zip(names, pairwise(self.marks_s), strict=True)
        }

    def check(self) -> None:
        """Check that the parameters have come, with the updates by all workers.

        Raises:
            RuntimeError: an update is missing.
        """
        check_parameters(self.assignment, self.steps, map(ends_of, self.parameters))


def zeros(name: str, shape: Shape) -> list[torch.Tensor]:
    """Make arrays as large as a model's parameters.

    Each has its own memory: of a view, RPC sends all that lies in the same memory, if that is less than twice as much.

    Args:
        name: of a model in `architectures`.
        shape: of an image, (height, width, channels).

    Returns:
        The arrays, in the order of the parameters.
    """
    return [torch.zeros(each) for each in parameter_shapes(name, shape)]


class Worker(ReplayWorker[Model]):
    """A worker that computes nothing and pushes as much as one that does.

    Args:
        assignment: of the worker.
    """

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        self.trainings = 0

    def connect(self, command: Connect) -> Connected:
        """Make the models, and let TCP's windows grow to what they need.

        Args:
            command: the models that will be measured.

        Returns:
            That it is done.
        """
        for each in command.models:
            key = each.model, each.image_shape
            self.models[key] = Model(self.assignment, *key)
        largest = max(model.parameter_count for model in self.models.values())
        for _ in range(_WIDENING):
            rpc.rpc_sync(SERVER, echo, args=(torch.zeros(largest),))
        return Connected()

    def await_others(self) -> None:
        """Wait until the server has its command to train, and, if it is synchronous, all workers are here."""
        self.trainings += 1
        rpc.rpc_sync(SERVER, await_training, args=(self.trainings,))


class ReplayServer(Server):
    """The same server, whose parameters begin with zeros and descend at a rate of 1, so that the sums are known.

    Args:
        assignment: of the server.
    """

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        self.steps = 0

    def take_point(self) -> None:
        """Make the parameters and the optimizer of the point."""
        self.parameters = [torch.nn.Parameter(each) for each in zeros(*self.point.key)]
        size = sum(each.nbytes for each in self.parameters)
        refuse(size * (1 + self.workers), "parameters and gradients are")
        self.optimizer = torch.optim.SGD(self.parameters, lr=1.0)
        self.start_again()

    @torch.no_grad()
    def set_parameters(self) -> None:
        """Set the parameters to zeros."""
        for each in self.parameters:
            each.zero_()
        self.steps = 0

    def train(self, command: Train) -> Trained:
        """Let the workers begin.

        Args:
            command: whether from fresh parameters, and how many steps.

        Returns:
            No times: the workers report them.
        """
        found = super().train(command)
        self.steps += command.steps
        return found

    def conclude(self, command: Conclude) -> Concluded:
        """Check that each worker's gradients have been applied as often as it has made steps.

        Args:
            command: not used.

        Returns:
            An empty reply.
        """
        updates = self.steps * sum_of_values(self.workers)
        check("parameter", ([-end for end in ends_of(each)] for each in self.pull()), updates, updates)
        return Concluded()


def main(address: str, rank: int) -> None:
    """Serve the supervisor until it sends Stop.

    Args:
        address: of the control socket.
        rank: of this member.
    """
    work(address, rank, partial(joined, server=ReplayServer, worker=Worker), versions, reconnects=False)
