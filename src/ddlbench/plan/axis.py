"""The axes of a grid: the values of each of its keys, and their place in a file."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, get_args

from ddlbench.configuration.schema import Path_, Problem, Schema
from ddlbench.plan.point import Point

LINK_KEYS = ("bandwidth_mbit", "latency_ms", "loss_percent")
LINK_AXES = {"link", *LINK_KEYS}
_INSTEAD = (  # two sets of keys: a key of one set that is given later replaces those of the other
    ({"sites"}, LINK_AXES),
    ({"batch_per_worker"}, {"batch_size"}),
)
_TYPES = {field.name: field.type for field in fields(Point)}


@dataclass(frozen=True)
class Axis:
    """The values of one key of a grid, and their place in a file."""

    values: tuple[Any, ...]
    listed: bool  # written as a list
    file: str
    path: Path_

    def problem(self, value: Any, text: str) -> Problem:
        """Make a problem that names the place of one value.

        Args:
            value: one of the axis' values.
            text: what is wrong with it.

        Returns:
            The problem, with file and path.
        """
        return Problem(self.file, (*self.path, self.values.index(value)) if self.listed else self.path, text)


Axes = Mapping[str, Axis]


def axes_of(keys: Mapping[str, Any], defaults: Schema, file: str, path: Path_) -> dict[str, Axis]:
    """Read the axes of a block of a configuration.

    Args:
        keys: of the block; other keys than axes are ignored.
        defaults: the schema's axes, by key.
        file: that the block is in, for messages.
        path: of the block in the file.

    Returns:
        Key -> axis, for the axes that the block has.
    """
    given = ((key, value) for key, value in keys.items() if key in defaults)
    return {key: _axis(key, value, file, (*path, key)) for key, value in given}


def default_axes(schema: Schema, file: str, path: Path_) -> dict[str, Axis]:
    """Make the axes that a grid has if they are not given.

    Args:
        schema: the schema of one value, by key.
        file: that messages name.
        path: of the grid in the file.

    Returns:
        Key -> axis, for the keys that have a default.
    """
    return {
        key: _axis(key, one["default"], file, (*path, key)) for key, one in schema.items() if "default" in one
    }


def over(axes: Axes, later: Axes) -> dict[str, Axis]:
    """Replace axes by those of a later block.

    Sites that are given later replace a link and its values, and these replace sites. batch_per_worker and batch_size
    replace each other too.

    Args:
        axes: key -> axis.
        later: those that replace them.

    Returns:
        The axes of both.
    """
    dropped: set[str] = set()
    for one, other in _INSTEAD:
        dropped |= (other if one & later.keys() else set()) | (one if other & later.keys() else set())
    return {key: axis for key, axis in axes.items() if key not in dropped} | dict(later)


def _axis(key: str, given: Any, file: str, path: Path_) -> Axis:
    values = given if isinstance(given, list) else [given]
    kinds = get_args(_TYPES.get(key)) or (_TYPES.get(key),)
    if float in kinds:
        values = [float(value) for value in values]
    elif int in kinds and key != "image_shape":
        values = [value if value is None else int(value) for value in values]
    return Axis(tuple(values), isinstance(given, list), file, path)
