"""PyTorch's parameter server, and the functions that workers call over torch.distributed.rpc to reach it."""

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
from ddlbench.workers.common.memory import refuse
from ddlbench.workers.common.models.first_weights import initial
from ddlbench.workers.torch.evaluation import fingerprint
from ddlbench.workers.torch.memory import fits
from ddlbench.workers.torch.models import MODELS, load


class Server:
    """Holds the parameters; its calls come from the workers, its commands from the supervisor.

    Args:
        assignment: of the server.
    """

    here: ClassVar["Server"]  # this process's server, for the functions that workers call

    def __init__(self, assignment: Assignment) -> None:
        self.workers = assignment.world_size
        self.awaited = self.workers if assignment.strategy == "parameter_server_sync" else 1
        self.timeout_s = assignment.timeout_s
        self.updating = threading.Lock()
        self.trainings = 0
        self.ready = 0  # workers, in all trainings together
        self.begun = threading.Condition()

    def connect(self, command: Connect) -> Connected:
        """Do nothing: the workers make the connections.

        Args:
            command: the models that will be measured.

        Returns:
            That it is done.
        """
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point's model and optimizer, unless memory is too small for these and the workers' gradients.

        Args:
            command: the point, and the seed of its parameters.

        Returns:
            Whether they fit.
        """
        self.point, self.seed = command.point, command.seed
        return Prepared(fits(self.take_point))

    def take_point(self) -> None:
        """Make model and optimizer of the point."""
        self.model = MODELS[self.point.model](self.point.image_shape)
        self.parameters = list(self.model.parameters())
        size = sum(each.nbytes for each in self.parameters)
        refuse(size * (1 + bool(self.point.momentum) + self.workers), "parameters and gradients are")
        self.optimizer = torch.optim.SGD(
            self.parameters, lr=self.point.learning_rate, momentum=self.point.momentum
        )
        self.start_again()

    def start_again(self) -> None:
        """Set parameters and optimizer as the seed determines them."""
        self.set_parameters()
        self.optimizer.state.clear()
        self.optimizer.zero_grad()
        self.pushed = 0
        self.updated: Future[list[torch.Tensor]] = Future()

    def set_parameters(self) -> None:
        """Set the parameters to the seed's first weights."""
        load(self.model, initial(*self.point.key, self.seed))

    def train(self, command: Train) -> Trained:
        """Let the workers begin.

        Args:
            command: whether from fresh parameters; the workers count the steps.

        Returns:
            No times: the workers report them.
        """
        if command.from_fresh:
            self.start_again()
        with self.begun:
            self.trainings += 1
            self.begun.notify_all()
        return Trained()

    def await_training(self, number: int) -> None:
        """Wait until the supervisor's command to train has reached the server as well as the worker that calls.

        A synchronous server waits for all workers too: who is ready sooner would wait for them in its first step.

        Args:
            number: how many such commands the worker has received.

        Raises:
            TimeoutError: it has not come within the framework's time-out.
        """
        with self.begun:
            self.ready += 1
            self.begun.notify_all()
            if not self.begun.wait_for(
                lambda: self.trainings >= number and self.ready >= number * self.awaited, self.timeout_s
            ):
                raise TimeoutError(
                    f"not all workers and the server have begun to train within {self.timeout_s:g} s"
                )

    @torch.no_grad()
    def push(self, gradients: list[torch.Tensor]) -> Future[list[torch.Tensor]]:
        """Add a worker's gradients to the sum; take a step once all that are awaited have come.

        Args:
            gradients: of all parameters, in the canonical order and shapes, on the CPU.

        Returns:
            A future of the parameters after the step, in the same order and shapes.
        """
        with self.updating:
            for parameter, gradient in zip(self.parameters, gradients, strict=True):
                parameter.grad = gradient if parameter.grad is None else parameter.grad.add_(gradient)
            self.pushed += 1
            updated = self.updated
            if self.pushed == self.awaited:
                self.optimizer.step()
                self.optimizer.zero_grad()
                self.pushed, self.updated = 0, Future()
                updated.set_result(self.pull())
        return updated

    def pull(self) -> list[torch.Tensor]:
        """Get the present parameters, in the canonical order and shapes."""
        return [each.detach() for each in self.parameters]

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters.

        Args:
            command: not read, because worker 0 tests and saves the parameters.

        Returns:
            The hash.
        """
        return Concluded(fingerprint(self.model))


def await_training(number: int) -> None:
    """Wait for the server's command to train; a worker calls this before it trains.

    Args:
        number: how many such commands the worker has received.

    Raises:
        TimeoutError: it has not come within the framework's time-out.
    """
    Server.here.await_training(number)


@rpc.functions.async_execution  # no thread of the server waits for the other workers
def push(gradients: list[torch.Tensor]) -> Future[list[torch.Tensor]]:
    """Add gradients to the server's; a worker calls this in each step.

    Args:
        gradients: of all parameters, in the canonical order and shapes, on the CPU.

    Returns:
        A future of the new parameters; the reply to the call waits for it.
    """
    return Server.here.push(gradients)


def pull() -> list[torch.Tensor]:
    """Get the server's present parameters, in the canonical order and shapes; a worker calls this."""
    return Server.here.pull()


def echo(data: torch.Tensor) -> torch.Tensor:
    """Send data back; a worker calls this to warm up its connection.

    Args:
        data: of any shape.

    Returns:
        The same data.
    """
    return data
