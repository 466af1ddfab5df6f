"""What somebody asks, on the command line and over HTTP: what is trained over which link, and what is wanted."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from ddlbench.errors import nearest
from ddlbench.prediction.answer import Answer
from ddlbench.prediction.cell import LIMITS, Cell
from ddlbench.prediction.choice import Goal, choose
from ddlbench.prediction.estimate import Estimate
from ddlbench.prediction.foreign.table import MOST_NAME, RANGES
from ddlbench.prediction.measured import Knowledge
from ddlbench.prediction.predictor import Predictor
from ddlbench.prediction.prices import Price
from ddlbench.prediction.question import Choices, Unanswerable, choices
from ddlbench.prediction.workload import UNKNOWN, workload

MOST_NUMBERS = 64  # of workers that one inquiry names


def _within(name: str, what: str) -> object:
    least, most = {**LIMITS, **RANGES}[name]
    return Field(ge=least, le=most, allow_inf_nan=False, description=what)


Name = Annotated[str, Field(min_length=1, max_length=MOST_NAME)]
Workers = Annotated[int, Field(ge=RANGES["workers"][0], le=RANGES["workers"][1])]
Weight = Annotated[float, Field(ge=0, le=1e9, allow_inf_nan=False)]


class Training(BaseModel):
    """What is trained, and over which link. What is not said is as it was measured most often, together."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    batch_size: Annotated[float, _within("batch_size", "images of a step, of all workers together")]
    latency_ms: Annotated[float | None, _within("latency", "one way")] = None
    bandwidth_mbit: Annotated[float | None, _within("bandwidth", "of each host's link")] = None
    loss_percent: Annotated[float | None, _within("loss", "packets lost on the way")] = None
    model: Name | None = None
    framework: Name | None = None
    strategy: Name | None = None
    devices: Name | None = None
    runtime: Name | None = None
    image_shape: Annotated[Name | None, Field(description="height x width x channels, as 28x28x1")] = None
    vcpus: Annotated[
        float | None, _within("vcpus", "of each host; refused where the table does not say them")
    ] = None
    workers: Annotated[
        tuple[Workers, ...],
        Field(
            max_length=MOST_NUMBERS,
            strict=False,
            description="none: 1 to the most that were measured; of too many, these",
        ),
    ] = ()


class Inquiry(Training):
    """A training, and what is wanted of it: the least of alpha x hours + beta x cost, within limits."""

    alpha: Annotated[Weight, Field(description="weight of an hour; 0 needs beta")] = 1.0
    beta: Annotated[Weight, Field(description="weight of a unit of money; needs a machine")] = 0.0
    steps: Annotated[
        float | None,
        Field(ge=1, le=1e12, allow_inf_nan=False, description="or epochs, where these were timed"),
    ] = None
    images: Annotated[
        float | None,
        Field(ge=1, le=1e15, allow_inf_nan=False, description="over all epochs; instead of steps"),
    ] = None
    machine: Annotated[Name | None, Field(description="whose price is known")] = None
    budget: Annotated[
        float | None, Field(ge=0, le=1e12, allow_inf_nan=False, description="needs a machine")
    ] = None
    deadline_h: Annotated[float | None, Field(ge=0, le=1e9, allow_inf_nan=False)] = None
    accuracy_percent: Annotated[float | None, Field(ge=0, le=100, allow_inf_nan=False)] = None


def options_for(training: Training, known: Knowledge) -> Choices:
    """List the cells that a question leaves open.

    Args:
        training: what is trained.
        known: what was measured.

    Returns:
        The choices.

    Raises:
        Unanswerable: a name was never measured, or there are too many options.
    """
    given = training.model_dump(include=set(Training.model_fields) - {"workers"})
    return choices(known.measured, given, training.workers)


@dataclass(frozen=True)
class Question:
    """An inquiry that can be answered.

    Attributes:
        choices: the cells to choose from.
        goal: what is wanted.
    """

    choices: Choices
    goal: Goal


def understood(inquiry: Inquiry, known: Knowledge, prices: Mapping[str, Price]) -> Question:
    """Check an inquiry by what was measured and priced; nothing is predicted for it.

    Args:
        inquiry: what is asked.
        known: what was measured.
        prices: of machines, by name.

    Returns:
        The question.

    Raises:
        Unanswerable: something in the inquiry does not fit; names it.
    """
    return Question(options_for(inquiry, known), wanted(inquiry, known.per, prices))


def wanted(inquiry: Inquiry, per: str, prices: Mapping[str, Price]) -> Goal:
    """Say what is wanted.

    Args:
        inquiry: what is asked.
        per: what measured times are of, `step` or `epoch`.
        prices: of machines, by name.

    Returns:
        The goal.

    Raises:
        Unanswerable: something in it does not fit; names it.
    """
    if not inquiry.alpha and not inquiry.beta:  # all options would be equally good
        raise Misasked(
            "alpha",
            "alpha and beta are both 0: neither time nor money counts",
            "Say  --beta 1 --machine NAME",
        )
    price = _price(inquiry, prices)
    if inquiry.images and per == "epoch":
        raise Unanswerable(
            "images",
            "these times are of epochs: say how many epochs",
            "Say  --steps N, or import with  --images N",
        )
    if inquiry.images and inquiry.steps:
        raise Unanswerable("images", "either images or steps can be said, not both")
    return Goal(
        alpha=inquiry.alpha,
        beta=inquiry.beta,
        steps=None if inquiry.images else inquiry.steps or 1.0,
        images=inquiry.images,
        price=price,
        budget=inquiry.budget,
        deadline_h=inquiry.deadline_h,
        accuracy_percent=inquiry.accuracy_percent,
    )


def recommended(question: Question, known: Knowledge, predictor: Predictor, today: date) -> Answer:
    """Answer a question.

    Args:
        question: that was understood.
        known: what was measured.
        predictor: that was learned from it.
        today: the day by which a price is old.

    Returns:
        The answer.
    """
    cells = question.choices.cells
    goal, warnings = countable(question.goal, known.per, cells[0], today)
    options = choose(predictor, known.measured, cells, goal, known.unfit)
    warnings += about_intervals(predictor, [each.estimate for each in options])
    return Answer(options, goal, known.per, question.choices.assumed, warnings)


def countable(goal: Goal, per: str, cell: Cell, today: date) -> tuple[Goal, list[str]]:
    """Leave out of a goal's price what nobody can count.

    Args:
        goal: what is wanted.
        per: what measured times are of, `step` or `epoch`.
        cell: one of those to choose from.
        today: the day by which a price is old.

    Returns:
        The goal, and what is doubtful about its price.
    """
    warnings = _warnings(goal.price, cell, today)
    if goal.price and goal.price.gigabyte and (why := _uncounted(per, cell)):
        goal = replace(goal, price=replace(goal.price, gigabyte=0.0))
        warnings.append(f"traffic is not in the costs: {why}")
    return goal, warnings


def about_intervals(predictor: Predictor, found: Sequence[Estimate]) -> list[str]:
    """Say what intervals rest on where measurements do not tell how exact they are.

    Args:
        predictor: that was learned from them.
        found: what is said of some cells.

    Returns:
        A sentence, or none.
    """
    return [] if all(each.tells_noise for each in found) else [predictor.about_noise]


class Misasked(Unanswerable):
    """An inquiry that no measurement could answer: about money without a price, or about nothing that counts."""

    exit_code = 2


def _price(inquiry: Inquiry, prices: Mapping[str, Price]) -> Price | None:
    if inquiry.machine is None:
        if inquiry.beta or inquiry.budget is not None:
            wanting = "beta" if inquiry.beta else "budget"
            raise Misasked(wanting, "beta and budget need a price: name a machine", "Say  --machine NAME")
        return None
    if inquiry.machine not in prices:
        raise Misasked(
            "machine",
            f"there is no price of {inquiry.machine!r}{nearest(inquiry.machine, prices)}; "
            f"known: {', '.join(prices) or 'none'}",
            "Prices are in config/prices.yaml",
        )
    return prices[inquiry.machine]


def _uncounted(per: str, cell: Cell) -> str | None:
    """Why nobody can count the bytes that are sent; all options train the same model."""
    if per == "epoch":
        return "how many steps an epoch has is not known; import the table with  --images N"
    if workload(cell.model, cell.image_shape) == UNKNOWN:
        return "how many bytes its model has is not known"
    return None


def _warnings(price: Price | None, cell: Cell, today: date) -> list[str]:
    """What is doubtful about a price: its age, and whether it is of such machines as were measured."""
    if price is None:
        return []
    other = None
    if cell.devices != "cpu":
        other = f"the times are of {cell.devices}; {price.machine} may not have it"
    elif cell.vcpus not in (None, price.vcpus):
        other = f"{price.machine} has {price.vcpus:g} vCPUs, and the times are of hosts with {cell.vcpus:g}"
    return [each for each in (price.warning(today), other) if each]
