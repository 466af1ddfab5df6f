"""The verdicts as a table and as a page."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from ddlbench.claims.claim import read_claims
from ddlbench.claims.judge import VERDICTS, judge
from ddlbench.files import write_atomically

Row = Mapping[Hashable, Any]

DIGITS = "%.6g"
COLUMNS = [
    *("study", "claim", "verdict", "reason", "ours", "low", "high", "setup"),
    *("paper", "tolerance_percent", "quantity", "devices", "figure", "place", "says"),
]


def judge_files(claims: Sequence[Path], tables: Sequence[Path], csv: Path, page: Path) -> None:
    """Judge all claims of files and write the verdicts.

    Args:
        claims: the studies' files.
        tables: of figures, each named as its figure.
        csv: where a row for each claim goes.
        page: where the counts and the claims by study go, as Markdown.

    Raises:
        ConfigError: a claim is written wrong.
        DdlbenchError: the disk is full.
    """
    found = verdicts(claims, tables)
    write_atomically(csv, found.to_csv(index=False, lineterminator="\n", float_format=DIGITS))
    write_atomically(page, _page(found))


def verdicts(claims: Iterable[Path], tables: Iterable[Path]) -> pd.DataFrame:
    """Judge all claims of files.

    Args:
        claims: the studies' files.
        tables: of figures, each named as its figure.

    Returns:
        One row for each claim: study, claim (its name), what `Judgement` has, and of what the claim says paper,
        tolerance_percent, quantity, devices, figure, place and says.

    Raises:
        ConfigError: a claim is written wrong.
    """
    named = [(file.stem, claim) for file in claims for claim in read_claims(file, Path.cwd())]
    figures = {claim.figure for _, claim in named}
    measured = {table.stem: pd.read_csv(table) for table in tables if table.stem in figures}
    rows = [
        {
            "study": study,
            "claim": claim.name,
            **asdict(judge(claim, measured)),
            "paper": claim.paper,
            "tolerance_percent": claim.tolerance_percent,
            "quantity": claim.quantity,
            "devices": claim.devices,
            "figure": claim.figure,
            "place": claim.place,
            "says": claim.says,
        }
        for study, claim in named
    ]
    return pd.DataFrame(rows, columns=COLUMNS)


def counts(found: pd.DataFrame) -> pd.DataFrame:
    """Count verdicts.

    Args:
        found: as of `verdicts`.

    Returns:
        A row for each study, its index; a column for each verdict.
    """
    return pd.crosstab(found["study"], found["verdict"]).reindex(columns=list(VERDICTS), fill_value=0)


def _page(found: pd.DataFrame) -> str:
    lines = ["# Which claims of the papers hold here", "", _line(["study", *VERDICTS]), "|---" * 5 + "|"]
    lines += [_line([study, *values]) for study, *values in counts(found).itertuples()]
    heads = ["claim", "verdict", "measured with", "ours", "why"]
    lines += ["", _line(heads), "|---" * len(heads) + "|"]
    for row in found.to_dict("records"):
        says = f"{row['study']}: {row['says']}"
        lines.append(_line([says, row["verdict"], row["setup"], value_of(row), row["reason"]]))
    return "\n".join(lines) + "\n"


def value_of(row: Row) -> str:
    """Write our value.

    Args:
        row: of `verdicts`.

    Returns:
        The value with its interval; empty where there is none.
    """
    if pd.isna(row["ours"]):
        return ""
    return f"{row['ours']:.3g} [{row['low']:.3g}, {row['high']:.3g}]"


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"
