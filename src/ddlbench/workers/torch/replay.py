"""A PyTorch worker whose compute is replayed: DDP's own buckets, hooks and overlap, on layers that only take time.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.torch.replay

The gradients are as large as the model's; no activations are made, no images are read, nothing is learned.
"""

import gc
from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import timedelta

import torch
import torch._dynamo  # else DDP imports it in each worker, after the fork
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

from ddlbench.protocol.messages import Assignment, Connect, Connected, Shape
from ddlbench.system.calls import release_free_memory, timer_slack_of_new_threads
from ddlbench.workers.common.replay.arrays import own_value, sum_of_values
from ddlbench.workers.common.replay.worker import ReplayWorker
from ddlbench.workers.common.service import work
from ddlbench.workers.torch.ddp_timers import parts_of_last_step_ms
from ddlbench.workers.torch.gpu import versions
from ddlbench.workers.torch.hierarchy import STRATEGY, Hierarchy
from ddlbench.workers.torch.process_group import join
from ddlbench.workers.torch.replayed_network import Network

_SLACK_OF_A_WORKER_NS = 2_000_000  # closing a connection waits until the thread has looked around


class Model:
    """A network below DDP; two steps settle its buckets, and let TCP's windows grow to what a step needs.

    Args:
        assignment: of the rank.
        group: of all ranks.
        hierarchy: the groups of an all-reduce of two levels, if the strategy is one.
        name: of a model in `architectures`.
        shape: of an image, (height, width, channels).
    """

    def __init__(
        self,
        assignment: Assignment,
        group: dist.ProcessGroup,
        hierarchy: Hierarchy | None,
        name: str,
        shape: Shape,
    ) -> None:
        self.assignment = assignment
        self.network = Network(name, shape)
        self.compute, self.parameter_count = self.network.compute, self.network.parameter_count
        self.ddp = DistributedDataParallel(
            self.network,
            process_group=group,
            broadcast_buffers=False,
            init_sync=False,  # all ranks have the same zeros
            gradient_as_bucket_view=True,
        )
        self.ddp._set_ddp_runtime_logging_sample_rate(1)
        if assignment.strategy.endswith("_fp16"):
            self.ddp.register_comm_hook(group, fp16_compress_hook)
        if hierarchy:
            self.ddp.register_comm_hook(None, hierarchy.reduce)
        self.network.fill_gradients(None)
        self.step()
        self.network.drop_gradients()  # DDP would copy them into its new buckets, before the old ones are free
        token = self.ddp()
        release_free_memory()  # of the old buckets
        token.backward()

    def start_again(self) -> None:
        """Fill all gradients with this rank's value."""
        self.network.fill_gradients(own_value(self.assignment))

    def step(self) -> None:
        """Replay one step of synchronous SGD."""
        self.ddp().backward()
        self.compute.optimizer()

    def parts(self) -> Mapping[str, float]:
        """Return what DDP's own timers say of the last step, in ms."""
        return parts_of_last_step_ms(self.ddp)

    def check(self) -> None:
        """Check that DDP has averaged the gradients.

        Raises:
            RuntimeError: it has not.
        """
        world_size = self.assignment.world_size
        mean = sum_of_values(world_size) / world_size
        self.network.check_gradients(mean, in_16_bits=self.assignment.strategy.endswith("_fp16"))


class Worker(ReplayWorker[Model]):
    """One rank of the worker group.

    Args:
        assignment: of the rank.
    """

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        self.group: dist.ProcessGroup | None = None
        self.hierarchy: Hierarchy | None = None
        with _seldom_idle_wakes(assignment):
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
        release_free_memory()  # the new buckets do not fit into what the old ones have left
        if self.group is not None:
            dist.destroy_process_group(self.group)
        if self.hierarchy is not None:
            self.hierarchy.close()
        with _seldom_idle_wakes(self.assignment):
            if self.assignment.strategy == STRATEGY:
                self.hierarchy = Hierarchy(self.assignment, torch.device("cpu"))
            group = self.group = dist.new_group(timeout=timedelta(seconds=self.assignment.timeout_s))
        for each in command.models:
            key = each.model, each.image_shape
            self.models[key] = Model(self.assignment, group, self.hierarchy, *key)
        return Connected()

    def await_others(self) -> None:
        """Wait until all ranks are here: who was ready sooner would wait in its first step."""
        dist.barrier(group=self.group)


def _seldom_idle_wakes(assignment: Assignment) -> AbstractContextManager[None]:
    """Let Gloo's threads, which are started meanwhile, look around less often the more workers there are.

    Each group has a thread that wakes a hundred times a second, even if nothing is sent. With 64 workers that takes 9 %
    of two cores, in whatever dilated time. Data wakes it at once all the same.
    """
    return timer_slack_of_new_threads(_SLACK_OF_A_WORKER_NS * assignment.world_size)


def main(address: str, rank: int) -> None:
    """Serve the supervisor until it sends Stop.

    Args:
        address: of the control socket.
        rank: of this member.
    """
    work(address, rank, Worker, versions, reconnects=True)
