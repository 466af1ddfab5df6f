"""A study's file: from its content, and what the configuration sets of its grids, to a Study."""

from collections.abc import Iterator, Mapping
from typing import Any

from ddlbench.errors import nearest
from ddlbench.plan import grid as grids
from ddlbench.plan.point import POINT_KEYS
from ddlbench.plan.run import runs_from
from ddlbench.plan.schema import Known, Path_, Problem, Schemas, block
from ddlbench.plan.study import Figure, Grid, Hosts, Link, Study


class StudyFile:
    """One study's file, and what the configuration sets of its grids; collects the problems of both."""

    def __init__(
        self, key: str, data: Any, scale: Mapping[str, Any], source: str, rules: Schemas, names: Known
    ) -> None:
        self.key, self.file, self.scale, self.source = key, f"config/studies/{key}.yaml", scale, source
        self.data: Mapping[str, Any] = data if isinstance(data, dict) else {}
        known = {**names, "grids": [str(name) for name in block(data, "grids")], "point keys": POINT_KEYS}
        self.problems = rules.problems("study", data, self.file, known)
        definitions = rules.documents["study"]["$defs"]
        self.axes_schema = {name: definitions[name] for name in definitions["axes"]["properties"]}

    def study(self, links: Mapping[str, Link], seed: int) -> Study:
        """The study; what has problems is left out of it."""
        bad = {problem.path[:2] for problem in self.problems}
        tops = {path[0] for path in bad if path} - {"grids", "figures"}
        if not self.data or tops or any(len(path) < 2 for path in bad):
            return Study(self.key, "", {}, {}, {}, {})
        data = self.data
        if data["key"] != self.key:
            self._note(("key",), f"{data['key']!r} is not the file's name, {self.key!r}")
        for name in self.scale:
            if name not in data["grids"]:
                text = f"{name!r} is not a grid of {self.key}{nearest(name, map(str, data['grids']))}"
                self.problems.append(Problem(self.source, ("grids", self.key, name), text))
        hosts = {
            name: Hosts(**{**host, "memory_gb": float(host["memory_gb"])})
            for name, host in data["hosts"].items()
        }
        good = [name for name in data["grids"] if ("grids", name) not in bad]
        found = {name: grid for name in good if (grid := self._grid(name, hosts, links, seed))}
        figures = {
            name: figure
            for name in data["figures"]
            if ("figures", name) not in bad and (figure := self._figure(name, found))
        }
        return Study(self.key, data["title"], data["paper"], hosts, found, figures)

    def _grid(
        self, name: str, hosts: Mapping[str, Hosts], links: Mapping[str, Link], seed: int
    ) -> Grid | None:
        """A grid with its runs; None, and the problems noted, where a point of it is impossible."""
        given, path = self.data["grids"][name], ("grids", name)
        blocks = list(self._blocks(name))
        problems = [problem for axes in blocks for problem in grids.problems(axes, hosts, self.file, path)]
        if given.get("per_epoch") and 0 in (epochs := blocks[0]["epochs"]).values:
            problems.append(epochs.problem(0, "per_epoch needs at least one epoch that is trained for real"))
        if problems:
            self.problems += dict.fromkeys(problems)
            return None
        points = (point for axes in blocks for point in grids.points(axes, hosts, links, seed))
        runs = runs_from(self.key, name, points)
        return Grid(self.key, name, runs, given["report"], given.get("per_epoch", False))

    def _blocks(self, name: str) -> Iterator[grids.Axes]:
        """The grid's axes, then those of each entry of `include`; entry over configuration over study."""
        given, scale = self.data["grids"][name], self.scale.get(name, {})
        own: tuple[str, Path_] = (self.file, ("grids", name))
        scaled: tuple[str, Path_] = (self.source, ("grids", self.key, name))
        axes = grids.default_axes(self.axes_schema, *own)
        axes |= grids.axes_of(given, self.axes_schema, *own) | grids.axes_of(scale, self.axes_schema, *scaled)
        axes = {key: axes[key] for key in self.axes_schema if key in axes}
        yield axes
        file, path = scaled if "include" in scale else own
        for index, entry in enumerate((scale if "include" in scale else given).get("include", ())):
            yield axes | grids.axes_of(entry, self.axes_schema, file, (*path, "include", index))

    def _figure(self, name: str, found: Mapping[str, Grid]) -> Figure | None:
        """A figure, its problems noted; None where one of its grids has problems."""
        given = self.data["figures"][name]
        if not all(grid in found for grid in given["grids"]):
            return None
        where = {key: tuple(v) if isinstance(v, list) else (v,) for key, v in given.get("where", {}).items()}
        figure = Figure(
            name=name,
            study=self.key,
            kind=given.get("kind", "line"),
            grids=tuple(given["grids"]),
            title=given["title"],
            x=given["x"],
            y=given["y"],
            lines=given.get("lines"),
            columns=tuple(given.get("columns", ())),
            where=where,
            x_scale=given.get("x_scale", "linear"),
            y_scale=given.get("y_scale", "linear"),
            category=given["category"],
            caption=given["caption"],
            per_epoch=any(found[grid].per_epoch for grid in given["grids"]),
        )
        path = ("figures", name)
        if not name.startswith(f"{self.key}_"):
            self._note(path, f"is not a figure of this study (expected a name that starts with {self.key}_)")
        elif figure.kind == "table" and not figure.columns:
            self._note((*path, "columns"), "is missing (a table needs its columns)")
        elif not any(figure.shows(point) for grid in given["grids"] for point in found[grid].points):
            self._note((*path, "where"), "no point of its grids has these values")
        return figure

    def _note(self, path: Path_, text: str) -> None:
        self.problems.append(Problem(self.file, path, text))
