"""The axes of a chart: their ends, breaks and texts, and where a value lies on them."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pandas as pd
import plotnine as p9
from mizani.breaks import breaks_extended

from ddlbench.figures.bars import widest

LOG_FROM_RATIO = 30.0


def ticks(values: Iterable[float]) -> list[str]:
    """Write the numbers at an axis: all digits, no exponent, and commas for thousands if one reaches 10,000.

    Args:
        values: at all ticks of the axis.

    Returns:
        A text for each value, in order.
    """
    values = list(values)
    text = "{:,.10g}" if max(map(abs, values), default=0) >= 10_000 else "{:.10g}"
    return [text.format(value) for value in values]


@dataclass(frozen=True)
class XAxis:
    """The x axis.

    Attributes:
        low: its left end, in data units.
        high: its right end, in data units.
        log_base: of a logarithmic axis; None for a linear one.
        breaks: where its ticks are, in data units.
        labels: the texts at the ticks.
        margin: room on both sides, as a share of the width.
    """

    low: float
    high: float
    log_base: int | None
    breaks: tuple[float, ...]
    labels: tuple[str, ...]
    margin: float = 0.04

    @classmethod
    def of(cls, values: "pd.Series[Any]", log_base: int | None) -> "XAxis":
        """Make the axis that shows all of some values, with a tick at each value whose text has room.

        Args:
            values: at least one, in data units; positive for a logarithmic axis.
            log_base: of a logarithmic axis; None for a linear one.

        Returns:
            The axis from the least to the largest value.
        """
        places = sorted({float(value) for value in values})
        span = cls(places[0], places[-1], log_base, (), ())
        texts = ticks(places)
        kept: list[tuple[float, str]] = []
        for place, text in zip(places, texts, strict=True):
            room = 0.015 + 0.0085 * (len(text) + len(kept[-1][1])) if kept else 0.0
            if not kept or span.share(place) - span.share(kept[-1][0]) >= room:
                kept.append((place, text))
        breaks, labels = [place for place, _ in kept], [text for _, text in kept]
        return cls(span.low, span.high, log_base, tuple(breaks), tuple(labels))

    def place(self, value: float) -> float:
        """Convert a value from data units to the axis' own units.

        Args:
            value: in data units; positive for a logarithmic axis.

        Returns:
            The value's logarithm on a logarithmic axis, the value itself on a linear one.
        """
        return math.log(value, self.log_base) if self.log_base else value

    def value(self, share: float) -> float:
        """Find the value at a place on the axis.

        Args:
            share: of the axis' length: 0 is its left end, 1 its right end. Other numbers are outside.

        Returns:
            The value in data units.
        """
        place = self.place(self.low) + share * self.width
        return float(self.log_base**place) if self.log_base else place

    def share(self, value: float) -> float:
        """Find how far along the axis a value is.

        Args:
            value: in data units.

        Returns:
            A share of the axis' length: 0 at its left end, 1 at its right end.
        """
        return (self.place(value) - self.place(self.low)) / self.width

    @property
    def width(self) -> float:
        """The axis' length in its own units; 1 if it shows one value only."""
        return self.place(self.high) - self.place(self.low) or 1.0

    def scale(self) -> p9.scale_x_continuous:
        """The axis as plotnine's scale."""
        trans = f"log{self.log_base}" if self.log_base else "identity"
        limits = (self.low, self.high) if self.high > self.low else (self.value(-0.5), self.value(0.5))
        return p9.scale_x_continuous(
            trans=trans, breaks=list(self.breaks), minor_breaks=None, labels=list(self.labels), limits=limits,
            expand=(self.margin, 0), oob=keep,
        )  # fmt: skip


@dataclass(frozen=True)
class YAxis:
    """The y axis.

    Attributes:
        low: its lower end, in data units.
        high: the upper end of the data on it; gaps may be shown above.
        log: whether it is logarithmic.
    """

    low: float
    high: float
    log: bool

    def title(self, label: str) -> str:
        """Write what stands beside the axis.

        Args:
            label: the quantity, with its unit in brackets if it has one.

        Returns:
            The label; of a logarithmic axis with `log scale` in its brackets.
        """
        if not self.log:
            return label
        return f"{label[:-1]}, log scale)" if label.endswith(")") else f"{label} (log scale)"

    def above(self, share: float) -> float:
        """Find the value at a place above the axis' upper end.

        Args:
            share: the distance from the upper end, as a share of the axis' length.

        Returns:
            The value in data units.
        """
        if self.log:
            return self.high * float((self.high / self.low) ** share)
        return self.high + (self.high - self.low) * share

    def share(self, value: float) -> float:
        """Find how far up the axis a value is.

        Args:
            value: in data units; positive for a logarithmic axis.

        Returns:
            A share of the axis' length: 0 at its lower end, 1 at its upper end.
        """
        if self.log:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)

    @property
    def breaks(self) -> list[float]:
        """Where its ticks are, in data units."""
        if self.log and len(found := self._decades) > 1:
            return found
        return [b for b in breaks_extended(n=5)((self.low, self.high)) if self.low <= b <= self.high]

    @property
    def _decades(self) -> list[float]:
        """1, 2 and 5 times the powers of ten within the axis; there may be one only, or none."""
        steps = (1, 2, 5) if self.high / self.low < 1000 else (1,)
        decades = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        return [s * 10.0**d for d in decades for s in steps if self.low <= s * 10.0**d <= self.high * 1.0001]


def y_axis(rows: pd.DataFrame, y: str, scale: str) -> YAxis:
    """Make the axis that shows all values and intervals.

    It is logarithmic if `scale` says so, or if values span more than a factor of LOG_FROM_RATIO. Percentages begin and
    end close to the data. All other axes begin at 0.

    Args:
        rows: from `rows.points`; columns `y`, `y`_low and `y`_high.
        y: the column that is shown.
        scale: `log` or `linear`, as the figure says.

    Returns:
        The axis; from 0 to 1 if there is no value. It is linear if a value is not positive.
    """
    values = pd.concat([rows[y], *widest(rows, y)]).dropna()
    if values.empty:
        return YAxis(0.0, 1.0, False)
    low, high = float(values.min()), float(values.max())
    ratio = float(rows[y].max() / rows[y].min()) if rows[y].min() > 0 else 0.0
    if low > 0 and (scale == "log" or ratio > LOG_FROM_RATIO):
        return YAxis(low / 1.15, high * 1.15, True)
    if y.endswith("_percent"):
        room = max(0.12 * (high - low), 1.0)
        return YAxis(max(0.0, low - room), min(100.0, high + room) if high <= 100 else high + room, False)
    return YAxis(min(0.0, low), high * 1.04 or 1.0, False)


def keep(x: Any, range: Any = None, only_finite: bool = True) -> Any:  # noqa: A002
    """Keep values outside of an axis' limits; plotnine would remove them.

    Args:
        x: the values, as plotnine gives them to a scale's `oob`.
        range: the limits; not used.
        only_finite: not used.

    Returns:
        The values, unchanged.
    """
    return x
