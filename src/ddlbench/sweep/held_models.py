"""The models that the workers of a session hold, and those that the memory of their hosts is too small for."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from ddlbench.launch.group_member import LackedMemory
from ddlbench.plan import Point
from ddlbench.protocol.messages import ModelShape
from ddlbench.sweep.repetition import model_shapes
from ddlbench.workers.common.memory import parameter_bytes

Result = TypeVar("Result")


class HeldModels:
    """The models of some points: workers build all of them when they connect.

    Args:
        points: all that the session measures.

    Attributes:
        shapes: the models that are held.
    """

    def __init__(self, points: Sequence[Point]) -> None:
        self._points = points
        self._given_up: dict[ModelShape, str] = {}
        self.shapes = model_shapes(points)

    @property
    def points(self) -> list[Point]:
        """The points whose models are held."""
        return [point for point in self._points if self.why_not(point) is None]

    def why_not(self, point: Point) -> str | None:
        """Say why a point cannot be measured.

        Args:
            point: of the session.

        Returns:
            What was said when its model was given up; None: the model is held.
        """
        return self._given_up.get(ModelShape(point.model, point.image_shape))

    def give_up_largest(self, error: LackedMemory) -> None:
        """Hold the model with the most parameters no longer.

        Args:
            error: what became of workers that tried to hold all of `shapes`.
        """
        largest = max(self.shapes, key=lambda each: parameter_bytes(each.model, each.image_shape))
        self.shapes.remove(largest)
        self._given_up[largest] = f"its model does not fit into memory: {error}"

    def made_to_fit(self, do: Callable[[], Result], start_again: Callable[[], None]) -> Result:
        """Do what all models must be held for; as often as memory is too small, hold one less and start again.

        Args:
            do: with the models that are held; there may be none.
            start_again: with new workers, as some may have died.

        Returns:
            What `do` has returned.
        """
        while True:
            try:
                return do()
            except LackedMemory as error:
                self.give_up_largest(error)
                start_again()
