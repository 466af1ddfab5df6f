"""The plan: everything that is measured and drawn, before anything starts."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

from ddlbench.errors import ConfigError, nearest
from ddlbench.plan.catalogue import BETWEEN_MACHINES, MEASURABLE, PROBE_TRANSPORTS
from ddlbench.plan.point import POINT_KEYS, Point
from ddlbench.plan.probe import Collectives, dilation_of
from ddlbench.plan.run import Run
from ddlbench.plan.settings import Settings
from ddlbench.plan.sites import Sites
from ddlbench.plan.study import Fault, Figure, Grid, Link, PointToPoint, Study
from ddlbench.workers.strategies import STRATEGIES

NO_GPU = "this machine has no GPU (devices: gpu)"
# What no time is in: what a point asks for, and what its training has learnt.
_OF_NO_TIME = {*POINT_KEYS, "epoch", "test_loss", "test_accuracy_percent"}
_MORE = {"fabric": "; between the nodes of a cluster: docs/clusters.md"}


class Status(NamedTuple):
    """Whether a point can be measured now.

    Attributes:
        name: measurable, or why not.
        reason: for people, with what can be measured instead; None if the point can be measured.
    """

    name: Literal["measurable", "not_available", "no_environment"]
    reason: str | None


@dataclass(frozen=True)
class Plan:
    """All studies of a configuration, expanded; pure data."""

    settings: Settings
    links: Mapping[str, Link]
    sites: Mapping[str, Sites]
    studies: Mapping[str, Study]
    figures: Mapping[str, Figure]
    default_figures: tuple[str, ...]
    runs: tuple[Run, ...]
    probes: tuple[PointToPoint | Collectives, ...]
    scheduler: str | None = None  # slurm, if it gives us machines; None: there is no scheduler
    gpus: int = 0  # of this machine

    @cached_property
    def probe_tables(self) -> frozenset[str]:
        """The tables of all probes that can be made, below the folder of results.

        Those of figures, those of the configuration, and messages on any link by any transport.
        """
        shaped_mbit = self.settings.probes.shaped_mbit
        messages = {
            PointToPoint(name, dilation_of([link], shaped_mbit), transport).table
            for name, link in self.links.items()
            for transport in PROBE_TRANSPORTS
        }
        of_figures = {table for figure in self.figures.values() for table in figure.tables}
        return frozenset(messages | of_figures | {probe.table for probe in self.probes})

    @cached_property
    def dataset_keys(self) -> frozenset[str]:
        """The data sets that points and faults train with, as `digits-28x28x1`."""
        points = [point for run in self.runs for point in run.points]
        return frozenset(
            point.dataset_key for point in [*points, *(fault.point for fault in self.faults.values())]
        )

    @cached_property
    def figures_without_points(self) -> frozenset[str]:
        """Figures that show no point of their grids as the configuration has these."""
        return frozenset(name for study in self.studies.values() for name in study.without_points)

    def no_figure(self, name: str) -> str:
        """Say why a figure cannot be drawn.

        Args:
            name: what is no name of `figures`.

        Returns:
            A clause for people; if there is no such figure, with the nearest name.
        """
        if name in self.figures_without_points:
            return f"no point of this configuration's grids has the values that figure {name} shows"
        return f"there is no figure {name!r}{nearest(name, self.figures)}"

    def grid(self, study: str, name: str) -> Grid:
        """Find a grid.

        Args:
            study: its key.
            name: of the grid in the study.

        Returns:
            The grid, with its runs.

        Raises:
            KeyError: there is no such study or grid.
        """
        return self.studies[study].grids[name]

    def run(self, run_id: str) -> Run:
        """Find a run.

        Args:
            run_id: as of `Run.id`.

        Returns:
            The run, with its points.

        Raises:
            ConfigError: there is no such run; names the nearest.
        """
        if run_id not in self._run_by_id:
            raise ConfigError(f"there is no run {run_id!r}{nearest(run_id, self._run_by_id)}")
        return self._run_by_id[run_id]

    @cached_property
    def _run_by_id(self) -> dict[str, Run]:
        return {run.id: run for run in self.runs}

    @cached_property
    def faults(self) -> dict[str, Fault]:
        """All faults: id -> fault."""
        named = (of_name for study in self.studies.values() for of_name in study.faults.values())
        return {fault.id: fault for of_name in named for fault in of_name}

    def runs_of(self, name: str) -> tuple[Run, ...]:
        """List the runs of a figure or of a grid.

        Args:
            name: of a figure (zhao2016_fig5) or a grid (zhao2016/standalone_bandwidth).

        Returns:
            The runs; for a figure those with points that it shows.

        Raises:
            ConfigError: there is no such figure or grid; names the nearest.
        """
        if figure := self.figures.get(name):
            grids = [self.grid(figure.study, grid) for grid in figure.grids]
            return tuple(run for grid in grids for run in grid.runs if any(map(figure.shows, run.points)))
        study, _, grid_name = name.partition("/")
        if study in self.studies and grid_name in self.studies[study].grids:
            return self.grid(study, grid_name).runs
        if name in self.figures_without_points:
            raise ConfigError(self.no_figure(name))
        known = [*self.figures, *(f"{s.key}/{grid}" for s in self.studies.values() for grid in s.grids)]
        raise ConfigError(f"there is no figure or grid {name!r}{nearest(name, known)}")

    def largest_group(self, run: Run) -> int:
        """Count the hosts of the largest emulated group that is compared with a run's.

        Time is dilated alike in all groups whose times a figure shows, and in those that another compares with one of
        them.

        Args:
            run: of the plan; its hosts are emulated.

        Returns:
            Hosts; at least the run's own.
        """
        return self._largest_groups.get(run.id, run.points[0].places)

    @cached_property
    def _largest_groups(self) -> dict[str, int]:
        largest = {run.id: run.points[0].places for run in self.runs if _shares_cores(run.points[0])}
        together = [
            [run.id for run in self.runs_of(name) if run.id in largest and _depends_on_speed(figure, run)]
            for name, figure in self.figures.items()
            if figure.grids
        ]
        together = [ids for ids in together if len(ids) > 1]
        before: dict[str, int] = {}
        while before != largest:  # two figures may share a run
            before = dict(largest)
            for ids in together:
                largest |= dict.fromkeys(ids, max(largest[each] for each in ids))
        return largest

    def measurable_points(self, run_id: str) -> tuple[Point, ...]:
        """List the points of a run that can be measured now.

        Args:
            run_id: as of `Run.id`.

        Returns:
            The points, in the run's order.

        Raises:
            ConfigError: there is no such run; names the nearest.
        """
        return tuple(point for point in self.run(run_id).points if self.status(point).name == "measurable")

    def status(self, point: Point) -> Status:
        """Say whether a point can be measured now.

        Args:
            point: any, not only of this plan.

        Returns:
            `measurable`, or `not_available` with the reason.
        """
        lacking = [
            f"{key} {getattr(point, key)} (possible are {', '.join(possible)}{_MORE.get(key, '')})"
            for key, possible in MEASURABLE.items()
            if getattr(point, key) not in possible
            and not (self.scheduler and key == "fabric" and getattr(point, key) in BETWEEN_MACHINES)
        ]
        if point.fabric in BETWEEN_MACHINES and point.runtime == "docker":
            lacking.append("runtime docker between machines (possible are bare, apptainer)")
        if lacking:
            return Status("not_available", "not available yet: " + "; ".join(lacking))
        if point.replay and point.replay.unknown:
            return Status("not_available", point.replay.unknown)
        if point.devices == "gpu" and point.fabric not in BETWEEN_MACHINES and not self.gpus:
            return Status("not_available", NO_GPU)
        return Status("measurable", None)


def _depends_on_speed(figure: Figure, run: Run) -> bool:
    """Whether what a figure shows of a run would be another on faster hosts.

    What a training has learnt would not, if its workers wait for each other in each step.
    """
    shown = {figure.x, figure.y, *figure.columns} - {""}
    return not (shown <= _OF_NO_TIME and STRATEGIES[run.points[0].strategy].is_synchronous)


def _shares_cores(point: Point) -> bool:
    """Whether a point's hosts are emulated, and compute on this machine's cores."""
    return point.fabric not in BETWEEN_MACHINES and not point.waits
