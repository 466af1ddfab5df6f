"""What the API replies with, as the OpenAPI description shows it."""

import math
from datetime import date
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from ddlbench.prediction.estimate import Estimate
from ddlbench.prediction.foreign import table
from ddlbench.prediction.prices import Price

ORIGIN = Field(description="emulated hosts, replayed compute, a cluster, or a table of others; or empty")


class Reply(BaseModel):
    """Any reply: it has these keys and no others."""

    model_config = ConfigDict(extra="forbid")


class Problem(Reply):
    """What is wrong with a request."""

    field: str | None = Field(description="of the request; null: the request as a whole")
    line: int | None = Field(default=None, description="of an imported table")
    message: str


class Problems(Reply):
    """Why a request was refused."""

    problems: list[Problem]


class Option(Reply):
    """A number of workers with a framework and a strategy. Costs are null where no machine is named."""

    workers: int
    hosts: int
    framework: str
    strategy: str
    time_s: float | None
    time_low_s: float | None
    time_high_s: float | None
    cost: float | None
    cost_low: float | None = Field(description="at `time_low_s`")
    cost_high: float | None = Field(description="at `time_high_s`")
    currency: str | None
    accuracy_percent: float | None
    is_measured: bool
    origin: str = ORIGIN
    probability_best: float


class RunnerUp(Option):
    """One of the next best."""

    worse_by_percent: float


class Helpful(Option):
    """The option whose measurement is expected to help most."""

    gain: float = Field(description="of alpha x hours + beta x cost, on average")


class Excluded(Option):
    """An option that may not be taken."""

    why: str


class Recommendation(Reply):
    """How many workers to take, how sure that is, and what else there is."""

    best: Option | None = Field(description="null: nothing may be taken; `excluded` says why")
    runners_up: list[RunnerUp]
    perhaps_better: list[Option] = Field(description="too little is known of them to recommend them")
    pareto: list[Option] = Field(description="no other option is both faster and cheaper")
    measure_next: Helpful | None
    options: list[Option] = Field(description="all that may be taken, the best first")
    excluded: list[Excluded]
    per: str = Field(description="what was timed: step or epoch")
    assumed: dict[str, str] = Field(description="not said, so taken as measured together most often")
    warnings: list[str]
    words: str = Field(description="the same as text, for people")
    version: str = Field(description="of the measurements")


class Predicted(Reply):
    """The time of a step of one cell (or of an epoch, as `per` says), and of an epoch if its steps are known."""

    workers: int
    framework: str
    strategy: str
    time_ms: float | None
    low_ms: float | None
    high_ms: float | None
    epoch_s: float | None = Field(description="null: how many steps an epoch has is not known")
    epoch_steps: float | None = Field(description="of an epoch; 1 where epochs were timed")
    epoch_low_s: float | None
    epoch_high_s: float | None
    is_measured: bool
    origin: str = ORIGIN
    unknown: str | None = Field(description="why nothing can be said; null: it can")
    warning: str | None


class Predictions(Reply):
    """The times of all cells that a question leaves open."""

    predictions: list[Predicted]
    per: str
    assumed: dict[str, str] = Field(description="as of a recommendation")
    warnings: list[str]
    version: str


class Measurement(Reply):
    """A measured cell, in the columns of an imported table; what its compute takes if replayed; and its epoch."""

    table: str
    batch_size: float
    workers: int
    latency_ms: float
    bandwidth_mbit: float | None
    loss_percent: float
    model: str
    image_shape: str
    framework: str
    strategy: str
    devices: str
    runtime: str
    vcpus: float | None
    host_count: int | None
    memory_gb: float | None
    time_ms: float
    low_ms: float | None
    high_ms: float | None
    accuracy_percent: float | None
    source: str
    replayed_ms: float | None
    epoch_images: float | None
    epoch_steps: float | None
    origin: str = ORIGIN


class Measurements(Reply):
    """Some of the measurements."""

    total: int
    measurements: list[Measurement]


class Table(Reply):
    """A table that can be asked, and the names in it."""

    name: str
    per: str
    measurements: int
    version: str
    problem: str | None
    says_vcpus: bool = Field(description="whether it says how many vCPUs its hosts have")
    names: dict[str, list[str]]


class Machine(Reply):
    """A machine whose price is known."""

    name: str
    hourly: float
    gigabyte: float
    currency: str
    where: str
    source: str
    date: str
    warning: str | None


class Choices(Reply):
    """What can be asked."""

    tables: list[Table]
    machines: list[Machine]


class TakenColumn(Reply):
    """A column of ours, and the table's that it was taken from."""

    ours: str
    name: str
    unit: str | None = Field(description="of values without one; null: they are plain numbers or names")


class Imported(Reply):
    """A table that was taken over."""

    name: str
    rows: int
    per: str
    columns: list[TakenColumn]
    unused: list[str] = Field(description="other columns of the table")
    left_out: list[Problem] = Field(description="rows with mistakes, the first 100")
    left_out_count: int = Field(description="all of them")


class Health(Reply):
    """That it answers, and from what."""

    status: str = Field(description="ready, learning, or empty: nothing was measured yet")
    measurements: int
    learning: list[str]
    problems: dict[str, str]


def problem(field: str | None, message: str, line: int | None = None) -> dict[str, Any]:
    """Write a `Problem`.

    Args:
        field: of the request; None: the request as a whole.
        message: what is wrong.
        line: of an imported table.

    Returns:
        JSON data.
    """
    return {"field": field, "line": line, "message": message}


def imported(name: str, found: table.Imported, most_problems: int) -> dict[str, Any]:
    """Write an `Imported`.

    Args:
        name: that the table got.
        found: what came of it.
        most_problems: that are shown.

    Returns:
        JSON data.
    """
    return {
        "name": name,
        "rows": len(found.measured),
        "per": found.per,
        "columns": [
            {"ours": ours, "name": column.name, "unit": column.unit} for ours, column in found.columns.items()
        ],
        "unused": found.unused,
        "left_out": [problem(None, message, line) for line, message in found.mistakes[:most_problems]],
        "left_out_count": len(found.mistakes),
    }


def predicted(found: Estimate, epoch_steps: float | None) -> dict[str, Any]:
    """Write a `Predicted`.

    Args:
        found: the time of a cell.
        epoch_steps: how many of what was timed an epoch has; None: nobody knows.

    Returns:
        JSON data.
    """
    epoch_s = math.nan if epoch_steps is None else epoch_steps / 1e3
    times = {
        "time_ms": found.time_ms,
        "low_ms": found.low_ms,
        "high_ms": found.high_ms,
        "epoch_s": found.time_ms * epoch_s,
        "epoch_low_s": found.low_ms * epoch_s,
        "epoch_high_s": found.high_ms * epoch_s,
    }
    return {
        "workers": found.cell.workers,
        "framework": found.cell.framework,
        "strategy": found.cell.strategy,
        **{name: value if math.isfinite(value) else None for name, value in times.items()},
        "epoch_steps": epoch_steps,
        "is_measured": found.is_measured,
        "origin": found.origin,
        "unknown": found.unknown,
        "warning": found.warning,
    }


def machine(price: Price, today: date) -> dict[str, Any]:
    """Write a `Machine`.

    Args:
        price: of it.
        today: the day by which it is old.

    Returns:
        JSON data.
    """
    kept = ("hourly", "gigabyte", "currency", "where", "source", "date")
    said = {name: getattr(price, name) for name in kept}
    return {"name": price.machine, **said, "date": str(price.date), "warning": price.warning(today)}
