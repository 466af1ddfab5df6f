"""The command `ddlbench`: is a configuration right, where does a result come from, does it match, what is there.

`ddlbench probe`, `ddlbench interfaces` and `ddlbench doctor` have modules of their own: `cli_probe`, ...
"""

import argparse
import csv
import os
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ddlbench.cli import doctor as cli_doctor
from ddlbench.cli import interfaces as cli_interfaces
from ddlbench.cli import probe as cli_probe
from ddlbench.errors import ConfigError, DdlbenchError

BROKEN_PIPE = 141  # what the shell reports for a program that SIGPIPE ended

Row = dict[str, str]


def main(argv: Sequence[str] | None = None) -> int:
    """Run one sub-command. Returns 0, 1 (a mismatch, a DdlbenchError) or 2 (wrong usage or configuration)."""
    try:
        arguments = _parser().parse_args(argv)
        status: int = arguments.command(arguments)
        sys.stdout.flush()
        return status
    except SystemExit as end:  # of argparse: 0 after --help, 2 after a usage error
        return int(end.code or 0)
    except DdlbenchError as error:
        print(f"ddlbench: {error}", file=sys.stderr)
        return error.exit_code
    except BrokenPipeError:  # as in `ddlbench trace FILE | head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="ddlbench", description="Results of ddlbench: where they come from; and networks, probed."
    )
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    check = commands.add_parser(
        "check", help="validate a configuration and count what it plans; starts nothing"
    )
    check.add_argument(
        "config",
        metavar="CONFIG",
        type=Path,
        nargs="?",
        default=Path("config/config.yaml"),
        help="default: %(default)s",
    )
    check.set_defaults(command=_check)
    trace = commands.add_parser(
        "trace", help="print the tree from a result down to data sets, code and hosts"
    )
    trace.add_argument(
        "file", metavar="FILE", type=Path, help="a figure, a table, a manifest or a measurement"
    )
    trace.set_defaults(command=_trace)
    verify = commands.add_parser(
        "verify", help="hash all that results were made from again; name what differs"
    )
    verify.add_argument("files", metavar="FILE", type=Path, nargs="*", help="default: every drawn figure")
    verify.set_defaults(command=_verify)
    summary = commands.add_parser(
        "summary", help="figures, headline numbers, what could not be measured, what next"
    )
    summary.add_argument(
        "--config", type=Path, default=Path("config/config.yaml"), help="default: %(default)s"
    )
    summary.set_defaults(command=_summary)
    cli_probe.add_to(commands)
    cli_interfaces.add_to(commands)
    cli_doctor.add_to(commands)
    return parser


def _check(arguments: argparse.Namespace) -> int:
    from ddlbench.plan import load

    plan = load(arguments.config, Path.cwd())
    points = {point for run in plan.runs for point in run.points}
    found = [_count(len(plan.figures), "figure"), _count(len(points), "point"), _count(len(plan.runs), "run")]
    print(f"{arguments.config}: {', '.join(found)}")
    for reason in sorted({status.reason for point in points if (status := plan.status(point)).reason}):
        print(f"  {reason}")
    return 0


def _trace(arguments: argparse.Namespace) -> int:
    from ddlbench.measurements.lineage import trace

    _must_exist([arguments.file])
    print(trace(arguments.file))
    return 0


def _verify(arguments: argparse.Namespace) -> int:
    from ddlbench.measurements.lineage import check
    from ddlbench.measurements.provenance import repository_root

    _must_exist(arguments.files)
    figures = repository_root("results") / "results" / "figures"
    files = arguments.files or sorted(figures.glob("*.svg"))
    if not files:
        raise ConfigError(f"{figures} holds no figure to verify; draw one first, or name a file")
    looked_at, mismatches = check(files)
    for mismatch in mismatches:
        print(mismatch)
    wrong = f"{len(mismatches)} {'does' if len(mismatches) == 1 else 'do'} not match"
    outcome = wrong if mismatches else "all match"
    print(f"{_count(len(files), 'result')} verified: {_count(looked_at, 'file')} hashed, {outcome}")
    return 1 if mismatches else 0


def _must_exist(files: Iterable[Path]) -> None:
    for file in files:
        if not file.is_file():
            raise ConfigError(f"{file}: there is no such file")


# ------------------------------------------------------------------------------------------------ summary


def _summary(arguments: argparse.Namespace) -> int:
    config = _read_yaml(arguments.config)
    results = Path(config.get("results", "results"))
    studies = config.get("studies") or []
    figures: dict[str, Mapping[str, Any]] = {}
    for study in studies:
        figures |= _read_yaml(arguments.config.parent / "studies" / f"{study}.yaml").get("figures") or {}
    drawn = [name for name in figures if (results / "figures" / f"{name}.svg").is_file()]
    print(f"{_count(len(drawn), 'figure')} of {len(figures)} drawn (medians [95 % intervals]):")
    for name in drawn:
        print(f"  {results}/figures/{name}.svg   {figures[name].get('title', '')}".rstrip())
        if headline := _headline(_read_csv(results / "figures" / f"{name}.csv"), figures[name]):
            print(textwrap.fill(headline, 110, initial_indent="      ", subsequent_indent="        "))
    print("\n".join(_gaps(results / "tables" / f"{name}.csv" for name in drawn)))
    print("\n".join(_next_commands(results, figures, drawn, config.get("default_figures") or [])))
    return 0


def _headline(rows: Sequence[Row], figure: Mapping[str, Any], most: int = 4) -> str:
    """A figure's lines at both ends of its x axis, as in
    `training_time_s at bandwidth_mbit 400 and 2000: mlp 66.1 [64.9, 67.0] and 35.2 [34.8, 35.9]; conv1 ...`.
    """
    if figure.get("kind") == "telemetry":  # what a node did at one moment is no headline
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
        for name, line in list(lines.items())[:most]
    ]
    if len(lines) > most:
        values.append(f"and {_count(len(lines) - most, 'more line')}")
    return f"{y} at {x} {' and '.join(map(_number, ends))}: {'; '.join(values)}"


def _interval(row: Row | None, metric: str) -> str:
    if row is None:
        return "(not measured)"
    low, high = row.get(f"{metric}_low"), row.get(f"{metric}_high")
    return _number(row[metric]) + (f" [{_number(low)}, {_number(high)}]" if low and high else "")


def _gaps(tables: Iterable[Path]) -> Iterator[str]:
    """What could not be measured, and why, each reason once."""
    gaps: dict[tuple[str, str, str], set[str]] = {}
    for row in (row for table in tables for row in _read_csv(table)):
        if row.get("status", "measured") != "measured":
            reason = row["study"], row["status"].replace("_", " "), row.get("reason") or "no reason given"
            gaps.setdefault(reason, set()).add(row["point_id"])
    if gaps:
        yield "\nNot measured here:"
    for (study, status, why), points in gaps.items():
        yield f"  {study}: {_count(len(points), 'point')} {status}: {why}"


def _next_commands(
    results: Path, figures: Iterable[str], drawn: Sequence[str], default: Sequence[str]
) -> Iterator[str]:
    program = _program("ddlbench")
    yield "\nNext:"
    if drawn:
        yield f"  {program} trace {results}/figures/{drawn[0]}.svg"
        yield f"  {program} verify"
    snakemake = f"{_program('snakemake')} --cores all --profile profiles/laptop"
    missing = [name for name in default if name not in drawn] or [
        name for name in figures if name not in drawn
    ]
    if missing:
        yield f"  {snakemake} {missing[0]}"
    yield f"  {snakemake} all_figures --configfile config/paper.yaml     # the papers' full grids"


def _program(name: str) -> str:
    """How to call a program of this environment from here: by name where that finds it, else by its path."""
    beside = Path(sys.executable).parent / name
    return name if shutil.which(name) or not beside.exists() else os.path.relpath(beside)


def _read_yaml(path: Path) -> dict[str, Any]:
    import yaml

    try:
        content = yaml.load(path.read_bytes(), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: is not YAML: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path}: expected keys and values")
    return content


def _read_csv(path: Path) -> list[Row]:
    try:
        with open(path, newline="") as file:
            return list(csv.DictReader(file))
    except FileNotFoundError:
        return []


def _sort_key(text: str) -> float:
    """Numbers by their value; words stay in the order of the figure."""
    try:
        return float(text)
    except ValueError:
        return float("inf")


def _number(text: str | None) -> str:
    try:
        return f"{float(text or ''):.4g}"
    except ValueError:
        return text or ""


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


if __name__ == "__main__":
    sys.exit(main())
