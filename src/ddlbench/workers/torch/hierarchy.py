"""An all-reduce of two levels: among the workers of each host, and then among hosts."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import torch
import torch.distributed as dist

from ddlbench.protocol.messages import Assignment

STRATEGY = "hierarchical_allreduce"


class Hierarchy:
    """The groups that a worker is in: all workers of its host, and on each host the one with its number there.

    The workers of a host divide a bucket among themselves. Each adds up its part over the host, then over all hosts,
    with those that have the same part, and gives the sum to the others. So a bucket passes a host's card once.

    All workers make it at the same time.

    Args:
        assignment: of this rank.
        device: on which it computes.
    """

    def __init__(self, assignment: Assignment, device: torch.device) -> None:
        size, local = assignment.world_size, assignment.local_size
        timeout = timedelta(seconds=assignment.timeout_s)
        hosts = [range(first, first + local) for first in range(0, size, local)]
        numbers = [range(first, size, local) for first in range(local)]
        self.inside = _own_group(hosts, assignment.rank, timeout)
        self.across = _own_group(numbers, assignment.rank, timeout)
        self.size, self.local = size, local
        self.stream = torch.cuda.Stream(device) if device.type == "cuda" else None
        self.in_order = ThreadPoolExecutor(max_workers=1)  # it makes its thread when it is first used

    def close(self) -> None:
        """End the groups' connections."""
        self.in_order.shutdown()
        for group in (self.inside, self.across):
            dist.destroy_process_group(group)

    def reduce(self, _: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Average a bucket's gradients; this is DDP's hook.

        Over Gloo a thread takes one bucket after another, so that all ranks begin each part in the same order. On a GPU
        a stream of its own does.

        Args:
            _: DDP's state for hooks, not used.
            bucket: gradients of some parameters, flat, (elements,).

        Returns:
            A future of the averaged gradients, (elements,).
        """
        buffer = bucket.buffer()
        devices = [buffer.device] if self.stream else None
        reduced: torch.futures.Future[torch.Tensor] = torch.futures.Future(devices=devices)

        def reduce() -> None:
            try:
                reduced.set_result(self.average(buffer))
            except Exception as error:
                reduced.set_exception(error)

        if self.stream:
            self.stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self.stream):
                reduce()
        else:
            self.in_order.submit(reduce)
        return reduced

    def average(self, values: torch.Tensor) -> torch.Tensor:
        """Average an array over all workers.

        Args:
            values: (elements,); they are overwritten.

        Returns:
            The same array.
        """
        count = values.numel()
        short = -count % self.local
        parts = torch.cat([values, values.new_zeros(short)]) if short else values
        of_host = torch.empty_like(parts)
        dist.all_to_all_single(of_host, parts, group=self.inside)
        own = of_host.view(self.local, -1).sum(0)
        if self.size > self.local:
            dist.all_reduce(own, group=self.across)
        own /= self.size
        dist.all_gather_into_tensor(parts, own, group=self.inside)
        return values.copy_(parts[:count]) if short else values


def _own_group(groups: Sequence[range], rank: int, timeout: timedelta) -> dist.ProcessGroup:
    """Make all groups, as every rank must, and return the one that this rank is in."""
    made = {ranks: dist.new_group(list(ranks), timeout=timeout) for ranks in groups}
    return next(group for ranks, group in made.items() if rank in ranks)
