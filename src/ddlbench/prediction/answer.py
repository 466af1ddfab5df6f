"""The answer to `which cell?`, for people and as JSON."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ddlbench.prediction.choice import Goal, Option, cost_of

MOST_SHOWN = 8  # options of each kind
RUNNERS_UP = 3
LEAST_GAIN = 0.0005  # of the best option's value; less is shown as 0.0 %
MS = {"s": 1e3, "min": 6e4, "h": 3.6e6}


@dataclass(frozen=True)
class Answer:
    """What was found.

    Attributes:
        options: as of `choose`.
        goal: what was wanted.
        per: what an option's steps are, `step` or `epoch`.
        assumed: what the question did not say, and what was taken.
        warnings: of the prices.
    """

    options: Sequence[Option]
    goal: Goal
    per: str
    assumed: Mapping[str, str]
    warnings: Sequence[str]

    @property
    def allowed(self) -> list[Option]:
        """Options that may be taken, the best first."""
        return [option for option in self.options if not option.excluded]

    @property
    def perhaps_better(self) -> list[Option]:
        """Options of which too little is known to recommend them, and which may be better than the best."""
        allowed = self.allowed
        most = allowed[0].value if allowed else math.inf
        return [option for option in self.options if option.is_unknown and option.value < most]

    @property
    def most_helpful(self) -> Option | None:
        """The option whose measurement is expected to help most; None: none would by anything worth naming."""
        best = max(self.allowed, key=lambda option: option.gain, default=None)
        return best if best and best.gain > LEAST_GAIN * self.allowed[0].value else None


def as_json(answer: Answer) -> dict[str, Any]:
    """Write an answer as data.

    Args:
        answer: any.

    Returns:
        JSON data: `best` (null: nothing may be taken), `runners_up`, `perhaps_better`, `pareto`, `measure_next`,
        `options` (all that may be taken, the best first), `excluded`, `assumed`, `warnings`. Times are in seconds.
    """
    allowed = answer.allowed
    helpful = answer.most_helpful
    return {
        "best": _option(answer, allowed[0]) if allowed else None,
        "runners_up": [
            _option(answer, each) | {"worse_by_percent": _worse_by(each, allowed[0])}
            for each in allowed[1 : 1 + RUNNERS_UP]
        ],
        "perhaps_better": [_option(answer, each) for each in answer.perhaps_better],
        "pareto": [_option(answer, each) for each in allowed if each.is_on_front],
        "measure_next": _option(answer, helpful) | {"gain": helpful.gain} if helpful else None,
        "options": [_option(answer, each) for each in allowed],
        "excluded": [
            _option(answer, each) | {"why": each.excluded} for each in answer.options if each.excluded
        ],
        "per": answer.per,
        "assumed": dict(answer.assumed),
        "warnings": [*answer.warnings, *_odd(allowed)],
    }


def in_words(answer: Answer) -> str:
    """Write an answer for people.

    Args:
        answer: any.

    Returns:
        Lines of text.
    """
    return "\n".join(_lines(answer))


def _lines(answer: Answer) -> Iterator[str]:
    allowed = answer.allowed
    if not allowed:
        yield "Nothing can be recommended:"
    else:
        yield f"Take {_name(allowed[0], allowed)}: {_result(answer, allowed[0])}."
        others = f" of {len(allowed)}" if len(allowed) > 1 else ""
        yield f"It is the best{others} with a probability of {100 * allowed[0].probability:.0f} %."
    for each in answer.perhaps_better if allowed else ():
        yield f"But {_name(each, answer.options)} may be better, of which too little is known: measure it first."
    if len(allowed) > 1:
        yield "\nNext best:"
    for each in allowed[1 : 1 + RUNNERS_UP]:
        yield f"  {_name(each, allowed)}: {_result(answer, each)}; {_worse_by(each, allowed[0]):.1f} % worse"
    if answer.goal.price and len(front := [each for each in allowed if each.is_on_front]) > 1:
        yield "\nNo other choice is both faster and cheaper than one of these:"
        for each in sorted(front, key=lambda each: each.hours)[:MOST_SHOWN]:
            yield f"  {_name(each, allowed)}: {_result(answer, each)}"
    if helpful := answer.most_helpful:
        share = 100 * helpful.gain / allowed[0].value if allowed[0].value else 0.0
        again = " again" if helpful.estimate.is_measured else ""
        yield f"\nMeasuring {_name(helpful, allowed)}{again} would help most: {share:.1f} % better on average."
    excluded = [each for each in answer.options if each.excluded]
    if excluded and allowed:
        yield "\nLeft out:"
    for each in excluded[:MOST_SHOWN]:
        yield f"  {_name(each, answer.options)}: {each.excluded}"
    if len(excluded) > MOST_SHOWN:
        yield f"  and {len(excluded) - MOST_SHOWN} more"
    if answer.assumed:
        assumed = ", ".join(f"{name} {value}" for name, value in answer.assumed.items())
        yield f"\nNot said, so as measured most often: {assumed}"
    for warning in (*answer.warnings, *_odd(allowed)):
        yield f"Note: {warning}"


def _name(option: Option, options: Sequence[Option]) -> str:
    """Workers, and what else differs between the options."""
    cell = option.estimate.cell
    words = f"{cell.workers} worker{'s' if cell.workers > 1 else ''}"
    differ = [
        str(getattr(cell, name))
        for name in ("framework", "strategy")
        if len({getattr(each.estimate.cell, name) for each in options}) > 1
    ]
    return ", ".join([words, *differ])


def _result(answer: Answer, option: Option) -> str:
    found = option.estimate
    what = f"{option.steps:,.0f} {answer.per}s" if option.steps != 1 else f"a {answer.per}"
    what = what if answer.per == "step" or option.steps != 1 else "an epoch"
    low, middle, high = (_time(each * option.steps) for each in (found.low_ms, found.time_ms, found.high_ms))
    cost = ""
    if option.cost is not None and answer.goal.price:
        cost = f", {option.cost:.3g} {answer.goal.price.currency}"
    return f"{middle} for {what} ({_kind(answer, option)}; 90 %: {low} to {high}){cost}"


def _kind(answer: Answer, option: Option) -> str:
    """Measured or predicted, and of what; for options after the best one, where that differs."""
    found, best = option.estimate, next(iter(answer.allowed), option)
    if not found.origin or (option is not best and found.origin == best.estimate.origin):
        return "measured" if found.is_measured else "predicted"
    return f"{'measured' if found.is_measured else 'predicted from what was measured'} {found.origin}"


def _time(milliseconds: float) -> str:
    if math.isinf(milliseconds):
        return "unknown"
    if milliseconds < 1000:
        return f"{milliseconds:.3g} ms"
    unit = "s" if milliseconds < 6e5 else "min" if milliseconds < 3.6e7 else "h"
    return f"{milliseconds / MS[unit]:.3g} {unit}"


def _worse_by(option: Option, best: Option) -> float:
    return 100 * (option.value / best.value - 1) if best.value else 0.0


def _odd(options: Sequence[Option]) -> list[str]:
    return [f"{_name(each, options)}: {each.estimate.warning}" for each in options if each.estimate.warning]


def _option(answer: Answer, option: Option) -> dict[str, Any]:
    found, cell, price = option.estimate, option.estimate.cell, answer.goal.price
    seconds = option.steps / 1e3
    return {
        "workers": cell.workers,
        "hosts": cell.hosts,
        "framework": cell.framework,
        "strategy": cell.strategy,
        "time_s": _finite(found.time_ms * seconds),
        "time_low_s": _finite(found.low_ms * seconds),
        "time_high_s": _finite(found.high_ms * seconds),
        "cost": option.cost,
        "cost_low": _finite(cost_of(cell, found.low_ms, option.steps, price)),
        "cost_high": _finite(cost_of(cell, found.high_ms, option.steps, price)),
        "currency": price.currency if price else None,
        "accuracy_percent": found.accuracy_percent,
        "is_measured": found.is_measured,
        "origin": found.origin,
        "probability_best": option.probability,
    }


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None
