"""A PyTorch worker: synchronous data-parallel training (DDP) over Gloo or NCCL, one point after another.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.torch.ring_allreduce

It receives commands over the control socket (see `protocol.messages`):
    connect  make new connections, and the DDP models on them, while the links are open
    prepare  take a point: fresh parameters, its batches; a step without communication shows whether it fits
    train    some steps, each timed
    conclude hash the parameters and, if asked, evaluate the test set
    stop
"""

import gc
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import torch
import torch._dynamo  # else DDP imports it in each worker, after the fork
import torch.distributed as dist
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, fp16_compress_hook
from torch.distributed.algorithms.ddp_comm_hooks.powerSGD_hook import PowerSGDState, powerSGD_hook
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from ddlbench.protocol.messages import Assignment, Connect, Connected, Prepare, Shape, Trained, TrainingPoint
from ddlbench.workers.common.progress import counted
from ddlbench.workers.common.service import work
from ddlbench.workers.torch.ddp_timers import parts_of_last_step_ms
from ddlbench.workers.torch.gpu import finish, versions, why_not
from ddlbench.workers.torch.hierarchy import STRATEGY, Hierarchy
from ddlbench.workers.torch.memory import refuse_what_cannot_fit
from ddlbench.workers.torch.models import MODELS
from ddlbench.workers.torch.process_group import accelerator, indices, join
from ddlbench.workers.torch.training import RingWorker, Share


class Point:
    """The point that is measured: a model with fresh parameters, and this rank's batches.

    Args:
        worker: this rank.
        point: its model, data set, global batch size, learning rate and momentum.
        seed: of its parameters and batches.
    """

    def __init__(self, worker: "Worker", point: TrainingPoint, seed: int) -> None:
        self.worker = worker
        self.model = worker.model(*point.key)
        self.optimizer = torch.optim.SGD(
            self.model.parameters(), lr=point.learning_rate, momentum=point.momentum
        )
        self.share = Share(worker.assignment, point, seed, self.model.module, worker.device)
        # DDP averages over ranks; where shares differ by one image, this keeps the mean over the whole batch.
        self.weight = self.share.size * worker.assignment.world_size / point.batch_size
        self.start_again()  # the trial trains from here; a measurement starts again

    def start_again(self) -> None:
        """Set parameters, optimizer and the order of images as the seed determines them."""
        self.share.start_again()
        self.optimizer.state.clear()
        self.worker.reductions[self.model].start_again()

    def step(self) -> torch.Tensor:
        """Take one step of synchronous SGD; return this rank's loss, a scalar."""
        images, labels = self.share.batch()
        self.optimizer.zero_grad()
        loss = cross_entropy(self.model(images), labels)
        (loss if self.weight == 1.0 else loss * self.weight).backward()
        self.optimizer.step()
        return loss

    def train(self, steps: int) -> Trained:
        """Train some steps, each timed from its start to its end on this rank.

        Args:
            steps: how many.

        Returns:
            Step times in ms of wall-clock time, the means of their parts, and the last step's loss.
        """
        step_times_ms: list[float] = []
        splits: dict[str, list[float]] = {"forward_ms": [], "backward_ms": [], "communication_ms": []}
        loss = torch.tensor(float("nan"))
        finish(self.worker.device)
        for _ in counted(steps):
            started = time.perf_counter()
            loss = self.step()
            finish(self.worker.device)
            step_times_ms.append((time.perf_counter() - started) * 1e3)
            for name, value in parts_of_last_step_ms(self.model).items():
                splits[name].append(value)
        means = {name: sum(values) / len(values) if values else None for name, values in splits.items()}
        return Trained([step_times_ms], loss.item(), **means)


class Reduction:
    """How DDP averages a bucket's gradients over the ranks: plain, or compressed as the strategy says.

    Args:
        strategy: `ring_allreduce`, alone or with `_fp16` or `_powersgd`.
        group: the ranks.
    """

    def __init__(self, strategy: str, group: dist.ProcessGroup) -> None:
        self.compression = strategy.removeprefix("ring_allreduce").removeprefix("_")
        self.group = group
        self.power = self.new_power()
        self.is_gloo = dist.get_backend(group) == "gloo"
        self.in_order = ThreadPoolExecutor(max_workers=1)  # it makes its thread when it is first used

    def new_power(self) -> PowerSGDState:
        """Make the state of a PowerSGD without an error to carry over (Vogels 2019); two plain steps come first."""
        return PowerSGDState(self.group, matrix_approximation_rank=1, start_powerSGD_iter=2)

    def start_again(self) -> None:
        """Begin a training: the buckets are settled, so its first step is compressed like all others."""
        self.power = self.new_power()
        self.power.iter = self.power.start_powerSGD_iter

    def reduce(self, _: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Average a bucket's gradients; this is DDP's hook.

        Args:
            _: DDP's state for hooks, not used.
            bucket: gradients of some parameters, flat, (elements,).

        Returns:
            A future of the averaged gradients, (elements,).
        """
        if self.compression == "powersgd":
            return self.reduce_in_order(bucket) if self.is_gloo else powerSGD_hook(self.power, bucket)
        return (fp16_compress_hook if self.compression == "fp16" else allreduce_hook)(self.group, bucket)

    def reduce_in_order(self, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
        """Reduce one bucket after another by PowerSGD, in a thread.

        Each bucket takes several all-reduces, and the later ones begin in Gloo's threads. With several buckets at once
        these begin in another order on each rank, and Gloo tells all-reduces apart by their order.

        Args:
            bucket: gradients of one dtype, as one tensor with one dimension.

        Returns:
            Their mean over the ranks, of rank 1, in the same shape.
        """
        reduced: torch.futures.Future[torch.Tensor] = torch.futures.Future()

        def reduce() -> None:
            try:
                reduced.set_result(powerSGD_hook(self.power, bucket).wait())
            except Exception as error:
                reduced.set_exception(error)

        self.in_order.submit(reduce)
        return reduced


class Worker(RingWorker):
    """One rank of the worker group."""

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        self.group: dist.ProcessGroup | None = None
        self.hierarchy: Hierarchy | None = None
        self.models: dict[tuple[str, Shape], DistributedDataParallel] = {}
        self.reductions: dict[nn.Module, Reduction] = {}
        self.timeout = timedelta(seconds=assignment.timeout_s)
        self.device = join(assignment)

    def model(self, name: str, shape: Shape) -> DistributedDataParallel:
        """Get a DDP model; it is made once for each connection, and two steps settle its buckets.

        Args:
            name: a key of MODELS.
            shape: of an image, (height, width, channels).

        Returns:
            The model, on this rank's device.
        """
        if (name, shape) not in self.models:
            model = DistributedDataParallel(
                MODELS[name](shape).to(self.device),
                device_ids=indices(self.device),
                process_group=self.group,
                broadcast_buffers=False,  # each rank keeps its own running statistics; they are not sent
            )
            model._set_ddp_runtime_logging_sample_rate(1)
            assert self.group is not None
            reduction = Reduction(self.assignment.strategy.removeprefix(STRATEGY), self.group)
            if self.hierarchy:
                model.register_comm_hook(None, self.hierarchy.reduce)
            elif reduction.compression:
                model.register_comm_hook(None, reduction.reduce)
            self.reductions[model] = reduction
            height, width, channels = shape
            for _ in range(2):
                images = torch.zeros(2, channels, height, width, device=self.device)  # BatchNorm needs two
                model(images).sum().backward()
            self.models[name, shape] = model
        return self.models[name, shape]

    def connect(self, command: Connect) -> Connected:
        """Replace all connections, and make the models that will be measured on them.

        Args:
            command: these models.

        Returns:
            That it is done.
        """
        self.point = None
        self.models, self.reductions = {}, {}
        gc.collect()
        if self.group is not None:
            dist.destroy_process_group(self.group)
        if self.hierarchy is not None:
            self.hierarchy.close()
        if self.assignment.strategy == STRATEGY:
            self.hierarchy = Hierarchy(self.assignment, self.device)
        self.group = dist.new_group(timeout=self.timeout, device_id=accelerator(self.device))
        for each in command.models:
            self.model(each.model, each.image_shape)
        self.widen()
        return Connected()

    def widen(self) -> None:
        """Let TCP's windows grow to what training needs; on a slow link this would take many steps."""
        largest = max(sum(each.numel() for each in model.parameters()) for model in self.models.values())
        for _ in range(4):
            dist.all_reduce(torch.zeros(4 * largest, device=self.device), group=self.group)
        finish(self.device)

    def await_others(self) -> None:
        """Wait until all ranks are here."""
        dist.barrier(group=self.group, device_ids=indices(self.device))

    def take_point(self, command: Prepare) -> nn.Module:
        """Take a point and try a step of it without communication.

        Args:
            command: the point, and the seed of its parameters and batches.

        Returns:
            Its DDP model.

        Raises:
            MemoryError: the step cannot fit into memory.
        """
        if self.device.type == "cpu":
            refuse_what_cannot_fit(command.point, self.assignment.world_size)
        point = Point(self, command.point, command.seed)
        try:
            with point.model.no_sync():
                point.step()
        finally:
            point.optimizer.zero_grad(set_to_none=True)
        self.point = point
        return point.model


def main(address: str, rank: int) -> None:
    """Serve the supervisor until it sends Stop.

    Args:
        address: of the control socket.
        rank: of this member.
    """
    work(address, rank, Worker, versions, reconnects=True, why_not=why_not)
