"""A run: the points of a grid that one worker group measures in turn while it lives.

Where they are for several runtimes, groups in each take turns on the same hosts, so that what is compared is measured
at the same time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ddlbench.files import sha256_json
from ddlbench.plan.catalogue import STRATEGIES
from ddlbench.plan.point import Point

GROUP_KEYS = (  # what a living worker group cannot change
    "framework",
    "strategy",
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
    """One launch, or several in turn where it has several runtimes.

    `id` does not depend on the points, so that a grid that grows keeps its runs.
    """

    id: str
    study: str
    grid: str
    key: GroupKey
    points: tuple[Point, ...]

    @property
    def group(self) -> dict[str, str | int | float]:
        """What all its points have in common: framework, strategy, workers, vcpus, ..., and the number of sites."""
        return {"sites": 1} | dict(zip((*GROUP_KEYS, "sites"), self.key, strict=False))

    @property
    def digest(self) -> str:
        """A hash of its points: another one is another run under the same id."""
        return sha256_json([point.id for point in self.points])

    @property
    def workers(self) -> int:
        """Number of workers that it launches."""
        return self.points[0].workers

    @property
    def runtimes(self) -> tuple[str, ...]:
        """The runtimes of its points, in their order."""
        return tuple(dict.fromkeys(point.runtime for point in self.points))


def group_key(point: Point | Mapping[str, Any]) -> GroupKey:
    """Equal for two points exactly if one living worker group, or one of the same in another runtime, measures both.

    Links can be changed under a living group, the sites that its hosts are divided among cannot.
    """
    if not isinstance(point, Point):
        point = Point.from_dict(point)
    key = tuple(getattr(point, key) for key in GROUP_KEYS)
    return (*key, len(point.sites.lans)) if point.sites else key


def runs_from(study: str, grid: str, points: Iterable[Point]) -> tuple[Run, ...]:
    """The points of a grid, each once, grouped into runs, both in the order in which they come."""
    groups: dict[GroupKey, dict[Point, None]] = {}
    for point in points:
        groups.setdefault(group_key(point), {})[point] = None
    return tuple(
        Run(_run_id(study, grid, key), study, grid, key, tuple(group)) for key, group in groups.items()
    )


def _run_id(study: str, grid: str, key: GroupKey) -> str:
    group = dict(zip(GROUP_KEYS, key, strict=False))
    framework = str(group["framework"]).replace("_", "-")
    strategy = STRATEGIES[str(group["strategy"])].short
    return f"{study}-{grid}-{framework}-{strategy}-{group['workers']}w-{sha256_json(list(key))[:6]}"
