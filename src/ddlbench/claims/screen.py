"""The verdicts for a terminal."""

import textwrap
from collections.abc import Iterator

import pandas as pd

from ddlbench.claims.judge import NOT_REACHED, VERDICTS
from ddlbench.claims.report import counts, value_of

WIDTH = 110


def overview(found: pd.DataFrame) -> Iterator[str]:
    """Count verdicts, and say why claims were not reached.

    Args:
        found: as of `report.verdicts`.

    Yields:
        Lines.
    """
    table = counts(found)
    total = table.sum()
    yield f"{len(found)} claim{'' if len(found) == 1 else 's'} of the papers: " + ", ".join(
        f"{total[name]} {name}" for name in VERDICTS
    )
    width = max(map(len, map(str, table.index)), default=0)
    for study, *values in table.itertuples():
        yield f"  {study:<{width}}  " + ", ".join(
            f"{value} {name}" for value, name in zip(values, VERDICTS, strict=True) if value
        )


def by_claim(found: pd.DataFrame) -> Iterator[str]:
    """Write each verdict with its reason.

    Args:
        found: as of `report.verdicts`.

    Yields:
        Lines, by verdict.
    """
    for verdict in VERDICTS:
        rows = found[found["verdict"] == verdict]
        if len(rows):
            yield f"\n{verdict.capitalize()}:"
        for row in rows.to_dict("records"):
            yield f"  {row['study']}: {row['says']}"
            reason = row["reason"]
            if verdict != NOT_REACHED:
                ours = f"ours {value_of(row)}: " if value_of(row) else ""
                reason = f"{ours}{reason} ({row['setup']})"
            yield textwrap.fill(
                reason, WIDTH, initial_indent="      ", subsequent_indent="        ", break_on_hyphens=False
            )
