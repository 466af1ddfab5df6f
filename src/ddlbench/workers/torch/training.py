"""What all PyTorch workers share, however gradients are added up: what a rank trains with, and what it reports."""

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
from ddlbench.workers.common.models.first_weights import initial
from ddlbench.workers.torch.evaluation import evaluate, fingerprint
from ddlbench.workers.torch.gpu import CPU, release
from ddlbench.workers.torch.memory import fits
from ddlbench.workers.torch.models import dump, load


class Share:
    """What a rank trains with at a point: a network, and its share of each batch, `size` images.

    Args:
        assignment: of the rank.
        point: its data set, image shape and global batch size.
        seed: of the parameters and batches.
        network: from images, (n, channels, height, width), to logits, (n, classes).
        device: where the network is.
    """

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
        """Set parameters and the order of images as the seed determines them."""
        torch.manual_seed(self.seed)
        load(self.network, initial(self.name, self.shape, self.seed))
        self.batches.start_again()

    def batch(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Get the next step's images, float32, (n, channels, height, width), and labels, int64, (n,), on the device."""
        images, labels = next(self.batches)
        return torch.from_numpy(images).to(self.device), torch.from_numpy(labels).to(self.device)

    def examine(self, command: Conclude) -> TestResult | None:
        """Test the network and save its parameters, each if asked.

        Args:
            command: whether to test, and the file to save to (.npz).

        Returns:
            Loss and accuracy; None if the test was not asked for.
        """
        if command.save_to:
            np.savez(command.save_to, *dump(self.network))
        return evaluate(self.network, self.batches, self.device) if command.evaluate else None

    def conclusion(self, command: Conclude, *, is_first: bool) -> Concluded:
        """Hash the parameters; the first rank also tests and saves them if asked.

        Args:
            command: whether to test the parameters, and where to save them.
            is_first: this is the rank that tests and saves.

        Returns:
            The hash, and the test's result if there is one.
        """
        hashed = fingerprint(self.network)
        return Concluded(hashed, self.examine(command) if is_first else None)


class Point(Protocol):
    """The point that a ring worker measures: a model with fresh parameters, and this rank's share of its batches."""

    share: Share

    def start_again(self) -> None:
        """Set all that training changes as the seed determines it."""

    def train(self, steps: int) -> Trained:
        """Train some steps, each timed.

        Args:
            steps: how many.

        Returns:
            Step times in ms, the means of their parts, and the last step's loss.
        """


class RingWorker(ABC):
    """One rank of a group in which each has all parameters; derived classes add up the gradients.

    Args:
        assignment: of the rank.
    """

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.point: Point | None = None

    @abstractmethod
    def take_point(self, command: Prepare) -> nn.Module:
        """Take a point and try a step of it without communication.

        Args:
            command: the point, and the seed of its parameters and batches.

        Returns:
            Its network.

        Raises:
            MemoryError: the step cannot fit into memory.
        """

    @abstractmethod
    def await_others(self) -> None:
        """Wait until all ranks are here."""

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point; a step of it, on this rank alone, warms caches and shows whether it fits into memory.

        Args:
            command: the point, and the seed of its parameters and batches.

        Returns:
            Whether the step fits, and the number of parameters.
        """
        self.point = None
        return prepared(lambda: self.take_point(command))

    def train(self, command: Train) -> Trained:
        """Train the point for some steps.

        Args:
            command: how many, and whether from fresh parameters or from the present ones.

        Returns:
            Step times in ms, the means of their parts, and the last step's loss.
        """
        assert self.point is not None
        if command.from_fresh:
            self.point.start_again()
            self.await_others()  # else a rank that was ready sooner would wait in its first step
        return self.point.train(command.steps)

    def conclude(self, command: Conclude) -> Concluded:
        """Hash the parameters; rank 0 also tests and saves them if asked.

        Args:
            command: whether to test the parameters, and where to save them.

        Returns:
            The hash, and rank 0's test result.
        """
        assert self.point is not None
        return self.point.share.conclusion(command, is_first=self.assignment.rank == 0)


def prepared(take: Callable[[], nn.Module]) -> Prepared:
    """Try a point, and describe the outcome.

    Args:
        take: takes the point and tries a step; returns its network.

    Returns:
        Whether it fits into memory, and its number of parameters if so.
    """
    taken: list[nn.Module] = []
    release()  # memory of earlier points
    if not fits(lambda: taken.append(take())):
        return Prepared(fits=False)
    count = sum(parameter.numel() for parameter in taken[0].parameters())
    return Prepared(fits=True, parameter_count=count)
