"""PyTorch's parameter server and its workers, over torch.distributed.rpc as PyTorch's tutorials have it.

    python -m ddlbench.workers.torch.parameter_server CONTROL_SOCKET RANK

The server holds the parameters and the optimizer. In a step a worker computes gradients and pushes them; the answer to
the same call is the parameters, so each travels once. Synchronous: the server waits for all workers, adds up what they
pushed in the order in which it came (with three workers and more, the last bits of a sum depend on it), takes one
step, and answers all of them. Asynchronous: it takes a step for whatever comes and answers at once; what others change
while an answer is on its way is seen in part, as in Hogwild.

On GPUs workers compute there, and the server on its host: gradients are copied to the worker's host before they are
pushed, and parameters from there when they have come; both counts as communication.

It is told what to do over the control socket (see `protocol.messages`), as `ring_allreduce` is. A member of
the RPC group cannot make new connections; so `connect` is for a new group only.
"""

import os
import sys
import threading
import time
from typing import ClassVar

import numpy as np
import torch
from torch import nn
from torch.distributed import rpc
from torch.futures import Future
from torch.nn.functional import cross_entropy

from ddlbench.protocol.messages import (
    Assignment,
    Conclude,
    Concluded,
    Connect,
    Connected,
    Prepare,
    Prepared,
    Shape,
    Train,
    Trained,
    TrainingPoint,
)
from ddlbench.workers.common.architectures import initial
from ddlbench.workers.common.listener import await_listener, await_running
from ddlbench.workers.common.memory import refuse
from ddlbench.workers.common.pace import Pace
from ddlbench.workers.common.service import work
from ddlbench.workers.torch.evaluation import fingerprint
from ddlbench.workers.torch.gpu import device_of, finish, versions, why_not
from ddlbench.workers.torch.memory import fits, refuse_what_cannot_fit
from ddlbench.workers.torch.models import MODELS, load
from ddlbench.workers.torch.training import Share, prepared

SERVER = "server"
_WIDENING = 4  # round trips of all parameters


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
                raise TimeoutError(f"the server was not told to train in {self.timeout_s:g} s")

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


class Worker:
    """Computes gradients of its share of each batch."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.is_synchronous = assignment.strategy == "parameter_server_sync"
        self.pace = Pace(assignment.core_share)
        self.device = device_of(assignment)
        self.models: dict[tuple[str, Shape], nn.Module] = {}
        self.trainings = 0

    def connect(self, command: Connect) -> Connected:
        """Make the models, and let TCP's windows grow to what they need: on a slow link that would take many steps."""
        self.models = {
            (each.model, each.image_shape): MODELS[each.model](each.image_shape).to(self.device)
            for each in command.models
        }
        largest = max(sum(each.numel() for each in model.parameters()) for model in self.models.values())
        for _ in range(_WIDENING):
            rpc.rpc_sync(SERVER, echo, args=(torch.zeros(largest),))
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point; a step of it without the server warms caches and tells whether it fits into memory."""
        return prepared(lambda: self.take_point(command.point, command.seed))

    def take_point(self, point: TrainingPoint, seed: int) -> nn.Module:
        """Take its model and batches, and try a step."""
        if self.device.type == "cpu":
            refuse_what_cannot_fit(point, self.assignment.world_size)
        self.model = self.models[point.key]
        self.share = Share(self.assignment, point, seed, self.model, self.device)
        # The server adds up, which makes the mean over the whole batch; alone, a worker's gradients are its own mean.
        self.weight = self.share.size / point.batch_size if self.is_synchronous else 1.0
        self.share.start_again()
        try:
            self.forward().backward()
            finish(self.device)
        finally:
            self.model.zero_grad()
        return self.model

    def train(self, command: Train) -> Trained:
        """Time some steps, each from its start to its end on this worker, in milliseconds of wall clock."""
        if command.from_fresh:
            self.share.start_again()
        self.trainings += 1
        rpc.rpc_sync(SERVER, await_training, args=(self.trainings,))
        loss = torch.tensor(float("nan"))
        marks: list[tuple[float, ...]] = []
        self.pace.begin()
        for _ in range(command.steps):
            started = time.perf_counter()
            loss = self.forward()
            finish(self.device)
            forward = time.perf_counter()
            (loss * self.weight).backward()
            finish(self.device)
            self.pace.keep()
            backward = time.perf_counter()
            self.push_and_pull()
            finish(self.device)
            marks.append((started, forward, backward, time.perf_counter()))
        times_ms = np.diff(marks) * 1e3
        forward_ms, backward_ms, communication_ms = times_ms.mean(axis=0).tolist()
        return Trained(
            [times_ms.sum(axis=1).tolist()], loss.item(), forward_ms, backward_ms, communication_ms
        )

    def forward(self) -> torch.Tensor:
        """The loss of this worker's share of the next batch."""
        images, labels = self.share.batch()
        return cross_entropy(self.model(images), labels)

    def push_and_pull(self) -> None:
        """Give the server the gradients, and take the parameters that it makes of them."""
        gradients = [parameter.grad.cpu() for parameter in self.model.parameters()]  # type: ignore[union-attr]
        self.take_parameters(rpc.rpc_sync(SERVER, push, args=(gradients,)))
        self.model.zero_grad()

    @torch.no_grad()
    def take_parameters(self, pulled: list[torch.Tensor]) -> None:
        """Make the server's parameters this worker's."""
        for parameter, of_server in zip(self.model.parameters(), pulled, strict=True):
            parameter.copy_(of_server)

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the last step's parameters; worker 0 pulls them as they are now, and tests and saves them if asked."""
        hashed, tested = fingerprint(self.model), None
        if self.assignment.index == 0:
            self.take_parameters(rpc.rpc_sync(SERVER, pull))
            tested = self.share.examine(command)
        return Concluded(hashed, tested)


def join(assignment: Assignment) -> None:
    """Join the RPC group, whose first member is the server.

    Shared memory and the reading of another process's memory, which TensorPipe prefers, would go around the links. And
    where its interface does not run yet, it would take the loopback instead, on which no other host reaches it.
    """
    torch.set_num_threads(assignment.threads)
    await_running(os.environ["TP_SOCKET_IFNAME"], assignment.timeout_s)
    (address,) = assignment.cluster[SERVER]
    is_server = assignment.role == SERVER
    if not is_server:
        await_listener(address, assignment.timeout_s)
    rpc.init_rpc(
        SERVER if is_server else f"worker{assignment.index}",
        rank=0 if is_server else assignment.index + 1,
        world_size=assignment.world_size + 1,
        rpc_backend_options=rpc.TensorPipeRpcBackendOptions(
            num_worker_threads=assignment.world_size
            if is_server
            else 1,  # a worker waits for each of its calls
            rpc_timeout=assignment.timeout_s,
            init_method=f"tcp://{address}",
            _transports=["uv"],
            _channels=["basic"],
        ),
    )


def member_of(assignment: Assignment) -> Server | Worker:
    """What its role makes this process, which has then joined the group."""
    member: Server | Worker
    if assignment.role == SERVER:
        member = Server.here = Server(assignment)
    else:
        member = Worker(assignment)
    join(assignment)
    return member


def main(address: str, rank: int) -> None:
    """Serve the supervisor at `address` as `rank` until it says stop."""
    work(address, rank, member_of, versions, reconnects=False, why_not=why_not)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
