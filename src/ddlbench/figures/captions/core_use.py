"""What hosts got of the cores: against their shares, and how long their threads waited."""

import pandas as pd

from ddlbench.figures.captions.conditions import by_waiting
from ddlbench.figures.words import counted
from ddlbench.measurements.metrics import is_of_time

_MOST_OFF_PERCENT = 5  # without a word: as narrow as intervals are, or less


def core_use(measured: pd.DataFrame, y: str) -> list[str]:
    """Say where hosts did not get of the cores what they should.

    Args:
        measured: points that were measured.
        y: the column that is shown.

    Returns:
        Sentences; empty where all did. What that does to times is said where a time is shown.
    """
    of_times = [*off_their_share(measured), *waited(measured)] if is_of_time(y) else []
    return [*shares(measured), *of_times]


def shares(measured: pd.DataFrame) -> list[str]:
    """Say where hosts did not get their shares of a core.

    Args:
        measured: points that were measured.

    Returns:
        `Hosts were not held to their shares of a core (bursts of CPU got 180 % of them; 4 of 6 points).`; empty where
        all were.
    """
    if "shares_hold" not in measured:
        return []
    off = measured[measured["shares_hold"].map(lambda held: not pd.isna(held) and not held).astype(bool)]
    if off.empty:
        return []
    far = off["burst_percent"].iloc[(off["burst_percent"] - 100).abs().argmax()]
    where = f"{len(off)} of {counted(len(measured), 'point')}"
    return [
        f"Hosts were not held to their shares of a core (bursts of CPU got {far:.0f} % of them; {where})."
    ]


def off_their_share(measured: pd.DataFrame) -> list[str]:
    """Say where hosts that share a core got less or more of it than their share while they trained.

    Args:
        measured: points that were measured.

    Returns:
        `A host got 88.5 % of its share of a core at worst (2 of 8 points): times may be too long.`, and the like of
        what is too much; empty from 95 to 105 %.
    """
    if "got_percent" not in measured:
        return []
    least = measured["got_percent"]
    most = measured["got_percent_most" if "got_percent_most" in measured else "got_percent"]  # older tables
    short, long = least[least < 100 - _MOST_OFF_PERCENT], most[most > 100 + _MOST_OFF_PERCENT]
    of_all = counted(len(measured), "point")
    return [
        f"A host got {percent:g} % of its share of a core at {worst} ({len(found)} of {of_all}): times may be too {so}."
        for found, percent, worst, so in (
            (short, short.min(), "worst", "long"),
            (long, long.max(), "most", "short"),
        )
        if len(found)
    ]


def waited(measured: pd.DataFrame) -> list[str]:
    """Say how long threads waited for cores without a cause of their hosts, if that may have changed a time.

    What they wait for each other is no error: a machine of as many cores would have them wait, too.

    Args:
        measured: points that were measured.

    Returns:
        `Others had a host's own cores for up to 12 % of the time (2 of 8 points): times may be too long.`, and the like
        of shared cores; empty below 5 %.
    """
    if "unexplained_wait_percent" not in measured:
        return []
    waits = measured["unexplained_wait_percent"]
    is_long = waits >= _MOST_OFF_PERCENT
    shares_cores = measured["got_percent"].notna() | by_waiting(measured)
    own, shared = waits[is_long & ~shares_cores], waits[is_long & shares_cores]
    sentences = []
    if len(own):
        where = f"{len(own)} of {counted(len(measured), 'point')}"
        sentences.append(
            f"Others had a host's own cores for up to {own.max():.0f} % of the time ({where}): times may be too long."
        )
    if len(shared):
        where = f"{len(shared)} of {counted(len(measured), 'point')}"
        sentences.append(
            f"A thread waited for a shared core for up to {shared.max():.0f} % of the time ({where}) longer than its "
            "host's share explains."
        )
    return sentences
