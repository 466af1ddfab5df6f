"""What a mark and its bar are: estimator, repetitions, launches, steps, and what times are extrapolated to."""

from collections.abc import Collection

import pandas as pd

from ddlbench.figures.words import counted, listed, span_of, values_of
from ddlbench.measurements.metrics import (
    LOSSES,
    OfRepetition,
    OfStep,
    bounds_of,
    bounds_of_median,
    is_of_time,
    metric_of,
)
from ddlbench.workers.strategies import STRATEGIES

_BOUNDS = {"interval": "95 % intervals", "range": "the range of too few repetitions for an interval"}
OF_EPOCH = ("epoch_time_s",)
OF_TRAINING = ("training_time_s", "training_time_ms")


def estimated(measured: pd.DataFrame, y: str) -> list[str]:
    """Say what a mark is, what its bar is, and what a faint one means.

    Args:
        measured: points that were measured.
        y: the column that is shown.

    Returns:
        Sentences, with the number of repetitions, launches and timed steps of a point.
    """
    metric = metric_of(y)
    amount = "bytes" if isinstance(metric, OfStep) else "time"
    pooled = f"total {amount} divided by total steps, over"
    mark = "the median of" if isinstance(metric, OfRepetition) else pooled
    parts = [f"Marks: {mark} {_ranged(measured['repetitions'], 'repetition')}"]
    if "launches" in measured and len(launches := measured["launches"].dropna()):
        parts.append(f"in {span_of(launches)} launch{'es' * bool(launches.max() > 1)}")
    if "steps" in measured:
        parts.append(f"({_ranged(measured['steps'], 'step')} a point)")
    if left_out := _uncounted_steps(measured):
        parts.append(f"without {' and '.join(left_out)}")
    bars = _in_words({bounds_of(y, row) for row in measured.to_dict("records")})
    sentences = [f"{' '.join(parts)}{'; bars: ' * bool(bars)}{bars}."]
    if "stalled" in measured and (stalled := int(measured["stalled"].sum())):
        sentences.append(
            f"Given up because links stalled: {counted(stalled, 'repetition')}; the time until then counts as a step."
        )
    if "stalled_at_once" in measured and (without := int(measured["stalled_at_once"].sum())):
        sentences.append(
            "Not counted, as links stalled before a quarter of the steps was finished: "
            f"{counted(without, 'repetition')}."
        )
    if y in LOSSES and (without := int(measured["diverged"].sum())):
        sentences.append(f"{counted(without, 'training')} diverged, and the medians are of the others.")
    if unresolved := int(is_unresolved(measured, y).sum()):
        sentences.append(
            f"Faint: unresolved ({counted(unresolved, 'point')}), with an interval wider than asked for or too few "
            "repetitions for one."
        )
    return sentences


def bounds_of_medians(repetitions: "pd.Series[int]") -> str:
    """Say what lies between the bounds of medians, as tables of probes have them.

    Args:
        repetitions: of each median.

    Returns:
        `95 % intervals`, the range of few repetitions, or both; empty if everything was measured once.
    """
    return _in_words({bounds_of_median(count) for count in repetitions})


def _in_words(kinds: Collection[str | None]) -> str:
    return " or ".join(words for kind, words in _BOUNDS.items() if kind in kinds)


def _uncounted_steps(measured: pd.DataFrame) -> list[str]:
    """Which steps of workers with a server do not count, but for a training to an accuracy, of which all do."""
    if not {"strategy", "workers", "epochs"} <= set(measured):
        return []
    trained = measured.loc[(measured["workers"] > 1) & (measured["epochs"] == 0), "strategy"]
    kinds = {each.is_synchronous for strategy in trained.unique() if (each := STRATEGIES[strategy]).servers}
    words = {
        True: "the first ones, which synchronous workers of a server begin at one moment",
        False: "those in which asynchronous workers begin and end one after another",
    }
    return [words[kind] for kind in sorted(kinds, reverse=True)]


def _ranged(counts: "pd.Series[int]", noun: str) -> str:
    """`1 step`, `5 steps` or `3 to 5 steps`."""
    return f"{span_of(counts)} {noun}{'s' * bool(counts.max() > 1)}"


def is_unresolved(rows: pd.DataFrame, y: str) -> "pd.Series[bool]":
    """Which points have a wider interval than was asked for; those of which nothing is known have not.

    Args:
        rows: of a table, or points that are drawn.
        y: the column that is shown; that of a time was asked for.

    Returns:
        One value for each row.
    """
    if "resolved" not in rows or not is_of_time(y):
        return pd.Series(False, index=rows.index)
    return (
        rows["resolved"]
        .map(lambda value: value is not None and not pd.isna(value) and not value)
        .astype(bool)
    )


def extrapolated(measured: pd.DataFrame, y: str) -> list[str]:
    """Say what times are extrapolated to, if they are.

    Args:
        measured: points that were measured, with the columns epoch_images, epoch_steps and reported_epochs.
        y: the column that is shown.

    Returns:
        `Times are extrapolated from these steps to 10 epochs of 60,000 images.`; empty for what is no such time.
    """
    if y not in (*OF_EPOCH, *OF_TRAINING):
        return []
    sizes = [
        f"{count:,.10g} {noun}"
        for column, noun in (("epoch_steps", "steps"), ("epoch_images", "images"))
        for count in values_of(measured, column)
    ]
    epochs = values_of(measured, "reported_epochs") if y in OF_TRAINING else [1]
    what = "an epoch" if epochs == [1] else f"{listed(epochs)} epochs" if epochs else "a training"
    size = f" of {' or '.join(sizes)}" if sizes else ""
    return [f"Times are extrapolated from these steps to {what}{size}."]
