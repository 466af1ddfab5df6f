"""A study's file: its content and the configuration's settings for its grids become a Study."""

from collections.abc import Iterator, Mapping
from typing import Any

from ddlbench.configuration.schema import Known, Path_, Problem, Schemas, block
from ddlbench.devices import uneven
from ddlbench.devices.device import Device
from ddlbench.errors import nearest
from ddlbench.plan import axis
from ddlbench.plan import grid as grids
from ddlbench.plan.figure_kinds import misfits
from ddlbench.plan.point import POINT_KEYS
from ddlbench.plan.probe import dilation_of
from ddlbench.plan.replays import mistakes
from ddlbench.plan.run import runs_from
from ddlbench.plan.sites import Sites
from ddlbench.plan.study import Deviation, Fault, Figure, Grid, Hosts, Link, PointToPoint, Study, as_tuples

PROBED = "tcp"  # the transport of a figure's probes


SERVER = "server"  # a fault may kill this instead of a number of workers


class StudyFile:
    """One study's file, and the configuration's settings for its grids; collects the problems of both.

    Attributes:
        key: the study's, by the file's name.
        file: its path below the repository's root.
        data: its content.
        scale: the configuration's settings, by grid.
        source: the file that these are from, for messages.
        problems: those that were found so far.
        axes_schema: the schema of one value, for each key of a grid.
    """

    def __init__(
        self, key: str, data: Any, scale: Mapping[str, Any], source: str, rules: Schemas, names: Known
    ) -> None:
        self.key, self.file, self.scale, self.source = key, f"config/studies/{key}.yaml", scale, source
        self.data: Mapping[str, Any] = data if isinstance(data, dict) else {}
        own = {kind: [str(name) for name in block(data, kind)] for kind in ("grids", "faults")}
        definitions = rules.documents["study"]["$defs"]
        axes = [definitions["figure"]["properties"][axis]["enum"] for axis in ("x", "y", "lines")]
        columns = {
            "point keys": POINT_KEYS,
            "columns of points": (*POINT_KEYS, "batch_per_worker"),
            "shown columns": tuple(dict.fromkeys(name for names_ in axes for name in names_ if name)),
        }
        self.problems = rules.problems("study", data, self.file, {**names, **own, **columns})
        self.axes_schema = {name: definitions[name] for name in definitions["axes"]["properties"]}

    def study(
        self,
        links: Mapping[str, Link],
        sites: Mapping[str, Sites],
        devices: Mapping[str, Device],
        seed: int,
        shaped_mbit: float,
    ) -> Study:
        """Make the study, and add the problems that are found to `problems`. What has problems is left out.

        Args:
            links: by name.
            sites: sets of sites, by name.
            devices: those that hosts can replay, by name.
            seed: of all points.
            shaped_mbit: probes are dilated so much that no link is faster, in 10^6 bit/s.

        Returns:
            The study; an empty one if problems concern the whole file.
        """
        bad = {problem.path[:2] for problem in self.problems}
        tops = {path[0] for path in bad if path} - {"grids", "faults", "figures"}
        if not self.data or tops or any(len(path) < 2 for path in bad):
            return Study(self.key, "", None, {}, {}, {})
        data = self.data
        if data["key"] != self.key:
            self._note(("key",), f"{data['key']!r} is not the file's name, {self.key!r}")
        for name in self.scale:
            if name not in block(data, "grids"):
                text = f"{name!r} is not a grid of {self.key}{nearest(name, map(str, block(data, 'grids')))}"
                self.problems.append(Problem(self.source, ("grids", self.key, name), text))
        hosts = {
            name: Hosts(
                host["count"],
                host["vcpus"],
                float(host["memory_gb"]),
                devices.get(host.get("device", "")),
                host.get("uneven", ()),
                uneven.Jitter(**host["jitter"]) if "jitter" in host else None,
                devices,
                host.get("without_profile", "refuse"),
            )
            for name, host in block(data, "hosts").items()
        }
        for name, host in block(data, "hosts").items():
            for index, text in uneven.mistakes(host.get("uneven", ()), host["count"]):
                self._note(("hosts", name, "uneven", index, "host"), text)
        good = [name for name in block(data, "grids") if ("grids", name) not in bad]
        found = {name: grid for name in good if (grid := self._grid(name, hosts, links, sites, seed))}
        good = [name for name in block(data, "faults") if ("faults", name) not in bad]
        faults = {name: fault for name in good if (fault := self._fault(name, hosts, links, sites, seed))}
        figures = {
            name: figure
            for name in data["figures"]
            if ("figures", name) not in bad
            and (figure := self._figure(name, found, faults, links, shaped_mbit))
        }
        without_points = [
            name
            for name, figure in figures.items()
            if figure.grids
            and not any(figure.shows(point) for grid in figure.grids for point in found[grid].points)
        ]
        for name in without_points:
            if (
                not self.scale.keys() & figures.pop(name).grids
            ):  # no configuration has taken these points away
                self._note(("figures", name, "where"), "no point of its grids has these values")
        return Study(
            self.key, data["title"], data.get("paper"), hosts, found, figures, faults, tuple(without_points)
        )

    def _grid(
        self,
        name: str,
        hosts: Mapping[str, Hosts],
        links: Mapping[str, Link],
        sites: Mapping[str, Sites],
        seed: int,
    ) -> Grid | None:
        """A grid with its runs. If a point of it is impossible: None, and the problems are noted."""
        given, path = self.data["grids"][name], ("grids", name)
        blocks = list(self._blocks("grids", name, self.scale.get(name, {})))
        problems = [problem for axes in blocks for problem in mistakes(axes, hosts, self.file, path)]
        if given.get("per_epoch") and 0 in (epochs := blocks[0]["epochs"]).values:
            problems.append(epochs.problem(0, "per_epoch needs at least one epoch that is trained for real"))
        if problems:
            self.problems += dict.fromkeys(problems)
            return None
        points = (point for axes in blocks for point in grids.points(axes, hosts, links, sites, seed))
        runs = runs_from(self.key, name, points)
        return Grid(self.key, name, runs, given["report"], given.get("per_epoch", False))

    def _fault(
        self,
        name: str,
        hosts: Mapping[str, Hosts],
        links: Mapping[str, Link],
        sites: Mapping[str, Sites],
        seed: int,
    ) -> tuple[Fault, ...]:
        """A fault of each point. If one is impossible: none at all, and the problems are noted."""
        given, path = self.data["faults"][name], ("faults", name)
        blocks = list(self._blocks("faults", name, {}))
        problems = [problem for axes in blocks for problem in mistakes(axes, hosts, self.file, path)]
        if given["at_step"] >= given["steps"]:
            text = f"{given['at_step']} leaves none of the {given['steps']} steps to the survivors"
            problems.append(Problem(self.file, (*path, "at_step"), text))
        fewest = min(
            (each for axes in blocks if "workers" in axes for each in axes["workers"].values), default=1
        )
        for index, whom in enumerate(given["kill"]):
            if whom != SERVER and whom >= fewest:
                text = f"killing {whom} of {fewest} workers leaves nobody to see what happens"
                problems.append(Problem(self.file, (*path, "kill", index), text))
        if problems:
            self.problems += dict.fromkeys(problems)
            return ()
        points = (point for axes in blocks for point in grids.points(axes, hosts, links, sites, seed))
        return tuple(
            Fault(
                name=name,
                run=runs_from(self.key, name, [point])[0],
                kill=tuple(given["kill"]),
                at_step=given["at_step"],
                steps=given["steps"],
                timeout_s=float(given["timeout_s"]),
            )
            for point in dict.fromkeys(points)
        )

    def _blocks(self, kind: str, name: str, scale: Mapping[str, Any]) -> Iterator[axis.Axes]:
        """The axes of a grid or fault, then those of each entry of `include`; entry over `scale` over study."""
        given = self.data[kind][name]
        own: tuple[str, Path_] = (self.file, (kind, name))
        scaled: tuple[str, Path_] = (self.source, ("grids", self.key, name))
        axes = axis.default_axes(self.axes_schema, *own)
        axes = axis.over(axes, axis.axes_of(given, self.axes_schema, *own))
        axes = axis.over(axes, axis.axes_of(scale, self.axes_schema, *scaled))
        axes = {key: axes[key] for key in self.axes_schema if key in axes}
        yield axes
        file, path = scaled if "include" in scale else own
        for index, entry in enumerate((scale if "include" in scale else given).get("include", ())):
            yield axis.over(axes, axis.axes_of(entry, self.axes_schema, file, (*path, "include", index)))

    def _figure(
        self,
        name: str,
        found: Mapping[str, Grid],
        faults: Mapping[str, tuple[Fault, ...]],
        links: Mapping[str, Link],
        shaped_mbit: float,
    ) -> Figure | None:
        """A figure, its problems noted; None if one of its grids or faults has problems."""
        given = self.data["figures"][name]
        if found_misfits := list(misfits(given)):
            for key, text in found_misfits:
                self._note(("figures", name, key), text)
            return None
        if not all(grid in found for grid in given.get("grids", ())):
            return None
        if not all(fault in faults for fault in given.get("faults", ())):
            return None
        shown = given.get("links", ())
        factor = float(given.get("dilation", 0)) or dilation_of((links[link] for link in shown), shaped_mbit)
        figure = Figure(
            name=name,
            study=self.key,
            kind=given.get("kind", "line"),
            grids=tuple(given.get("grids", ())),
            title=given["title"],
            x=given["x"],
            y=given["y"],
            lines=given.get("lines"),
            columns=tuple(given.get("columns", ())),
            where=as_tuples(given.get("where", {})),
            x_scale=given.get("x_scale", "linear"),
            y_scale=given.get("y_scale", "linear"),
            category=given["category"],
            caption=given["caption"],
            per_epoch=any(found[grid].per_epoch for grid in given.get("grids", ())),
            probes=tuple(PointToPoint(link, factor, PROBED) for link in shown),
            faults=tuple(each for fault in given.get("faults", ()) for each in faults[fault]),
            image_shape=given.get("image_shape"),
            published=given.get("published", {}),
            deviations=tuple(map(Deviation.of, self.data.get("deviations", ()))),
            of_a_paper="paper" in self.data,
        )
        path = ("figures", name)
        if not name.startswith(f"{self.key}_"):
            self._note(path, f"is not a figure of this study (expected a name that starts with {self.key}_)")
        elif figure.kind == "table" and not figure.columns:
            self._note((*path, "columns"), "is missing (a table needs its columns)")
        return figure

    def _note(self, path: Path_, text: str) -> None:
        self.problems.append(Problem(self.file, path, text))
