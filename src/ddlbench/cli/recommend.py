"""`ddlbench recommend`: how many workers to take, with which framework and strategy, what it takes and costs."""

import argparse
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from ddlbench.cli.arguments import existing_file, number, whole_number
from ddlbench.errors import ConfigError, DdlbenchError

if TYPE_CHECKING:
    from ddlbench.recommender.inquiry import Inquiry

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
        parser.add_argument_group(
            "what is trained, over which link; what is not said is as measured most often"
        )
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
    for name in ("model", "framework", "strategy", "devices", "runtime"):
        group.add_argument(f"--{name}")
    group.add_argument("--image-shape", metavar="SHAPE", help="height x width x channels, as 28x28x1")
    group.add_argument("--vcpus", type=number(1e-3, 1e6, "a number of vCPUs"), help="of each host")
    group.add_argument(
        "--workers",
        type=whole_number(1, 100_000, "a number of workers"),
        nargs="+",
        default=[],
        help="numbers to choose from; default: 1 to the most that were measured; of too many, these",
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
    from ddlbench.prediction.answer import as_json, in_words
    from ddlbench.prediction.measured import from_files
    from ddlbench.prediction.predictor import learn, must_suffice
    from ddlbench.prediction.prices import read_prices
    from ddlbench.recommender.inquiry import recommended, understood

    inquiry = _inquiry(arguments)
    prices = read_prices(PRICES, Path()) if arguments.machine is not None else {}
    known = from_files(arguments.table or _tables())
    must_suffice(known.measured)
    question = understood(inquiry, known, prices)
    answer = recommended(question, known, learn(known.measured), datetime.now(UTC).date())
    print(json.dumps(as_json(answer), indent=1, allow_nan=False) if arguments.json else in_words(answer))
    return 0 if answer.allowed else 1


def _tables() -> list[Path]:
    if tables := sorted(TABLES.glob("*.csv")):
        return tables
    raise DdlbenchError(
        f"there is no table in {TABLES}: nothing has been measured here.\n"
        "  To measure:  make run    To use a table of others:  ddlbench import FILE, then  --table imported/NAME.csv"
    )


def _inquiry(arguments: argparse.Namespace) -> "Inquiry":
    from pydantic import ValidationError

    from ddlbench.recommender.inquiry import Inquiry

    said = {
        "batch_size": arguments.batch_size,
        "latency_ms": arguments.latency,
        "bandwidth_mbit": arguments.bandwidth,
        "loss_percent": arguments.loss,
        "model": arguments.model,
        "framework": arguments.framework,
        "strategy": arguments.strategy,
        "devices": arguments.devices,
        "runtime": arguments.runtime,
        "image_shape": arguments.image_shape,
        "vcpus": arguments.vcpus,
        "workers": tuple(arguments.workers),
        "alpha": arguments.alpha,
        "beta": arguments.beta,
        "steps": arguments.steps,
        "images": arguments.images,
        "machine": arguments.machine,
        "budget": arguments.budget,
        "deadline_h": arguments.deadline,
        "accuracy_percent": arguments.accuracy,
    }
    try:
        return Inquiry(**said)
    except ValidationError as error:  # of names, and of how many numbers; argparse has checked the numbers
        first, *_ = error.errors()
        raise ConfigError(f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}") from None
