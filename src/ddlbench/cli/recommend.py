"""`ddlbench recommend`: how many workers to take, with which framework and strategy, what it takes and costs."""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ddlbench.cli.arguments import existing_file, number, whole_number
from ddlbench.errors import ConfigError, DdlbenchError, nearest

if TYPE_CHECKING:
    from ddlbench.prediction.cell import Cell
    from ddlbench.prediction.choice import Goal
    from ddlbench.prediction.prices import Price

PRICES = Path("config/prices.yaml")
TABLES = Path("results/tables")


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's sub-commands.

    Args:
        commands: the sub-commands of `ddlbench`, to which `recommend` is added.
    """
    parser = commands.add_parser(
        "recommend", help="how many workers, with what, from measurements and predictions; how sure that is"
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument(
        "--table",
        metavar="FILE",
        action="append",
        type=existing_file,
        help=f"measurements, also of `ddlbench import`; can be repeated; default: all of {TABLES}",
    )
    _add_cell(
        parser.add_argument_group("what is trained, over which link; what is not said is as it was measured")
    )
    _add_goal(parser.add_argument_group("what is wanted: the least of alpha x hours + beta x cost"))
    parser.set_defaults(command=_recommend)


def _add_cell(group: "argparse._ArgumentGroup") -> None:
    group.add_argument(
        "--batch-size", type=number(1, 1e9, "a batch size"), required=True, help="images of all workers"
    )
    group.add_argument("--latency", type=number(0, 1e5, "a latency in ms"), metavar="MS", help="one way")
    group.add_argument("--bandwidth", type=number(1e-3, 1e7, "a rate in Mbit/s"), metavar="MBIT")
    group.add_argument("--loss", type=number(0, 99, "a loss in percent"), metavar="PERCENT")
    for name in ("model", "framework", "strategy"):
        group.add_argument(f"--{name}")
    group.add_argument(
        "--workers",
        type=whole_number(1, 100_000, "a number of workers"),
        nargs="+",
        default=[],
        help="numbers to choose from; default: 1 to the most that were measured",
    )


def _add_goal(group: "argparse._ArgumentGroup") -> None:
    group.add_argument("--alpha", type=number(0, 1e9, "a weight"), default=1.0, help="of an hour; default: 1")
    group.add_argument("--beta", type=number(0, 1e9, "a weight"), default=0.0, help="of money; default: 0")
    length = group.add_mutually_exclusive_group()
    length.add_argument(
        "--steps", type=number(1, 1e12, "a number of steps"), help="or epochs, in a table of epochs"
    )
    length.add_argument("--images", type=number(1, 1e15, "a number of images"), help="over all epochs")
    group.add_argument("--machine", metavar="NAME", help=f"whose price is in {PRICES}")
    group.add_argument("--budget", type=number(0, 1e12, "an amount of money"))
    group.add_argument("--deadline", type=number(0, 1e9, "a time in hours"), metavar="HOURS")
    group.add_argument("--accuracy", type=number(0, 100, "an accuracy in percent"), metavar="PERCENT")


def _recommend(arguments: argparse.Namespace) -> int:
    """Return 0 if there is something to recommend, else 1."""
    from ddlbench.prediction.answer import Answer, as_json, in_words
    from ddlbench.prediction.choice import choose
    from ddlbench.prediction.measured import from_files
    from ddlbench.prediction.predictor import learn
    from ddlbench.prediction.question import choices

    price = _price(arguments)
    known = from_files(arguments.table or _tables())
    if known.per == "epoch" and arguments.images:
        raise DdlbenchError(
            "these times are of epochs: say  --steps N  for N epochs, or import with  --images"
        )
    asked = choices(known.measured, _cell(arguments), arguments.workers)
    goal = _goal(arguments, price)
    options = choose(learn(known.measured), known.measured, asked.cells, goal, known.unfit)
    answer = Answer(options, goal, known.per, asked.assumed, _warnings(price, options[0].estimate.cell))
    print(json.dumps(as_json(answer), indent=1, allow_nan=False) if arguments.json else in_words(answer))
    return 0 if answer.allowed else 1


def _warnings(price: "Price | None", cell: "Cell") -> list[str]:
    """What is doubtful about a price: its age, and whether it is of such machines as were measured."""
    if price is None:
        return []
    found = price.warning(datetime.now(UTC).date())
    differs = price.vcpus != cell.vcpus and cell.model
    other = f"{price.machine} has {price.vcpus:g} vCPUs, and hosts of {cell.vcpus:g} were measured"
    return [each for each in (found, other if differs else None) if each]


def _tables() -> list[Path]:
    if tables := sorted(TABLES.glob("*.csv")):
        return tables
    raise DdlbenchError(
        f"there is no table in {TABLES}: nothing has been measured here.\n"
        "  To measure:  make run    To use a table of others:  ddlbench import FILE, then  --table imported/NAME.csv"
    )


def _cell(arguments: argparse.Namespace) -> dict[str, float | str | None]:
    return {
        "batch_size": arguments.batch_size,
        "latency_ms": arguments.latency,
        "bandwidth_mbit": arguments.bandwidth,
        "loss_percent": arguments.loss,
        "model": arguments.model,
        "framework": arguments.framework,
        "strategy": arguments.strategy,
    }


def _goal(arguments: argparse.Namespace, price: "Price | None") -> "Goal":
    from ddlbench.prediction.choice import Goal

    return Goal(
        alpha=arguments.alpha,
        beta=arguments.beta,
        steps=None if arguments.images else arguments.steps or 1.0,
        images=arguments.images,
        price=price,
        budget=arguments.budget,
        deadline_h=arguments.deadline,
        accuracy_percent=arguments.accuracy,
    )


def _price(arguments: argparse.Namespace) -> "Price | None":
    from ddlbench.prediction.prices import read_prices

    if arguments.machine is None:
        if arguments.beta or arguments.budget is not None:
            raise ConfigError("--beta and --budget need a price: say  --machine NAME")
        return None
    prices = read_prices(PRICES, Path())
    if arguments.machine not in prices:
        raise ConfigError(
            f"{PRICES}: has no {arguments.machine!r}{nearest(arguments.machine, prices)}; it has {', '.join(prices)}"
        )
    return prices[arguments.machine]
