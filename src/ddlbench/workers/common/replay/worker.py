"""What all workers share whose compute is replayed, in whatever framework: a point, timed steps, and a check."""

import time
from collections.abc import Mapping
from typing import Generic, Protocol, TypeVar

from ddlbench.protocol.messages import (
    Assignment,
    Conclude,
    Concluded,
    Prepare,
    Prepared,
    Shape,
    Train,
    Trained,
)
from ddlbench.workers.common.progress import counted
from ddlbench.workers.common.replay.compute import ReplayedCompute
from ddlbench.workers.common.service import await_turn


class Model(Protocol):
    """The parameter arrays of a model, and the framework's step with them."""

    compute: ReplayedCompute
    parameter_count: int

    def start_again(self) -> None:
        """Let all gradients have this worker's value, as of `arrays.own_value`."""

    def step(self) -> None:
        """Make one step; the framework communicates, and `compute` takes the device's time."""

    def parts(self) -> Mapping[str, float]:
        """Return how long the last step's `forward_ms`, `backward_ms`, `communication_ms` were, if that is known."""

    def check(self) -> None:
        """Check what has become of the gradients since `start_again`.

        Raises:
            RuntimeError: it is not what all workers' gradients must become.
        """


SomeModel = TypeVar("SomeModel", bound=Model)


class ReplayWorker(Generic[SomeModel]):
    """One worker of a group whose compute is replayed; a framework's own class makes its connections and models.

    Args:
        assignment: of the worker.
    """

    def __init__(self, assignment: Assignment) -> None:
        self.assignment = assignment
        self.models: dict[tuple[str, Shape], SomeModel] = {}
        self.point: SomeModel | None = None

    def await_others(self) -> None:
        """Wait for what must be ready before any worker's first step: all workers, where steps wait for all of them.

        Here for nothing: a framework's own class knows what that is.
        """

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point: the step that is replayed. Nothing has to be tried.

        Args:
            command: the point.

        Returns:
            That it fits, and the number of parameters.
        """
        self.point = self.models[command.point.key]
        self.point.compute.take(self.assignment, command.point.replay)
        return Prepared(fits=True, parameter_count=self.point.parameter_count)

    def train(self, command: Train) -> Trained:
        """Replay some steps, each timed from its start to its end on this worker.

        Args:
            command: how many, and whether each worker begins with gradients of its own.

        Returns:
            Step times in ms of wall-clock time, and the means of the parts that are known.
        """
        assert self.point is not None
        if command.from_fresh:
            self.point.start_again()
            self.point.compute.start_again()
        self.await_others()
        await_turn(self.assignment.index, command)
        step_times_ms: list[float] = []
        sums_ms: dict[str, float] = {}
        for _ in counted(command.steps):
            started_s = time.perf_counter()
            self.point.step()
            step_times_ms.append((time.perf_counter() - started_s) * 1e3)
            for name, time_ms in self.point.parts().items():
                sums_ms[name] = sums_ms.get(name, 0.0) + time_ms
        means_ms = {name: time_ms / command.steps for name, time_ms in sums_ms.items()}
        return Trained([step_times_ms], **means_ms)

    def conclude(self, command: Conclude) -> Concluded:
        """Check what the framework has made of the gradients; there are no parameters to hash, and nothing is tested.

        Args:
            command: not used.

        Returns:
            An empty reply.

        Raises:
            RuntimeError: gradients were not added up over all workers.
        """
        assert self.point is not None
        self.point.check()
        return Concluded()
