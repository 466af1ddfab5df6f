"""A run: the points of a grid that one worker group can measure while it lives.

If a run has several runtimes, each has a worker group. The groups alternate on the same hosts, so that runtimes are
compared at the same time.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ddlbench.files import sha256_json
from ddlbench.plan.point import Point
from ddlbench.workers.strategies import STRATEGIES

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
    """The points that one worker group measures, or one group for each runtime.

    Attributes:
        id: does not depend on the points, so that a grid that grows keeps its runs.
        key: the values of GROUP_KEYS; the number of sites, if there are several or compute is replayed; what device is
            replayed, if one is; and how many workers a host has, if several.
    """

    id: str
    study: str
    grid: str
    key: GroupKey
    points: tuple[Point, ...]

    @property
    def group(self) -> dict[str, str | int | float]:
        """The values that all its points share: framework, strategy, workers, vcpus, ..., sites (how many), replay."""
        return {"sites": 1} | dict(zip((*GROUP_KEYS, "sites", "replay"), self.key, strict=False))

    @property
    def digest(self) -> str:
        """A hash of its points. With other points the same id is another run."""
        return sha256_json([point.id for point in self.points])

    @property
    def workers(self) -> int:
        """How many workers it has."""
        return self.points[0].workers

    @property
    def runtimes(self) -> tuple[str, ...]:
        """The runtimes of its points, in their order."""
        return tuple(dict.fromkeys(point.runtime for point in self.points))


def group_key(point: Point | Mapping[str, Any]) -> GroupKey:
    """Compute the key of a point's worker group. Points with the same key are measured by the same group.

    The runtime is not in it, because a run has a group for each. A living group can get other links, but not another
    number of sites.

    Args:
        point: the point, or its JSON data.

    Returns:
        The values of GROUP_KEYS; the number of sites follows if the point has sites; with replayed compute, the number
        of sites and the device; with several workers a host, these and how many.
    """
    if not isinstance(point, Point):
        point = Point.from_dict(point)
    key = tuple(getattr(point, key) for key in GROUP_KEYS)
    sites = len(point.sites.lans) if point.sites else 1
    if point.workers_per_host > 1:
        return (*key, sites, point.replay.device if point.replay else "", point.workers_per_host)
    if point.replay:
        return (*key, sites, point.replay.device)
    return (*key, sites) if point.sites else key


def runs_from(study: str, grid: str, points: Iterable[Point]) -> tuple[Run, ...]:
    """Group the points of a grid into runs.

    Args:
        study: its key.
        grid: its name in the study.
        points: those of the grid; a point may come more than once.

    Returns:
        The runs, with each point once, both in the order of `points`.
    """
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
