"""`ddlbench summary`: drawn figures, headline numbers, what is not measured, what to do next, which claims hold."""

import argparse
import csv
import os
import shlex
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import StringIO
from itertools import chain
from pathlib import Path
from typing import Any

from ddlbench.cli.arguments import DEFAULT_CONFIG, NOT_FIT, counted
from ddlbench.cli.configuration import (
    add_configuration_options,
    configuration_of,
    configuration_words,
    results_of,
    settings_of,
)
from ddlbench.errors import DdlbenchError
from ddlbench.files import read_regular
from ddlbench.report.open_points import gaps, unresolved

_MOST_LINES = 4  # of a figure, in its headline

Row = dict[str, str]


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's sub-commands.

    Args:
        commands: the sub-commands of `ddlbench`, to which `summary` is added.
    """
    parser = commands.add_parser(
        "summary", help="figures, headline numbers, what could not be measured, what next"
    )
    add_configuration_options(parser)
    parser.set_defaults(command=_summary)


def _summary(arguments: argparse.Namespace) -> int:
    config, options = settings_of(configuration_of(arguments)), configuration_words(arguments)
    results = results_of(config)
    figures: dict[str, Mapping[str, Any]] = {}
    for study in _names(config, "studies"):
        figures |= _figures(DEFAULT_CONFIG.parent / "studies" / f"{study}.yaml")
    drawn = [name for name in figures if (results / "figures" / f"{name}.svg").is_file()]
    print(f"{counted(len(drawn), 'figure')} of {len(figures)} drawn (values [bounds]):")
    for name in drawn:
        print(f"  {results}/figures/{name}.svg   {figures[name].get('title', '')}".rstrip())
        if headline := _headline(_read_csv(results / "figures" / f"{name}.csv"), figures[name]):
            print(textwrap.fill(headline, 110, initial_indent="      ", subsequent_indent="        "))
    tables = {name: _read_csv(results / "tables" / f"{name}.csv") for name in drawn}
    shown = [(str(figures[name].get("y")), rows) for name, rows in tables.items()]
    print("\n".join((*_gaps(chain(*tables.values())), *_unresolved(shown), *_unfit(options))))
    default = _names(config, "default_figures")
    print(
        "\n".join(
            (*_next_commands(options, results, figures, drawn, default), *_claims(options))
        )
    )
    return 0


def _headline(rows: Sequence[Row], figure: Mapping[str, Any]) -> str:
    """Say what each line of a figure is at both ends of its x axis.

    Example: `training_time_s at bandwidth_mbit 400 and 2000: mlp 66.1 [64.9, 67.0] and 35.2 [34.8, 35.9]; conv1 ...`.
    """
    if figure.get("kind") == "telemetry":  # the load of a node at one moment is not a headline
        return ""
    x, y = str(figure.get("x")), str(figure.get("y"))
    if rows and y not in rows[0]:
        y = f"{y.removesuffix('_s')}_ms"  # a figure may show seconds as milliseconds
    lines: dict[str, dict[str, Row]] = {}
    for row in rows:
        if row.get(x) and row.get(y):
            name = row.get("series") or row.get(str(figure.get("lines"))) or ""
            name = f"{figure.get('lines')} {name}" if name.isdigit() else name
            lines.setdefault(name, {})[row[x]] = row
    places = sorted({place: None for line in lines.values() for place in line}, key=_sort_key)
    ends = list(dict.fromkeys([*places[:1], *places[-1:]]))
    if not ends:
        return ""
    values = [
        f"{name} {' and '.join(_interval(line.get(end), y) for end in ends)}".strip()
        for name, line in list(lines.items())[:_MOST_LINES]
    ]
    if len(lines) > _MOST_LINES:
        values.append(f"and {counted(len(lines) - _MOST_LINES, 'more line')}")
    return f"{y} at {x} {' and '.join(map(_number, ends))}: {'; '.join(values)}"


def _interval(row: Row | None, metric: str) -> str:
    if row is None:
        return "(not measured)"
    low, high = row.get(f"{metric}_low"), row.get(f"{metric}_high")
    return _number(row[metric]) + (f" [{_number(low)}, {_number(high)}]" if low and high else "")


def _unresolved(tables: Iterable[tuple[str, Iterable[Row]]]) -> Iterator[str]:
    """Name the points whose interval is wider than the stop rule allows, by study."""
    found = unresolved(tables)
    if found:
        yield "\nUnresolved, the interval is wider than asked for:"
    for study, names in found.items():
        text = f"{study}: {counted(len(names), 'point')}: {', '.join(names)}"
        yield textwrap.fill(text, 110, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)


def _gaps(rows: Iterable[Row]) -> Iterator[str]:
    """Say what could not be measured, and why; each reason once."""
    found = gaps(rows)
    if found:
        yield "\nNot measured here:"
    for gap in found:
        yield f"  {gap.study}: {counted(len(gap.points), 'point')} {gap.status}: {gap.reason}"


def _unfit(options: Sequence[str]) -> Iterator[str]:
    """Say which points are predicted not to fit into memory, as `ddlbench check` finds."""
    if found := [line for line in _answer("check", *options) if NOT_FIT in line]:
        yield "\nPredicted not to fit into memory:"
        yield from found


def _claims(options: Sequence[str]) -> Iterator[str]:
    """Count which of the papers' claims hold."""
    if found := _answer("claims", *options):
        yield ""
        yield from found
        yield f"  why, claim by claim:  {_program('ddlbench')} claims STUDY {shlex.join(options)}".rstrip()


def _answer(*command: str) -> list[str]:
    """The lines of another of our commands, in a process of its own: what it imports takes seconds."""
    arguments = [sys.executable, "-m", "ddlbench.cli", *command]
    return subprocess.run(arguments, capture_output=True, text=True).stdout.splitlines()


def _next_commands(
    options: Sequence[str],
    results: Path,
    figures: Iterable[str],
    drawn: Sequence[str],
    default: Sequence[str],
) -> Iterator[str]:
    program = _program("ddlbench")
    yield "\nNext:"
    if drawn:
        yield f"  {program} trace {results}/figures/{drawn[0]}.svg"
        yield f"  {program} verify"
    snakemake = _program("snakemake")
    missing = [name for name in default if name not in drawn] or [
        name for name in figures if name not in drawn
    ]
    if missing:
        yield f"  {snakemake} {missing[0]} {shlex.join(options)}".rstrip()
    if not options:
        yield f"  {snakemake} all_figures --configfile config/paper.yaml     # the papers' grids, into results/paper"


def _program(name: str) -> str:
    """The command of a program of this environment: its name if the shell finds it, else its path."""
    installed = Path(sys.executable).parent / name
    return name if shutil.which(name) or not installed.exists() else os.path.relpath(installed)


def _names(config: Mapping[str, Any], key: str) -> list[str]:
    """A list of names in settings that nobody has checked; `ddlbench check` says what is wrong with others."""
    found = config.get(key)
    return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []


def _figures(path: Path) -> dict[str, Mapping[str, Any]]:
    from ddlbench.configuration.schema import block
    from ddlbench.configuration.yaml_file import read_yaml

    figures = block(read_yaml(path, Path.cwd()), "figures")
    return {str(name): each for name, each in figures.items() if isinstance(each, Mapping)}


def _read_csv(path: Path) -> list[Row]:
    try:
        return list(csv.DictReader(StringIO(read_regular(path).decode(), newline="")))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, csv.Error) as error:
        raise DdlbenchError(
            f"{path}: this table cannot be read ({error}). Remove it: the next start makes it anew."
        ) from None


def _sort_key(text: str) -> float:
    """Sort numbers by their value; words keep the order of the figure."""
    try:
        return float(text)
    except ValueError:
        return float("inf")


def _number(text: str | None) -> str:
    try:
        return f"{float(text or ''):.4g}"
    except ValueError:
        return text or ""
