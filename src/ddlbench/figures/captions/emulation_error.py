"""The error of the emulation itself, which light bars add to those of repetitions."""

import pandas as pd

from ddlbench.figures.captions.conditions import is_emulated
from ddlbench.measurements.metrics import OfStepTime, metric_of


def emulation_error(measured: pd.DataFrame, y: str) -> list[str]:
    """Say what the emulation itself may add to a time, which no repetition shows.

    Args:
        measured: points that were measured.
        y: the column that is shown.

    Returns:
        Sentences; none if nothing is emulated.
    """
    if not is_emulated(measured):
        return []
    if not has_systematic_error(measured, y):
        return ["Bars do not hold the emulation's own error (docs/accuracy.md)."]
    worst = measured.iloc[measured["systematic_error_percent"].argmax()]
    has_threads = "vcpu_speedup" in measured and measured["vcpu_speedup"].notna().any()
    threads = ", and how uncertain the speed of threads is" if has_threads else ""
    percent, judged = f"{worst['systematic_error_percent']:g}", worst["systematic_error_judged"]
    return [f"Light bars add the emulation's own error, up to {percent} % ({judged}){threads}."]


def has_systematic_error(rows: pd.DataFrame, y: str) -> bool:
    """Say whether light bars can show the emulation's own error: of values that are computed from the time of a step.

    Args:
        rows: of a table, or points that are drawn.
        y: the column that is shown.

    Returns:
        Whether it is known for a point.
    """
    known = "systematic_error_percent" in rows and rows["systematic_error_percent"].notna().any()
    return bool(known) and isinstance(metric_of(y), OfStepTime)
