"""PyTorch's parameter server and its workers, over torch.distributed.rpc, as in PyTorch's tutorials.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.torch.parameter_server

The server holds the parameters and the optimizer. In a step a worker computes gradients and pushes them; the reply to
the same call is the parameters, so each travels once. Synchronous: the server waits for all workers, adds up what they
pushed in the order of arrival (with three workers and more, the last bits of a sum depend on it), takes one step, and
replies to all. Asynchronous: it takes a step for each push and replies at once; while a reply is being sent, steps for
other workers may change part of it, as in Hogwild.

On GPUs workers compute there, and the server on its host: gradients are copied to the worker's host before they are
pushed, and parameters are copied to the GPU after they have come; both count as communication.

It receives commands over the control socket (see `protocol.messages`), as `ring_allreduce` does. A member of the RPC
group cannot make new connections; so `connect` is for a new group only.
"""

import os
import time
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.distributed import rpc
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
from ddlbench.workers.common.listener import await_listener, await_running
from ddlbench.workers.common.progress import counted
from ddlbench.workers.common.service import Member, await_turn, work
from ddlbench.workers.torch.evaluation import fingerprint
from ddlbench.workers.torch.gpu import device_of, finish, versions, why_not
from ddlbench.workers.torch.memory import refuse_what_cannot_fit
from ddlbench.workers.torch.models import MODELS
from ddlbench.workers.torch.server import Server, await_training, echo, pull, push
from ddlbench.workers.torch.training import Share, prepared

SERVER = "server"
_WIDENING = 4  # round trips of all parameters


class Worker:
    """Computes gradients of its share of each batch."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.is_synchronous = assignment.strategy == "parameter_server_sync"
        self.device = device_of(assignment)
        self.models: dict[tuple[str, Shape], nn.Module] = {}
        self.trainings = 0

    def connect(self, command: Connect) -> Connected:
        """Make the models, and let TCP's windows grow to what they need; on a slow link this would take many steps.

        Args:
            command: the models that will be measured.

        Returns:
            That it is done.
        """
        self.models = {
            (each.model, each.image_shape): MODELS[each.model](each.image_shape).to(self.device)
            for each in command.models
        }
        largest = max(sum(each.numel() for each in model.parameters()) for model in self.models.values())
        for _ in range(_WIDENING):
            rpc.rpc_sync(SERVER, echo, args=(torch.zeros(largest),))
        return Connected()

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point; a step of it without the server warms caches and shows whether it fits into memory.

        Args:
            command: the point, and the seed of its parameters and batches.

        Returns:
            Whether the step fits, and the number of parameters.
        """
        return prepared(lambda: self.take_point(command.point, command.seed))

    def take_point(self, point: TrainingPoint, seed: int) -> nn.Module:
        """Take a point's model and batches, and try a step without the server.

        Args:
            point: one of a model that `connect` has made.
            seed: of its parameters and batches.

        Returns:
            The model.

        Raises:
            MemoryError: the step cannot fit into memory.
        """
        if self.device.type == "cpu":
            refuse_what_cannot_fit(point, self.assignment.world_size)
        self.model = self.models[point.key]
        self.share = Share(self.assignment, point, seed, self.model, self.device)
        # A synchronous server adds up shares of the whole batch's mean; asynchronous gradients are each worker's mean.
        self.weight = self.share.size / point.batch_size if self.is_synchronous else 1.0
        self.share.start_again()
        try:
            self.forward().backward()
            finish(self.device)
        finally:
            self.model.zero_grad()
        return self.model

    def train(self, command: Train) -> Trained:
        """Train some steps, each timed from its start to its end on this worker.

        Args:
            command: how many, and whether from fresh parameters.

        Returns:
            Step times in ms of wall-clock time, the means of their parts, and the last step's loss.
        """
        if command.from_fresh:
            self.share.start_again()
        self.trainings += 1
        rpc.rpc_sync(SERVER, await_training, args=(self.trainings,))
        await_turn(self.assignment.index, command)
        loss = torch.tensor(float("nan"))
        marks: list[tuple[float, ...]] = []
        for _ in counted(command.steps):
            started = time.perf_counter()
            loss = self.forward()
            finish(self.device)
            forward = time.perf_counter()
            (loss * self.weight).backward()
            finish(self.device)
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
        """Compute the loss of this worker's share of the next batch, a scalar."""
        images, labels = self.share.batch()
        return cross_entropy(self.model(images), labels)

    def push_and_pull(self) -> None:
        """Push the gradients, and take the parameters that the server makes of them."""
        gradients = [parameter.grad.cpu() for parameter in self.model.parameters()]  # type: ignore[union-attr]
        self.take_parameters(rpc.rpc_sync(SERVER, push, args=(gradients,)))
        self.model.zero_grad()

    @torch.no_grad()
    def take_parameters(self, pulled: list[torch.Tensor]) -> None:
        """Set this worker's parameters to the server's.

        Args:
            pulled: all parameters in the canonical order and shapes, on the CPU.
        """
        for parameter, of_server in zip(self.model.parameters(), pulled, strict=True):
            parameter.copy_(of_server)

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the last step's parameters; worker 0 pulls the server's present ones, and tests and saves these.

        Args:
            command: whether to test the parameters, and where to save them.

        Returns:
            The hash, and worker 0's test result.
        """
        hashed, tested = fingerprint(self.model), None
        if self.assignment.index == 0:
            self.take_parameters(rpc.rpc_sync(SERVER, pull))
            tested = self.share.examine(command)
        return Concluded(hashed, tested)


def join(assignment: Assignment) -> None:
    """Join the RPC group, whose first member is the server.

    TensorPipe prefers shared memory and reading another process's memory. Both would bypass the links, so they are off.
    If its interface does not run yet, TensorPipe takes the loopback instead, on which no other host reaches it;
    therefore `join` waits for the interface.

    Args:
        assignment: of this member, a worker or the server.
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


def joined(assignment: Assignment, server: type[Server], worker: Callable[[Assignment], Member]) -> Member:
    """Make the member that an assignment describes, and join the group.

    Args:
        assignment: of this process.
        server: what the parameters are on.
        worker: makes a worker.

    Returns:
        The server or a worker.
    """
    member: Member
    if assignment.role == SERVER:
        member = Server.here = server(assignment)
    else:
        member = worker(assignment)
    join(assignment)
    return member


def main(address: str, rank: int) -> None:
    """Serve the supervisor until it sends Stop.

    Args:
        address: of the control socket.
        rank: of this member.
    """
    work(
        address,
        rank,
        partial(joined, server=Server, worker=Worker),
        versions,
        reconnects=False,
        why_not=why_not,
    )
