"""PyTorch's parameter server, and the calls by which workers reach it over torch.distributed.rpc."""

import threading
from typing import ClassVar

import torch
from torch.distributed import rpc
from torch.futures import Future

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
from ddlbench.workers.common.first_weights import initial
from ddlbench.workers.common.memory import refuse
from ddlbench.workers.common.pace import Pace
from ddlbench.workers.torch.evaluation import fingerprint
from ddlbench.workers.torch.memory import fits
from ddlbench.workers.torch.models import MODELS, load


class Server:
    """Holds the parameters; its calls come from the workers, its commands from the supervisor."""

    here: ClassVar["Server"]  # whom the calls that reach this process are for

    def __init__(self, assignment: Assignment) -> None:
        self.workers = assignment.world_size
        self.awaited = self.workers if assignment.strategy == "parameter_server_sync" else 1
        self.pace = Pace(assignment.core_share)
        self.timeout_s = assignment.timeout_s
        self.updating = threading.Lock()
        self.trainings = 0
        self.begun = threading.Condition()

    def connect(self, command: Connect) -> Connected:
        """Nothing is to be done: the workers call."""
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point's model and optimizer, unless memory is too small for what the workers will send."""
        self.point, self.seed = command.point, command.seed
        return Prepared(fits(self.take_point))

    def take_point(self) -> None:
        """Make model and optimizer."""
        self.model = MODELS[self.point.model](self.point.image_shape)
        self.parameters = list(self.model.parameters())
        size = sum(each.nbytes for each in self.parameters)
        refuse(size * (1 + bool(self.point.momentum) + self.workers), "parameters and gradients are")
        self.optimizer = torch.optim.SGD(
            self.parameters, lr=self.point.learning_rate, momentum=self.point.momentum
        )
        self.start_again()

    def start_again(self) -> None:
        """Set parameters and optimizer to what the seed says."""
        load(self.model, initial(*self.point.key, self.seed))
        self.optimizer.state.clear()
        self.optimizer.zero_grad()
        self.pushed = 0
        self.updated: Future[list[torch.Tensor]] = Future()

    def train(self, command: Train) -> Trained:
        """Let the workers begin, with fresh parameters if asked."""
        if command.from_fresh:
            self.start_again()
        with self.begun:
            self.trainings += 1
            self.begun.notify_all()
        return Trained()

    def await_training(self, number: int) -> None:
        """Wait until the supervisor has said the same to the server as to the worker who asks."""
        with self.begun:
            if not self.begun.wait_for(lambda: self.trainings >= number, self.timeout_s):
                raise TimeoutError(f"the server received no command from the supervisor within {self.timeout_s:g} s")

    @torch.no_grad()
    def push(self, gradients: list[torch.Tensor]) -> Future[list[torch.Tensor]]:
        """Add a worker's gradients to what there is; take a step once all that are awaited are there."""
        with self.updating:
            self.pace.begin()
            for parameter, gradient in zip(self.parameters, gradients, strict=True):
                parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
            self.pushed += 1
            updated = self.updated
            if self.pushed == self.awaited:
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.pace.keep()
                self.pushed, self.updated = 0, Future()
                updated.set_result(self.pull())
        return updated

    def pull(self) -> list[torch.Tensor]:
        """The parameters as they are."""
        return [each.detach() for each in self.parameters]

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters."""
        return Concluded(fingerprint(self.model))


def await_training(number: int) -> None:
    """What a worker calls before it trains."""
    Server.here.await_training(number)


@rpc.functions.async_execution  # no thread of the server waits for the other workers
def push(gradients: list[torch.Tensor]) -> Future[list[torch.Tensor]]:
    """What a worker calls in each step; the answer is the new parameters."""
    return Server.here.push(gradients)


def pull() -> list[torch.Tensor]:
    """What a worker calls for the parameters alone."""
    return Server.here.pull()


def echo(data: torch.Tensor) -> torch.Tensor:
    """What a worker calls to warm up its connection."""
    return data
