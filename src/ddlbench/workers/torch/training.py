"""What PyTorch's workers have in common, however their gradients meet: what a rank trains with, and what it reports."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

import numpy as np
import torch
from torch import nn

from ddlbench.protocol.messages import (
    Assignment,
    Conclude,
    Concluded,
    Prepare,
    Prepared,
    TestResult,
    Train,
    Trained,
    TrainingPoint,
)
from ddlbench.workers.common.batches import batches_of
from ddlbench.workers.common.first_weights import initial
from ddlbench.workers.torch.evaluation import evaluate, fingerprint
from ddlbench.workers.torch.gpu import CPU, release
from ddlbench.workers.torch.memory import fits
from ddlbench.workers.torch.models import dump, load


class Share:
    """What a rank trains with at a point: a network, and its share of each batch, `size` images."""

    def __init__(
        self,
        assignment: Assignment,
        point: TrainingPoint,
        seed: int,
        network: nn.Module,
        device: torch.device = CPU,
    ) -> None:
        self.name, self.shape = point.key
        self.network, self.seed, self.device = network, seed, device
        self.batches = batches_of(
            point,
            assignment.datasets,
            seed=seed,
            rank=assignment.index,
            world_size=assignment.world_size,
            layout="nchw",
        )
        share = self.batches.share
        self.size: int = share.stop - share.start

    def start_again(self) -> None:
        """Set parameters and the order of images to what the seed says."""
        torch.manual_seed(self.seed)
        load(self.network, initial(self.name, self.shape, self.seed))
        self.batches.start_again()

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Images and labels of this rank in the next step."""
        images, labels = next(self.batches)
        return torch.from_numpy(images).to(self.device), torch.from_numpy(labels).to(self.device)

    def examine(self, command: Conclude) -> TestResult | None:
        """Test the network and save its parameters, each if asked."""
        if command.save_to:
            np.savez(command.save_to, *dump(self.network))
        return evaluate(self.network, self.batches, self.device) if command.evaluate else None

    def conclusion(self, command: Conclude, *, is_first: bool) -> Concluded:
        """The hash of the parameters; the first rank does what else is asked."""
        hashed = fingerprint(self.network)
        return Concluded(hashed, self.examine(command) if is_first else None)


class Point(Protocol):
    """What a ring worker measures now: a model with fresh parameters, and this rank's share of its batches."""

    share: Share

    def start_again(self) -> None:
        """Set all that a training changes to what the seed says."""

    def train(self, steps: int) -> Trained:
        """Time so many steps."""


class RingWorker(ABC):
    """One rank of a group in which each has all parameters; how sums are made is for those that derive from it."""

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.point: Point | None = None

    @abstractmethod
    def take_point(self, command: Prepare) -> nn.Module:
        """Take a point and try a step of it, which communicates with nobody; returns its network."""

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point; a step of it, on this rank alone, warms caches and tells whether it fits into memory."""
        self.point = None
        return prepared(lambda: self.take_point(command))

    def train(self, command: Train) -> Trained:
        """Train the point for some steps, going on where it is or from its fresh parameters."""
        assert self.point is not None
        if command.from_fresh:
            self.point.start_again()
        return self.point.train(command.steps)

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters; rank 0 evaluates the test set and saves them if asked."""
        assert self.point is not None
        return self.point.share.conclusion(command, is_first=self.assignment.rank == 0)


def prepared(take: Callable[[], nn.Module]) -> Prepared:
    """Take a point, whose network is given back; whether it fits into memory, and its size."""
    taken: list[nn.Module] = []
    release()  # what points before this one have left
    if not fits(lambda: taken.append(take())):
        return Prepared(fits=False)
    count = sum(parameter.numel() for parameter in taken[0].parameters())
    return Prepared(fits=True, parameter_count=count)
