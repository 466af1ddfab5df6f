"""Which cell to take: alpha x time + beta x cost within limits (anwar2021, eq. 6 to 9), and how sure that is."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ddlbench.memory.misfits import least_bytes
from ddlbench.network.hosts import GIB
from ddlbench.prediction.cell import Cell, Measured
from ddlbench.prediction.certainty import Uncertain
from ddlbench.prediction.estimate import Estimate, estimates
from ddlbench.prediction.predictor import Predictor
from ddlbench.prediction.prices import Price
from ddlbench.prediction.terms import total_sent_bytes

HOUR_MS = 3.6e6


@dataclass(frozen=True)
class Goal:
    """What is wanted.

    Attributes:
        alpha: weight of an hour.
        beta: weight of a unit of money.
        steps: that are trained; None: as many as `images` take.
        images: that are trained on, over all epochs.
        price: of the machines; None: nothing costs anything.
        budget: the most that it may cost.
        deadline_h: the longest that it may take.
        accuracy_percent: the least that it must reach on test images.
    """

    alpha: float = 1.0
    beta: float = 0.0
    steps: float | None = 1.0
    images: float | None = None
    price: Price | None = None
    budget: float | None = None
    deadline_h: float | None = None
    accuracy_percent: float | None = None

    def steps_of(self, cell: Cell) -> float:
        """Count steps.

        Args:
            cell: any.

        Returns:
            How many steps the training has in this cell.
        """
        return self.steps or (self.images or 1.0) / cell.batch_size


@dataclass(frozen=True)
class Option:
    """One of the cells to choose from.

    Attributes:
        estimate: its time for a step.
        steps: that it takes.
        cost: of the training; None: no price is known.
        value: alpha x hours + beta x cost; the least is the best.
        excluded: why it may not be taken; None: it may.
        fits: whether nothing speaks against its fitting into the memory of a host.
        is_on_front: whether no other option that may be taken is both faster and cheaper.
        probability: that it is the best of those that may be taken.
        gain: by how much measuring it is expected to lower the value of what is taken then.
    """

    estimate: Estimate
    steps: float
    cost: float | None
    value: float
    excluded: str | None
    fits: bool
    is_on_front: bool = False
    probability: float = 0.0
    gain: float = 0.0

    @property
    def is_unknown(self) -> bool:
        """Whether it was left out for no other reason than that nothing can be said of it."""
        return self.fits and self.estimate.unknown is not None

    @property
    def hours(self) -> float:
        """How long the training takes."""
        return self.estimate.time_ms * self.steps / HOUR_MS


def choose(
    predictor: Predictor,
    measured: Sequence[Measured],
    cells: Sequence[Cell],
    goal: Goal,
    unfit: Sequence[Cell] = (),
) -> list[Option]:
    """Rank cells.

    A cell that was measured has its measured time, any other one its predicted time.

    Args:
        predictor: that was learned from `measured`.
        measured: cells with their times.
        cells: to choose from.
        goal: what is wanted.
        unfit: cells that did not fit into a host's memory.

    Returns:
        Options: those that may be taken first, the best first of all.
    """
    options = [_option(each, goal, unfit) for each in estimates(predictor, measured, cells)]
    allowed = sorted((each for each in options if not each.excluded), key=lambda each: each.value)
    refused = [each for each in options if each.excluded]
    if not allowed:
        return refused
    values = _uncertain(allowed, goal)
    found = zip(allowed, values.probabilities().tolist(), values.gains().tolist(), strict=True)
    return [
        replace(each, is_on_front=_is_on_front(each, allowed), probability=probability, gain=gain)
        for each, probability, gain in found
    ] + refused


def cost_of(cell: Cell, time_ms: float, steps: float, price: Price | None) -> float | None:
    """Price a training: its machines by the hour, and its traffic.

    Args:
        cell: what is trained, by how many.
        time_ms: of a step.
        steps: of the training.
        price: of the machines.

    Returns:
        Money; None: no price is known.
    """
    if price is None:
        return None
    traffic = total_sent_bytes(cell) / 1e9 * price.gigabyte
    return steps * (cell.hosts * price.hourly * time_ms / HOUR_MS + traffic)


def _option(found: Estimate, goal: Goal, unfit: Sequence[Cell]) -> Option:
    steps = goal.steps_of(found.cell)
    cost = cost_of(found.cell, found.time_ms, steps, goal.price)
    hours = found.time_ms * steps / HOUR_MS
    value = goal.alpha * hours + goal.beta * (cost or 0.0)
    misfit = _misfit(found.cell, goal.price, unfit)
    excluded = misfit or _excluded(found, hours, cost, goal)
    return Option(found, steps, cost, value, excluded, misfit is None)


def _misfit(cell: Cell, price: Price | None, unfit: Sequence[Cell]) -> str | None:
    """Why a cell does not fit into a host's memory, which is known of what did not, and of our models on a machine."""
    if any(_needs_more(cell, each, price) for each in unfit):
        return "does not fit into the memory of a host: this batch or a smaller one did not"
    if price is None or cell.devices != "cpu":
        return None
    images = math.ceil(cell.batch_size / cell.workers)
    needs = least_bytes(
        cell.framework,
        cell.strategy,
        cell.model,
        cell.image_shape,
        images,
        has_server_host=cell.hosts > cell.workers,
    )
    if needs <= price.memory_gb * GIB:
        return None
    return (
        f"does not fit into the memory of a host: {price.machine} has {price.memory_gb:g} GB, "
        f"and it needs {needs / GIB:.3g} GB at least (predicted)"
    )


def _excluded(found: Estimate, hours: float, cost: float | None, goal: Goal) -> str | None:
    """Why an option may not be taken, if it fits."""
    if found.unknown:
        return f"not known: {found.unknown}"
    if goal.budget is not None and cost is not None and cost > goal.budget:
        return f"costs {cost:.4g}, above the budget of {goal.budget:g}"
    if goal.deadline_h is not None and hours > goal.deadline_h:
        return f"takes {hours:.4g} h, beyond the deadline of {goal.deadline_h:g} h"
    if goal.accuracy_percent is not None:
        if found.accuracy_percent is None:
            return "its accuracy was not measured"
        if found.accuracy_percent < goal.accuracy_percent:
            return f"reaches {found.accuracy_percent:.4g} %, less than {goal.accuracy_percent:g} %"
    return None


def _needs_more(cell: Cell, unfit: Cell, price: Price | None) -> bool:
    """Whether a cell needs at least as much memory as one that did not fit, and has no more."""
    if (cell.training, cell.has_server) != (unfit.training, unfit.has_server):
        return False
    memory_gb = price.memory_gb if price else cell.memory_gb
    has_more = memory_gb is not None and unfit.memory_gb is not None and memory_gb > unfit.memory_gb
    return not has_more and cell.batch_size / cell.workers >= unfit.batch_size / unfit.workers


def _uncertain(options: Sequence[Option], goal: Goal) -> Uncertain:
    """The values that options may turn out to have. A time is log-normal with the predicted one as its median."""
    hours = np.array([each.hours for each in options])
    hourly = [each.estimate.cell.hosts * goal.price.hourly if goal.price else 0.0 for each in options]
    median = (goal.alpha + goal.beta * np.array(hourly)) * hours
    value = np.array([each.value for each in options])
    return Uncertain(value - median, median, np.array([each.estimate.deviation for each in options]))


def _is_on_front(option: Option, allowed: Sequence[Option]) -> bool:
    if option.cost is None:
        return option is allowed[0]
    return not any(
        other.cost is not None
        and (other.hours <= option.hours and other.cost <= option.cost)
        and (other.hours < option.hours or other.cost < option.cost)
        for other in allowed
    )
