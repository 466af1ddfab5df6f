"""What Horovod's workers share whose compute is replayed, with any framework: how they meet, and meet again."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from types import ModuleType

from ddlbench.protocol.messages import Assignment, Connect, Connected, ModelShape, Prepare, Prepared, Shape
from ddlbench.workers.common.replay.worker import ReplayWorker, SomeModel
from ddlbench.workers.horovod.group import dilated, meeting

_FIRST_STEPS = 2  # TCP's windows grow in them


class HorovodWorker(ReplayWorker[SomeModel]):
    """One rank of the worker group; subclasses make the models of a framework.

    Args:
        assignment: of the rank.
        hvd: Horovod's module for the framework.
    """

    def __init__(self, assignment: Assignment, hvd: ModuleType) -> None:
        super().__init__(assignment)
        self.hvd = hvd
        self.meetings = 0

    @abstractmethod
    def model(self, name: str, shape: Shape) -> SomeModel:
        """Make a model.

        Args:
            name: of a model in `architectures`.
            shape: of an image, (height, width, channels).

        Returns:
            The model; its first step takes no time.
        """

    def connect(self, command: Connect) -> Connected:
        """Replace all connections, and make the models that will be measured.

        Args:
            command: these models, of which those that exist are kept; and the dilation, if it is another one.

        Returns:
            That it is done.
        """
        self.point = None
        self.assignment = dilated(self.assignment, command)
        self.meet(command.models)
        return Connected()

    def meet(self, wanted: Sequence[ModelShape] = ()) -> None:
        """Initialise Horovod with new connections, and take first steps of all models, which take no time.

        Args:
            wanted: models that there must be; Horovod's optimizers can be made only now.
        """
        if self.hvd.is_initialized():
            self.hvd.shutdown()
        with meeting(self.assignment, self.meetings):  # until all ranks have taken a step
            self.hvd.init()
            for each in wanted:
                if (key := (each.model, each.image_shape)) not in self.models:
                    self.models[key] = self.model(*key)
            for model in self.models.values():
                model.compute.take(self.assignment, None)
                for _ in range(_FIRST_STEPS):
                    model.step()
        self.meetings += 1

    def prepare(self, command: Prepare) -> Prepared:
        """Take a point: the step that is replayed. Another dilation of time is another cycle of Horovod.

        Args:
            command: the point.

        Returns:
            That it fits, and the number of parameters.
        """
        dilation = command.point.replay.dilation if command.point.replay else None
        if dilation not in (None, self.assignment.dilation):
            self.assignment = replace(self.assignment, dilation=dilation or 1.0)
            self.meet()
        return super().prepare(command)
