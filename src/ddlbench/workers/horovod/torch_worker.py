"""A Horovod worker with PyTorch: synchronous data-parallel training in a ring over Gloo, one point after another.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.horovod.torch_worker

It receives commands over the control socket (see `protocol.messages`), as PyTorch's `ring_allreduce` does. Gradients
are summed while the backward pass computes those of earlier layers. Horovod's thread looks for gradients once in a
cycle, and each time communicates with the other workers, also between trainings: on hosts without latency that is 2 to
5 Mbit/s and a tenth of a core. A worker that waits for sums does not sleep but yields its core, so telemetry shows its
waiting as work.
"""

import time

import horovod
import horovod.torch as hvd
import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from ddlbench.protocol.messages import Assignment, Connect, Connected, Prepare, Shape, Trained, TrainingPoint
from ddlbench.workers.common.progress import counted
from ddlbench.workers.common.service import work
from ddlbench.workers.horovod.group import dilated, meeting
from ddlbench.workers.torch.memory import refuse_what_cannot_fit
from ddlbench.workers.torch.models import MODELS
from ddlbench.workers.torch.training import RingWorker, Share


class Model:
    """A network and the optimizer that averages its gradients over all ranks; all points with this model share them.

    Args:
        name: Of a model in `architectures`.
        shape: Of an image: height, width, channels.
    """

    def __init__(self, name: str, shape: Shape) -> None:
        self.network = MODELS[name](shape)
        self.first_gradient_s = 0.0
        parameters = list(self.network.parameters())
        parameters[-1].register_post_accumulate_grad_hook(self.note_time)  # the backward pass begins there
        self.optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(parameters), named_parameters=self.network.named_parameters()
        )

    def note_time(self, _: torch.Tensor) -> None:
        """Record when a step's first gradient is computed.

        Args:
            _: The parameter whose gradient it is; not used.
        """
        self.first_gradient_s = time.perf_counter()


class Point:
    """The training point that is measured: a model with fresh parameters, and this rank's share of each batch.

    Args:
        worker: Of this process; it has the models.
        point: Its batch size is that of all ranks together.
        seed: Of the first weights and of the order of the images.
    """

    def __init__(self, worker: "Worker", point: TrainingPoint, seed: int) -> None:
        self.model = worker.models[point.key]
        self.network: nn.Module = self.model.network
        self.optimizer = self.model.optimizer
        for group in self.optimizer.param_groups:
            group.update(lr=point.learning_rate, momentum=point.momentum)
        self.share = Share(worker.assignment, point, seed, self.network)
        # Horovod averages over ranks; where shares differ by one image, this weight gives the whole batch's mean.
        self.weight = self.share.size * worker.assignment.world_size / point.batch_size
        self.start_again()

    def start_again(self) -> None:
        """Set parameters, optimizer and the order of images back to what the seed determines, without communication."""
        self.share.start_again()
        self.optimizer.state.clear()

    def loss(self) -> torch.Tensor:
        """Compute the mean loss of this rank's share of the next batch, a scalar in nats."""
        images, labels = self.share.batch()
        self.optimizer.zero_grad()
        return cross_entropy(self.network(images), labels)

    def try_step(self) -> None:
        """Make a step on this rank alone: gradients that are returned, not accumulated, start no communication."""
        parameters = list(self.network.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(self.loss(), parameters), strict=True):
            parameter.grad = gradient
        self.descend()

    def descend(self) -> None:
        """Take the optimizer's step with the gradients that the parameters hold."""
        with self.optimizer.skip_synchronize():
            self.optimizer.step()

    def train(self, steps: int) -> Trained:
        """Time steps, each from its start to its end on this rank.

        Communication lasts from the first gradient of a step to the last sum; most of it overlaps the backward pass.

        Args:
            steps: How many.

        Returns:
            This rank's step times, and the means of their forward pass, backward pass and communication, all in
            milliseconds of wall clock; and the loss of the last step (nats per image of this rank).
        """
        loss = torch.tensor(float("nan"))
        times: list[tuple[float, ...]] = []
        for _ in counted(steps):
            started = time.perf_counter()
            loss = self.loss()
            forward = time.perf_counter()
            (loss if self.weight == 1.0 else loss * self.weight).backward()
            backward = time.perf_counter()
            self.optimizer.synchronize()
            summed = time.perf_counter()
            self.descend()
            times.append(
                (
                    time.perf_counter() - started,
                    forward - started,
                    backward - forward,
                    summed - self.model.first_gradient_s,
                )
            )
        of_steps = np.array(times) * 1e3
        _, forward_ms, backward_ms, communication_ms = of_steps.mean(axis=0).tolist()
        return Trained([of_steps[:, 0].tolist()], loss.item(), forward_ms, backward_ms, communication_ms)


class Worker(RingWorker):
    """One rank of the worker group."""

    def __init__(self, assignment: Assignment) -> None:
        super().__init__(assignment)
        self.meetings = 0
        self.models: dict[tuple[str, Shape], Model] = {}
        torch.set_num_threads(assignment.threads)

    def connect(self, command: Connect) -> Connected:
        """Replace all connections, and make the models that will be measured.

        Args:
            command: The models and their image shapes; those that exist are kept.

        Returns:
            The message that it is done.
        """
        self.point = None
        if hvd.is_initialized():
            hvd.shutdown()
        with meeting(dilated(self.assignment, command), self.meetings):
            hvd.init()
            hvd.barrier()
        self.meetings += 1
        for each in command.models:
            if (key := (each.model, each.image_shape)) not in self.models:
                self.models[key] = Model(*key)
        self.widen()
        return Connected()

    def widen(self) -> None:
        """Average four times as many float32 numbers as the largest model has, four times.

        On a slow link TCP's windows would otherwise need many steps to grow to what training needs.
        """
        largest = max(
            sum(each.numel() for each in model.network.parameters()) for model in self.models.values()
        )
        for _ in range(4):
            hvd.allreduce_(torch.zeros(4 * largest))

    def await_others(self) -> None:
        """Wait until all ranks are here."""
        hvd.barrier()

    def take_point(self, command: Prepare) -> nn.Module:
        """Take a point, and try a step of it on this rank alone.

        Args:
            command: The point, and the seed of its parameters and batches.

        Returns:
            The point's network, from images (batch, channels, height, width) to logits (batch, classes).

        Raises:
            MemoryError: If the backward pass alone would need more memory than this process may have.
        """
        refuse_what_cannot_fit(command.point, self.assignment.world_size)
        point = Point(self, command.point, command.seed)
        try:
            point.try_step()
        finally:
            point.optimizer.zero_grad()
        self.point = point
        return point.network


def main(address: str, rank: int) -> None:
    """Run this member of a worker group until the supervisor sends `Stop`.

    Args:
        address: Of the control socket (see `protocol.channel.connect`).
        rank: Of this member.
    """
    versions = {"horovod": horovod.__version__, "torch": torch.__version__}
    work(address, rank, Worker, lambda assignment: versions, reconnects=True)
