"""A run: one launch of a worker group, and all points of a grid that this living group measures in turn."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ddlbench.files import sha256_json
from ddlbench.plan.catalogue import STRATEGIES
from ddlbench.plan.point import Point

GROUP_KEYS = (  # what a living worker group cannot change
    "framework",
    "strategy",
    "runtime",
    "devices",
    "fabric",
    "workers",
    "host_count",
    "vcpus",
    "memory_gb",
    "congestion_control",
)

GroupKey = tuple[str | int | float, ...]


@dataclass(frozen=True)
class Run:
    """One launch; `id` does not depend on the points, so that a grid that grows keeps its runs."""

    id: str
    study: str
    grid: str
    key: GroupKey
    points: tuple[Point, ...]

    @property
    def group(self) -> dict[str, str | int | float]:
        """What all its points have in common: framework, strategy, workers, vcpus, ..."""
        return dict(zip(GROUP_KEYS, self.key, strict=True))

    @property
    def digest(self) -> str:
        """A hash of its points: another one is another run under the same id."""
        return sha256_json([point.id for point in self.points])

    @property
    def workers(self) -> int:
        """Number of workers that it launches."""
        return self.points[0].workers


def group_key(point: Point | Mapping[str, Any]) -> GroupKey:
    """Equal for two points exactly if one living worker group can measure both."""
    if isinstance(point, Point):
        return tuple(getattr(point, key) for key in GROUP_KEYS)
    return tuple(point[key] for key in GROUP_KEYS)


def runs_from(study: str, grid: str, points: Iterable[Point]) -> tuple[Run, ...]:
    """The points of a grid, each once, grouped into runs, both in the order in which they come."""
    groups: dict[GroupKey, dict[Point, None]] = {}
    for point in points:
        groups.setdefault(group_key(point), {})[point] = None
    return tuple(
        Run(_run_id(study, grid, key), study, grid, key, tuple(group)) for key, group in groups.items()
    )


def _run_id(study: str, grid: str, key: GroupKey) -> str:
    group = dict(zip(GROUP_KEYS, key, strict=True))
    strategy = STRATEGIES[str(group["strategy"])]
    return f"{study}-{grid}-{group['framework']}-{strategy}-{group['workers']}w-{sha256_json(list(key))[:6]}"
