"""Judging a claim by the table of its figure."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import pandas as pd

from ddlbench.claims.claim import REPLAYED, Claim, Setting
from ddlbench.figures.rows import matching
from ddlbench.measurements.host_columns import is_short_of_memory, own_error
from ddlbench.measurements.metrics import OfStepTime, bounds_of, metric_of

REPLICATED, CONTRADICTED, UNDECIDED, NOT_REACHED = "replicated", "contradicted", "undecided", "not reached"
DOES_NOT_FIT = "does_not_fit"
REPLAY = "replay"  # in a table, compute that takes the time of a device that is not there
SETUP = (
    "fabric",
    "framework",
    "strategy",
    "replay",
)  # of a table's row; without a device that is replayed, no fourth
OWN_ERROR = "the emulation's own error alone leaves it undecided"
VERDICTS = (REPLICATED, CONTRADICTED, UNDECIDED, NOT_REACHED)


@dataclass(frozen=True)
class Judgement:
    """A verdict, the reason for it, and our value with its interval where there is one.

    Attributes:
        verdict: one of VERDICTS.
        reason: why.
        ours: the quantity, or the ratio that the claim is about. Of an order, the quantity of a setting by that of the
            one before it, where that is least clear; above 1 and the claim's tolerance is as claimed.
        low: lower bound of it.
        high: its upper bound.
        setup: emulated or a real fabric, what trained, and the device that was replayed; papers may have used another
            framework.
    """

    verdict: str
    reason: str
    ours: float | None = None
    low: float | None = None
    high: float | None = None
    setup: str = ""


class _Measured(NamedTuple):
    """A value with its interval, and the factor in that which repetitions do not narrow: the emulation's own error."""

    value: float
    low: float
    high: float
    own_error: float = 1.0

    @property
    def bounds(self) -> tuple[float, float, float]:
        """The value and what it lies between."""
        return self.value, self.low, self.high

    @property
    def at_best(self) -> "_Measured":
        """What any number of repetitions would leave of the interval, if they found the same value."""
        return self._replace(low=self.value / self.own_error, high=self.value * self.own_error)


class _NotReached(Exception):
    """Why there is nothing to judge by."""


def judge(claim: Claim, tables: Mapping[str, pd.DataFrame], options: str = "") -> Judgement:
    """Judge a claim.

    Args:
        claim: of a paper.
        tables: of the figures that were measured, by the figure's name.
        options: by which Snakemake reads the configuration of the tables.

    Returns:
        Replicated, if our whole interval is within the tolerance around the paper's value (an order: each value is
        surely more than its neighbour's by the tolerance); contradicted, if none of it is (an order: one is surely
        less by the tolerance); undecided, if some of it is, if values are as good as equal, or if there are too few
        repetitions for an interval; not reached, if it was not measured on the claim's devices.
    """
    if claim.not_reached:
        return Judgement(NOT_REACHED, claim.not_reached)
    if claim.figure not in tables:
        command = f"snakemake --cores 4 {claim.figure} {options}".rstrip()
        return Judgement(NOT_REACHED, f"not measured; to measure it:  {command}")
    claims = [replace(claim, where={"framework": each, **claim.where}) for each in claim.frameworks]
    found = [_judged(each, tables[claim.figure]) for each in claims or [claim]]
    return next((each for each in found if each.verdict != NOT_REACHED), found[0])


def _judged(claim: Claim, table: pd.DataFrame) -> Judgement:
    try:
        rows = [_row(claim, setting, table) for setting in claim.settings]
        if claim.test == "fails":
            return _failure(rows[0])
        if claim.test == "least":  # what does not fit is not faster
            rows = [rows[0], *(row for row in rows[1:] if not _is_too_large(row))]
        for row in rows:
            _check_measured(row, claim.quantity)
    except _NotReached as error:
        return Judgement(NOT_REACHED, str(error))
    return replace(_verdict(claim, rows), setup=_setup(rows))


def _verdict(claim: Claim, rows: list[dict[str, Any]]) -> Judgement:
    """Judge by rows that were measured."""
    names = [row["point_id"] for row in rows]
    if claim.test == "least" and len(rows) == 1:
        return Judgement(REPLICATED, f"only {names[0]} fits into memory")
    points = _points(claim.quantity, rows)
    if few := [row["point_id"] for row in rows if bounds_of(claim.quantity, row) != "interval"]:
        return Judgement(
            UNDECIDED, f"too few repetitions for an interval: measure {', '.join(few)} more often"
        )
    assert claim.tolerance_percent is not None  # claims are checked when they are read
    share = claim.tolerance_percent / 100
    if claim.test == "order":
        return _compared(list(pairwise(zip(points, names, strict=True))), share)
    if claim.test == "least":
        first, *others = zip(points, names, strict=True)
        return _compared([(first, other) for other in others], share)
    assert claim.paper is not None
    ours = points[0] if claim.test == "value" else _ratio(*points)
    asked = (claim.paper * (1 - share), claim.paper * (1 + share))
    verdict = _within(ours, *asked)
    reason = (
        f"{claim.paper:g} +- {claim.tolerance_percent:g} % asked, {ours.low:.3g} to {ours.high:.3g} measured"
    )
    if verdict == UNDECIDED:
        is_lost = _within(ours.at_best, *asked) == UNDECIDED
        reason += f": {OWN_ERROR}" if is_lost else f": measure {', '.join(names)} more often"
    return Judgement(verdict, reason, *ours.bounds)


def _points(quantity: str, rows: Sequence[Mapping[str, Any]]) -> list[_Measured]:
    """Take values with intervals; those of times hold the emulation's own error, as light bars of figures do."""
    is_time = isinstance(metric_of(quantity), OfStepTime)
    return [
        _Measured(
            float(row[quantity]), row[f"{quantity}_low"] / error, row[f"{quantity}_high"] * error, error
        )
        for row in rows
        for error in [own_error(row) if is_time else 1.0]
    ]


def _failure(row: Mapping[str, Any]) -> Judgement:
    """Judge whether a setting does not fit into memory."""
    if _is_too_large(row):
        return Judgement(REPLICATED, str(row["reason"]), setup=_setup([row]))
    if row["status"] != "measured":
        raise _NotReached(_why_not_measured(row))
    return Judgement(CONTRADICTED, f"{row['point_id']} was measured", setup=_setup([row]))


def _is_too_large(row: Mapping[str, Any]) -> bool:
    """Whether a setting does not fit into the memory of the study's hosts; smaller ones here say nothing of that."""
    return row["status"] == DOES_NOT_FIT and not is_short_of_memory(row)


def _setup(rows: Sequence[Mapping[str, Any]]) -> str:
    """What trained over what; of several rows each once."""
    named = [{key: row.get(key) for key in SETUP} for row in rows]
    return " and ".join(
        sorted({", ".join(str(value) for value in each.values() if not pd.isna(value)) for each in named})
    )


def _check_measured(row: Mapping[str, Any], quantity: str) -> None:
    if row["status"] != "measured" or pd.isna(row[quantity]):
        raise _NotReached(_why_not_measured(row))


def _why_not_measured(row: Mapping[str, Any]) -> str:
    status = str(row["status"]).replace("_", " ")
    return f"{row['point_id']}: {row['reason'] if is_short_of_memory(row) else status}"


def _row(claim: Claim, setting: Setting, table: pd.DataFrame) -> dict[str, Any]:
    """Find the only row of a setting."""
    asked = {**claim.where, **setting}
    words = ", ".join(f"{column} {value}" for column, value in asked.items())
    if lacking := [column for column in (*asked, claim.quantity) if column not in table]:
        raise _NotReached(f"the table of {claim.figure} has no column {lacking[0]}")
    rows = matching(table, asked)
    if rows.empty:
        raise _NotReached(f"not measured: {words}")
    devices = _devices(rows)
    on_devices = rows[devices.isin(claim.judged_on)]
    told_apart = [name for name in ("point_id", "epoch", claim.quantity) if name in rows]
    on_devices = on_devices.drop_duplicates(told_apart)  # two grids may have the same point
    if on_devices.empty:
        found = " and ".join(sorted(set(devices)))
        raise _NotReached(f"the claim is about {claim.devices}, measured was {found}")
    if len(on_devices) > 1:
        raise _NotReached(f"{len(on_devices)} points are measured with {words}; the claim must choose one")
    return {str(column): value for column, value in on_devices.iloc[0].items()}


def _devices(rows: pd.DataFrame) -> "pd.Series[str]":
    """What computed each row; devices that are not there are `replayed`, whatever took their time."""
    devices = rows["devices"].astype(str)
    return devices.mask(rows["compute"] == REPLAY, REPLAYED) if "compute" in rows else devices


def _ratio(first: _Measured, second: _Measured) -> _Measured:
    """The widest interval that those of both allow."""
    return _Measured(
        _divided(first.value, second.value),
        _divided(first.low, second.high),
        _divided(first.high, second.low),
        first.own_error * second.own_error,
    )


def _divided(value: float, by: float) -> float:
    return value / by if by else math.inf


def _within(ours: _Measured, low: float, high: float) -> str:
    if low <= ours.low and ours.high <= high:
        return REPLICATED
    return CONTRADICTED if ours.high < low or ours.low > high else UNDECIDED


def _compared(
    pairs: Sequence[tuple[tuple[_Measured, str], tuple[_Measured, str]]], as_good_as_equal: float
) -> Judgement:
    """Judge whether the first of each pair has less, by more than a share of it; one wrong pair contradicts that."""
    ratios = [_ratio(second, first) for (first, _), (second, _) in pairs]
    more, less = 1 + as_good_as_equal, 1 / (1 + as_good_as_equal)
    for ratio, ((first, name), (second, other)) in zip(ratios, pairs, strict=True):
        if ratio.high < less:
            reason = f"{name} has {first.value:.3g}, more than {second.value:.3g} of {other}"
            return Judgement(CONTRADICTED, reason, *ratio.bounds)
    if unclear := [
        (ratio, f"{name} and {other}")
        for ratio, ((_, name), (_, other)) in zip(ratios, pairs, strict=True)
        if ratio.low <= more
    ]:
        equal = [names for ratio, names in unclear if _within(ratio, less, more) == REPLICATED]
        lost = [names for ratio, names in unclear if _within(ratio.at_best, less, more) == UNDECIDED]
        to_measure = [names for _, names in unclear if names not in equal + lost]
        percent = f"{100 * as_good_as_equal:g} %"
        said = (
            (equal, f"as good as equal (within {percent}): {'; '.join(equal)}"),
            (lost, f"do not surely differ by {percent}: {OWN_ERROR} for {'; '.join(lost)}"),
            (to_measure, f"do not surely differ by {percent}: measure {'; '.join(to_measure)} more often"),
        )
        reasons = [words for names, words in said if names]
        least = min((ratio for ratio, _ in unclear), key=lambda ratio: ratio.value)
        return Judgement(UNDECIDED, ". ".join(reasons), *least.bounds)
    reason = "; ".join(
        f"{first.value:.3g} < {second.value:.3g} ({100 * (ratio.value - 1):.0f} % more)"
        for ratio, ((first, _), (second, _)) in zip(ratios, pairs, strict=True)
    )
    least = min(ratios, key=lambda ratio: ratio.value)
    return Judgement(REPLICATED, reason, *least.bounds)
