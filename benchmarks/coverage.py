"""How often the intervals that are called 95 % hold the truth: simulated repetitions, ended by our own stop rule.

Each case is a kind of steps with parameters drawn from a seed, so that no constant was chosen by it. Steps are drawn
until the stop rule of config/config.yaml ends a point; a case holds the truth if its mean step lies in the interval.
"""

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.common import ROOT, options, row, save
from ddlbench.measurements.statistics import (
    FEWEST,
    FEWEST_OF_A_FIXED_NUMBER,
    Estimate,
    Total,
    median_interval,
    needs_repetition,
    pooled,
)
from ddlbench.plan import Plan, Point, load
from ddlbench.protocol.measure import StopRule
from ddlbench.protocol.tcp import RTO_MIN_MS
from ddlbench.sweep import stop_rule
from ddlbench.sweep.steps import FEWEST_OF_LOSSY

AT_LEAST_PERCENT = 93.0
CASES = 12  # of each kind


@dataclass(frozen=True)
class Case:
    """A kind of steps with its parameters.

    Attributes:
        kind: what differs between steps or repetitions.
        draw: the times of the steps of one repetition, in ms.
        mean_ms: the true mean of a step.
        steps: of a repetition.
        is_lossy: it stands for a link that loses packets.
    """

    kind: str
    draw: Callable[[Generator], NDArray[numpy.float64]]
    mean_ms: float
    steps: int
    is_lossy: bool = False


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, trials=2000, seed=20)
    plan = load(ROOT / "config/config.yaml", ROOT)
    rows, details = [], {}
    for kind, of_kind in coverage(plan, asked.trials, asked.seed).items():
        percent = 100 * sum(of_kind) / len(of_kind)
        details[kind] = {"percent": percent, "cases": [100 * each for each in of_kind]}
        rows.append(
            row(
                f"coverage of 95 % intervals, {kind}",
                at_least=f"{AT_LEAST_PERCENT:g} %",
                measured=f"{percent:.1f} %; cases {100 * min(of_kind):.1f} to {100 * max(of_kind):.1f} %",
                peer=f"the true mean or median; {len(of_kind)} cases drawn, {asked.trials} points of each",
                met=percent >= AT_LEAST_PERCENT,
            )
        )
    save("coverage", rows, {"trials": asked.trials, "seed": asked.seed, "kinds": details})


def coverage(plan: Plan, trials: int, seed: int) -> dict[str, list[float]]:
    """For each kind the share of intervals that hold the truth, case by case."""
    random = numpy.random.default_rng(seed)
    found: dict[str, list[float]] = {}
    for case in cases(random):
        held = sum(_holds(case, plan, random) for _ in range(trials))
        found.setdefault(case.kind, []).append(held / trials)
    for case in filter(lambda each: not each.is_lossy, cases(random)):
        held = sum(_fixed_number_holds(case, random) for _ in range(trials))
        found.setdefault("two or three repetitions, fixed before", []).append(held / trials)
    for spread in random.uniform(0.01, 0.1, CASES):
        held = sum(_median_holds(spread, plan.settings.probes.measure, random) for _ in range(trials))
        found.setdefault("medians of probes", []).append(held / trials)
    return found


def cases(random: Generator) -> Iterator[Case]:
    """Draw the parameters of each kind."""
    for _ in range(CASES):
        steps = int(_log_uniform(random, 6, 50))
        spread, skew = random.uniform(0.02, 0.2), random.uniform(0.1, 0.6)
        yield Case("normal", _normal(spread, steps), 100, steps)
        yield Case("log-normal", _log_normal(skew, steps), 100 * math.exp(skew**2 / 2), steps)
        kept = random.uniform(0.3, 0.9)
        yield Case(
            "steps that depend on each other",
            _dependent(skew / 2, kept, steps),
            100 * math.exp(skew**2 / 8),
            steps,
        )
        between = random.uniform(0.02, 0.12)
        yield Case("launches that differ", _launches(between, spread, steps), 100, steps)
        timeouts, base_ms = (_log_uniform(random, *bounds) for bounds in ((0.005, 2), (3, 200)))
        again = random.uniform(0.02, 0.2)
        steps = int(_log_uniform(random, FEWEST_OF_LOSSY, 51))
        wait_ms = timeouts * RTO_MIN_MS * (1 - again) / (1 - 2 * again)
        alone = _timeouts(base_ms, timeouts, again, steps)
        yield Case("retransmission time-outs", alone, base_ms + wait_ms, steps, is_lossy=True)
        more = random.uniform(0, 0.5)
        yield Case(
            "time-outs that are followed by others",
            _followed(base_ms, timeouts, more, steps),
            base_ms + timeouts * RTO_MIN_MS / (1 - more),
            steps,
            is_lossy=True,
        )


def _log_uniform(random: Generator, low: float, high: float) -> float:
    return float(numpy.exp(random.uniform(numpy.log(low), numpy.log(high))))


def _normal(spread: float, steps: int) -> Callable[[Generator], NDArray[numpy.float64]]:
    return lambda random: 100 * numpy.maximum(0.01, 1 + spread * random.standard_normal(steps))


def _log_normal(sigma: float, steps: int) -> Callable[[Generator], NDArray[numpy.float64]]:
    return lambda random: 100 * numpy.exp(sigma * random.standard_normal(steps))


def _dependent(sigma: float, kept: float, steps: int) -> Callable[[Generator], NDArray[numpy.float64]]:
    """The logarithm of a step keeps a share of the last one's (an autoregressive process of order 1)."""

    def draw(random: Generator) -> NDArray[numpy.float64]:
        noise = random.standard_normal(steps)
        state = numpy.empty(steps)
        state[0] = noise[0]
        for i in range(1, steps):
            state[i] = kept * state[i - 1] + numpy.sqrt(1 - kept**2) * noise[i]
        return 100 * numpy.exp(sigma * state)

    return draw


def _launches(between: float, within: float, steps: int) -> Callable[[Generator], NDArray[numpy.float64]]:
    """Each repetition is a launch of its own, with a factor of its own."""
    return lambda random: (
        100 * (1 + between * random.standard_normal()) * (1 + within * random.standard_normal(steps))
    )


def _timeouts(
    base_ms: float, rate: float, again: float, steps: int
) -> Callable[[Generator], NDArray[numpy.float64]]:
    """A step waits for so many time-outs on average; each doubles while the packet gets lost again (RFC 6298)."""

    def draw(random: Generator) -> NDArray[numpy.float64]:
        counts = random.poisson(rate, steps)
        waits = RTO_MIN_MS * 2.0 ** (random.geometric(1 - again, counts.sum()) - 1)
        waited = numpy.bincount(numpy.repeat(numpy.arange(steps), counts), waits, minlength=steps)
        return numpy.asarray(base_ms + waited, dtype=numpy.float64)

    return draw


def _followed(
    base_ms: float, rate: float, more: float, steps: int
) -> Callable[[Generator], NDArray[numpy.float64]]:
    """Each time-out lets so many more be expected in the next step: its connection has become slow."""

    def draw(random: Generator) -> NDArray[numpy.float64]:
        counts, last = numpy.empty(steps), rate / (1 - more)
        for i in range(steps):
            last = counts[i] = random.poisson(rate + more * last)
        return base_ms + RTO_MIN_MS * counts

    return draw


def _holds(case: Case, plan: Plan, random: Generator) -> bool:
    """Whether the interval that the stop rule ends with holds the true mean."""
    measure, point = plan.settings.measure, _point(plan, case.is_lossy)
    repetitions: list[Total] = []
    while stop_rule.needs_repetition(point, repetitions, measure):
        times = case.draw(random)
        of_steps = tuple(times.tolist()) if case.is_lossy else ()
        repetitions.append(Total(float(times.sum()), len(times), of_steps))
    return _covers(pooled(repetitions), case.mean_ms)


def _fixed_number_holds(case: Case, random: Generator) -> bool:
    """Whether the interval of as few repetitions as replays and trainings have holds the true mean."""
    count = int(random.integers(FEWEST_OF_A_FIXED_NUMBER, FEWEST))
    drawn = [case.draw(random) for _ in range(count)]
    repetitions = [Total(float(times.sum()), len(times)) for times in drawn]
    return _covers(pooled(repetitions, FEWEST_OF_A_FIXED_NUMBER), case.mean_ms)


def _median_holds(spread: float, rule: StopRule, random: Generator) -> bool:
    """Whether the interval of a median of log-normal values holds the true one, which is 1."""
    values: list[float] = []
    while needs_repetition(values, rule):
        values.append(float(numpy.exp(spread * random.standard_normal())))
    return _covers(median_interval(values), 1)


def _covers(found: Estimate, truth: float) -> bool:
    return found.low is not None and found.high is not None and found.low <= float(truth) <= found.high


def _point(plan: Plan, is_lossy: bool, _points: dict[bool, Point] = {}) -> Point:  # noqa: B006
    """Any point of the plan that is timed only, with a link that loses packets or does not."""
    if is_lossy not in _points:
        points = (point for run in plan.runs for point in run.points)
        found = next(point for point in points if point.bandwidth_mbit and point.epochs == 0)
        _points[is_lossy] = replace(found, loss_percent=5.0 if is_lossy else 0.0)
    return _points[is_lossy]


if __name__ == "__main__":
    arguments: list[Any] = sys.argv[1:]
    main(arguments)
