"""`ddlbench import`: a table of measurements from others, checked row by row, for predictions and recommendations."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from ddlbench.cli.arguments import counted, existing_file, must_be_writable, number

if TYPE_CHECKING:
    from ddlbench.prediction.foreign.table import Imported

FOLDER = Path("imported")


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's sub-commands.

    Args:
        commands: the sub-commands of `ddlbench`, to which `import` is added.
    """
    parser = commands.add_parser(
        "import", help="take over a table of measurements from others (CSV, Parquet), to predict from it"
    )
    parser.add_argument("file", metavar="FILE", type=existing_file)
    parser.add_argument(
        "--column",
        metavar="OURS=NAME",
        action="append",
        default=[],
        help="which column of the table is workers, batch_size, latency, bandwidth, loss, step_time, epoch_time, "
        "accuracy, model, framework or strategy, where its name does not tell; a name may end in a unit (delay_s)",
    )
    parser.add_argument(
        "--header", metavar="NAME,NAME,...", help="names of the columns, for a CSV without a header"
    )
    parser.add_argument(
        "--images",
        type=number(1, 1e12, "a number of images"),
        help="of an epoch, to turn times of epochs into times of steps; else all epochs have equally many steps",
    )
    parser.add_argument("--output", metavar="FILE", type=Path, help=f"default: {FOLDER}/<name of FILE>.csv")
    parser.set_defaults(command=_import)


def _import(arguments: argparse.Namespace) -> int:
    """Return 0 if at least one row is good; what is wrong in others goes to standard error."""
    from ddlbench.errors import ConfigError
    from ddlbench.prediction.foreign.columns import given_column
    from ddlbench.prediction.foreign.files import read_foreign
    from ddlbench.prediction.foreign.imported import write_imported
    from ddlbench.prediction.foreign.table import import_table
    from ddlbench.recommender.sources import HERE

    path: Path = arguments.file
    output: Path = arguments.output or FOLDER / f"{path.stem}.csv"
    if output.resolve() == (FOLDER / f"{HERE}.csv").resolve():
        raise ConfigError(
            f"{output}: {HERE!r} is what was measured here, so nobody would find an imported table of that name.\n"
            f"  Choose another one, as  --output {FOLDER}/theirs.csv"
        )
    must_be_writable(output, [output], makes_folder=True)
    given = dict(map(given_column, arguments.column))
    header = arguments.header.split(",") if arguments.header else None
    table = read_foreign(path, header)
    found = import_table(table, path, given=given, images=arguments.images)
    write_imported(output, found.measured, found.per)
    for line, mistake in found.mistakes:
        print(f"{path}: {found.counted} {line} is left out: {mistake}", file=sys.stderr)
    print(_columns(found))
    left_out = f"; {counted(len(found.mistakes), 'row')} left out" if found.mistakes else ""
    print(f"{counted(len(found.measured), 'row')} (times of {found.per}s) in {output}{left_out}")
    return 0


def _columns(found: "Imported") -> str:
    """Which column was taken as what, in which unit, and which ones were not."""
    taken = [
        f"{ours} from {column.name!r}{f' in {column.unit}' if column.unit else ''}"
        for ours, column in found.columns.items()
    ]
    others = ", ".join(map(repr, found.unused))
    return f"columns: {', '.join(taken)}" + (f"; not used: {others[:500]}" if others else "")
