"""A PyTorch worker whose compute is replayed: DDP's own buckets, hooks and overlap, on layers that only take time.

    python -m ddlbench.workers.torch.replay CONTROL_SOCKET RANK

The gradients are as large as the model's; no activations are made, no images are read, nothing is learned.
"""

import gc
import sys
import time
from datetime import timedelta

import torch._dynamo  # noqa: F401 - else DDP imports it in each worker, after the fork
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from ddlbench.protocol.messages import (
    Assignment,
    Conclude,
    Concluded,
    Connect,
    Connected,
    ModelShape,
    Prepare,
    Prepared,
    Shape,
    Train,
    Trained,
)
from ddlbench.workers.common.replayed_device import device_of
from ddlbench.workers.common.service import work
from ddlbench.workers.torch.gpu import versions
from ddlbench.workers.torch.process_group import join
from ddlbench.workers.torch.replayed_network import Network


class Worker:
    """One rank of the worker group.

    Args:
        assignment: of the rank.
    """

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.group: dist.ProcessGroup | None = None
        self.models: dict[tuple[str, Shape], DistributedDataParallel] = {}
        self.point: DistributedDataParallel | None = None
        join(assignment)

    def connect(self, command: Connect) -> Connected:
        """Replace all connections, and make the models that will be measured on them.

        Args:
            command: these models.

        Returns:
            That it is done.
        """
        self.point = None
        self.models = {}
        gc.collect()
        if self.group is not None:
            dist.destroy_process_group(self.group)
        self.group = dist.new_group(timeout=timedelta(seconds=self.assignment.timeout_s))
        for each in command.models:
            self.models[each.model, each.image_shape] = self.model(each)
        return Connected()

    def model(self, described: ModelShape) -> DistributedDataParallel:
        """Make a DDP model; two steps settle its buckets, and let TCP's windows grow to what a step needs.

        Args:
            described: its name and the shape of its images.

        Returns:
            The model.
        """
        network = Network(described.model, described.image_shape)
        model = DistributedDataParallel(
            network,
            process_group=self.group,
            broadcast_buffers=False,
            init_sync=False,  # all ranks have the same zeros
            gradient_as_bucket_view=True,
        )
        model._set_ddp_runtime_logging_sample_rate(1)
        if self.assignment.strategy.endswith("_fp16"):
            model.register_comm_hook(self.group, fp16_compress_hook)
        for _ in range(2):
            network.fill_gradients(None)
            model().backward()
        return model

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point: the step that is replayed.

        Args:
            command: the point.

        Returns:
            That it fits, and the number of parameters.
        """
        step = command.point.replay
        assert step is not None
        self.point = self.models[command.point.key]
        network = self.network
        network.step = step
        network.device = device_of(self.assignment, step)
        return Prepared(fits=True, parameter_count=sum(each.numel() for each in network.arrays))

    @property
    def network(self) -> Network:
        """The network of the present point."""
        assert self.point is not None
        network = self.point.module
        assert isinstance(network, Network)
        return network

    def train(self, command: Train) -> Trained:
        """Replay some steps, each timed from its start to its end on this rank.

        Args:
            command: how many, and whether each rank begins with gradients of its own.

        Returns:
            Step times in ms of wall-clock time, and the means of their parts.
        """
        assert self.point is not None
        if command.from_fresh:
            self.network.fill_gradients(self.assignment.rank + 1.0)
        step_times_ms: list[float] = []
        splits: dict[str, list[float]] = {"forward_ms": [], "backward_ms": [], "communication_ms": []}
        for _ in range(command.steps):
            started = time.perf_counter()
            self.step()
            step_times_ms.append((time.perf_counter() - started) * 1e3)
            timers = self.point._get_ddp_logging_data()
            splits["forward_ms"].append(timers["forward_compute_time"] / 1e6)
            splits["backward_ms"].append(timers["backward_compute_time"] / 1e6)
            splits["communication_ms"].append(timers["backward_comm_time"] / 1e6)
        means = {name: sum(values) / len(values) for name, values in splits.items()}
        return Trained([step_times_ms], None, **means)

    def step(self) -> None:
        """Replay one step of synchronous SGD."""
        assert self.point is not None
        self.point().backward()
        self.network.optimizer_step()

    def conclude(self, command: Conclude) -> Concluded:
        """Check that the gradients are the mean of what all ranks began with; there are no parameters to hash.

        Args:
            command: not used; a replayed point is not tested.

        Returns:
            An empty reply.

        Raises:
            RuntimeError: DDP has not averaged the gradients.
        """
        self.network.check_gradients((self.assignment.world_size + 1) / 2)
        return Concluded()


def main(address: str, rank: int) -> None:
    """Serve the supervisor until it sends Stop.

    Args:
        address: of the control socket.
        rank: of this member.
    """
    work(address, rank, Worker, versions, reconnects=True)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
