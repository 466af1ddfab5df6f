"""Collectives of torch.distributed, timed: over Gloo, or on GPUs over NCCL.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.torch.collectives

It receives commands over the control socket (see `protocol.messages`):
    time     one collective, several times in a row; whether its last result was right
    stop
A collective here is a function of the worker and a number of elements. It makes its tensors and returns the operation,
the same once more for the last time, whose result is checked, and that check; only all-reduce, which works in place,
needs two operations. Each rank contributes whole numbers that differ from the others', so that sums are exact.
"""

import time
from collections.abc import Callable

import torch
import torch.distributed as dist

from ddlbench.protocol.messages import Assignment, Command, Ready, TimeCollective, Timed
from ddlbench.workers.common.control import Control
from ddlbench.workers.common.service import serve
from ddlbench.workers.torch.gpu import finish, versions, why_not
from ddlbench.workers.torch.process_group import indices, join

Collective = tuple[Callable[[], object], Callable[[], object], Callable[[], bool]]
_PERIOD = 251  # prime, so that no part of a pattern looks like another


class Worker:
    """One rank."""

    def __init__(self, assignment: Assignment) -> None:
        self.rank, self.world_size = assignment.rank, assignment.world_size
        self.device = join(assignment)

    def zeros(self, elements: int) -> torch.Tensor:
        """Make room for a result.

        Args:
            elements: how many numbers it has.

        Returns:
            Zeros, float32, (elements,), on the worker's device.
        """
        return torch.zeros(elements, device=self.device)

    def pattern(self, elements: int, rank: int) -> torch.Tensor:
        """Make what a rank contributes.

        Args:
            elements: how many numbers it has.
            rank: which is added to a pattern that is the same for all ranks.

        Returns:
            Whole numbers, float32, (elements,), on the worker's device.
        """
        return (torch.arange(elements, device=self.device) % _PERIOD + rank).float()

    def sum_of_patterns(self, elements: int, ranks: range) -> torch.Tensor:
        """Compute the expected sum of the contributions of some ranks.

        Args:
            elements: how many numbers each contribution has.
            ranks: which ranks contribute.

        Returns:
            Whole numbers, float32, (elements,), on the worker's device.
        """
        return self.pattern(elements, 0) * len(ranks) + sum(ranks)

    def time(self, command: Command) -> Timed:
        """Time a collective, after a barrier.

        Args:
            command: the collective, its number of elements, and how often it is called.

        Returns:
            The mean time in seconds of one operation on this rank, and whether the last result was right.

        Raises:
            TypeError: it is another command.
        """
        if not isinstance(command, TimeCollective):
            raise TypeError(f"a member that times collectives cannot carry out {command}")
        operation, last, is_right = COLLECTIVES[command.collective](self, command.elements)
        dist.barrier(device_ids=indices(self.device))
        finish(self.device)
        began = time.perf_counter()
        for _ in range(command.times - 1):
            operation()
        last()
        finish(self.device)
        seconds = (time.perf_counter() - began) / command.times
        return Timed(seconds, is_right())


def all_reduce(worker: Worker, elements: int) -> Collective:
    """Make an all-reduce: every rank gets the sum.

    Zeros are summed except for the last time, because sums of sums would grow without bound.

    Args:
        worker: this rank.
        elements: float32 numbers of each rank, (elements,).

    Returns:
        The operation, the last operation, and the check of its result.
    """
    nothing, mine = worker.zeros(elements), worker.pattern(elements, worker.rank)
    expected = worker.sum_of_patterns(elements, range(worker.world_size))
    return (
        lambda: dist.all_reduce(nothing),
        lambda: dist.all_reduce(mine),
        lambda: torch.equal(mine, expected),
    )


def broadcast(worker: Worker, elements: int) -> Collective:
    """Make a broadcast: every rank gets the data of rank 0.

    Args:
        worker: this rank.
        elements: float32 numbers of the data, (elements,).

    Returns:
        The operation twice, and the check of its result.
    """
    data = worker.pattern(elements, 0) if worker.rank == 0 else worker.zeros(elements)
    expected = worker.pattern(elements, 0)
    return _repeated(lambda: dist.broadcast(data, 0), lambda: torch.equal(data, expected))


def all_gather(worker: Worker, elements: int) -> Collective:
    """Make an all-gather: every rank gets every rank's part.

    Args:
        worker: this rank.
        elements: float32 numbers of all parts together, (elements,); a multiple of the number of ranks.

    Returns:
        The operation twice, and the check of its result.
    """
    part = elements // worker.world_size
    mine, whole = worker.pattern(part, worker.rank), worker.zeros(elements)
    expected = torch.cat([worker.pattern(part, rank) for rank in range(worker.world_size)])
    return _repeated(lambda: dist.all_gather_single(whole, mine), lambda: torch.equal(whole, expected))


def reduce_scatter(worker: Worker, elements: int) -> Collective:
    """Make a reduce-scatter: every rank gets its part of the sum.

    Args:
        worker: this rank.
        elements: float32 numbers of each rank before, (elements,); a multiple of the number of ranks.

    Returns:
        The operation twice, and the check of its result.
    """
    whole, part = worker.pattern(elements, worker.rank), worker.zeros(elements // worker.world_size)
    expected = worker.sum_of_patterns(elements, range(worker.world_size)).chunk(worker.world_size)[
        worker.rank
    ]
    return _repeated(lambda: dist.reduce_scatter_single(part, whole), lambda: torch.equal(part, expected))


def push(worker: Worker, elements: int) -> Collective:
    """Make a push: rank 0, the parameter server, receives every worker's data and adds it up.

    Args:
        worker: this rank.
        elements: float32 numbers of each worker, (elements,).

    Returns:
        The operation twice, and the check of its result, which is at rank 0.
    """
    workers = range(1, worker.world_size)
    if worker.rank > 0:
        mine = worker.pattern(elements, worker.rank)
        return _repeated(lambda: dist.send(mine, 0), lambda: True)
    received, total = [worker.zeros(elements) for _ in workers], worker.zeros(elements)

    def serve() -> None:
        total.zero_()
        arriving = [dist.irecv(data, rank) for rank, data in zip(workers, received, strict=True)]
        for receiving, data in zip(arriving, received, strict=True):
            assert receiving is not None
            receiving.wait()
            total.add_(data)

    expected = worker.sum_of_patterns(elements, workers)
    return _repeated(serve, lambda: torch.equal(total, expected))


def pull(worker: Worker, elements: int) -> Collective:
    """Make a pull: every worker receives the data of rank 0, the parameter server.

    Args:
        worker: this rank.
        elements: float32 numbers of the data, (elements,).

    Returns:
        The operation twice, and the check of its result, which is at the workers.
    """
    if worker.rank > 0:
        data, expected = worker.zeros(elements), worker.pattern(elements, 0)
        return _repeated(lambda: dist.recv(data, 0), lambda: torch.equal(data, expected))
    mine = worker.pattern(elements, 0)

    def serve() -> None:
        for sending in [dist.isend(mine, rank) for rank in range(1, worker.world_size)]:
            assert sending is not None
            sending.wait()

    return _repeated(serve, lambda: True)


def pingpong(worker: Worker, elements: int) -> Collective:
    """Make a round trip of one message from rank 0 to rank 1 and back; other ranks do nothing.

    Args:
        worker: this rank.
        elements: bytes of the message, uint8, (elements,).

    Returns:
        The operation twice, and the check of its result at the two ranks.
    """
    there, back = 0, 1
    message = (torch.arange(elements, device=worker.device) % _PERIOD).to(torch.uint8)
    data = message.clone() if worker.rank == there else torch.zeros_like(message)

    def trip() -> None:
        if worker.rank == there:
            dist.send(data, back)
            dist.recv(data, back)
        elif worker.rank == back:
            dist.recv(data, there)
            dist.send(data, there)

    return _repeated(trip, lambda: worker.rank > back or torch.equal(data, message))


def _repeated(operation: Callable[[], object], is_right: Callable[[], bool]) -> Collective:
    return operation, operation, is_right


COLLECTIVES: dict[str, Callable[[Worker, int], Collective]] = {
    "all_reduce": all_reduce,
    "broadcast": broadcast,
    "all_gather": all_gather,
    "reduce_scatter": reduce_scatter,
    "push": push,
    "pull": pull,
    "pingpong": pingpong,
}


def main(address: str, rank: int) -> None:
    """Serve the supervisor until it sends Stop.

    Args:
        address: of the control socket.
        rank: of this member.
    """
    control = Control(address, rank)
    assignment = control.assignment()
    if why := why_not(assignment):
        control.refuse(why)
    worker = Worker(assignment)
    control.send(Ready(versions(assignment)))
    serve(control, worker.time)
