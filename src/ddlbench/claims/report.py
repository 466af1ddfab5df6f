"""The verdicts as a table and as a page."""

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pandas as pd

from ddlbench.claims.claim import read_claims
from ddlbench.claims.judge import NOT_REACHED, VERDICTS, judge
from ddlbench.files import write_atomically

Row = Mapping[Hashable, Any]

DIGITS = "%.6g"
OF_ORDERS = (
    "Of an order, ours is the value that should be larger divided by the other, where that is least clear."
)
COLUMNS = [
    *("study", "claim", "verdict", "reason", "ours", "low", "high", "setup"),
    *("paper", "tolerance_percent", "quantity", "devices", "figure", "place", "says"),
]


def judge_files(
    claims: Sequence[Path], tables: Sequence[Path], csv: Path, markdown: Path, options: str
) -> None:
    """Judge all claims of files and write the verdicts.

    Args:
        claims: the studies' files.
        tables: of figures, each named as its figure.
        csv: where a row for each claim goes.
        markdown: where the counts and the claims by study go.
        options: by which Snakemake reads the configuration of the tables.

    Raises:
        ConfigError: a claim is written wrong.
        DdlbenchError: the disk is full.
    """
    found = verdicts(claims, tables, options)
    write_atomically(csv, found.to_csv(index=False, lineterminator="\n", float_format=DIGITS))
    write_atomically(markdown, f"# Which claims of the papers hold here\n\n{page(found)}")


def verdicts(claims: Iterable[Path], tables: Iterable[Path], options: str = "") -> pd.DataFrame:
    """Judge all claims of files.

    Args:
        claims: the studies' files.
        tables: of figures, each named as its figure.
        options: by which Snakemake reads the configuration of the tables.

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
            **asdict(judge(claim, measured, options)),
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


def page(found: pd.DataFrame) -> str:
    """Write the counts, and each claim with its verdict, our value and the reason.

    Args:
        found: as of `verdicts`.

    Returns:
        Two tables in Markdown.
    """
    rows = [
        [f"{row['study']}: {row['says']}", row["verdict"], row["setup"], value_of(row), row["reason"]]
        for row in found.to_dict("records")
    ]
    return f"{_counted(found)}\n{_table(['claim', 'verdict', 'measured with', 'ours', 'why'], rows)}"


def judged(found: pd.DataFrame) -> str:
    """Write the counts, and of what could be judged our value, or why there is none, beside the paper's, folded.

    Args:
        found: as of `verdicts`.

    Returns:
        Markdown for GitHub.
    """
    rows = [
        [
            f"{row['study']}: {row['says']}",
            row["verdict"],
            value_of(row) or _briefly(row["reason"]),
            _asked(row),
        ]
        for row in found.to_dict("records")
        if row["verdict"] != NOT_REACHED
    ]
    return "\n".join(
        [
            _counted(found),
            f"<details><summary>The {len(rows)} that were judged</summary>\n",
            f"{OF_ORDERS}\n",
            _table(["claim", "verdict", "ours", "the paper's"], rows),
            "</details>\n",
        ]
    )


def _counted(found: pd.DataFrame) -> str:
    counted = counts(found)
    total = [f"all {len(found)}", *counted.sum()]
    return _table(["study", *VERDICTS], [*map(list, counted.itertuples()), total])


def _briefly(reason: str) -> str:
    """A reason without the names of the points to measure."""
    return reason.partition(": measure ")[0]


def _asked(row: Row) -> str:
    """What the paper's value asks of ours."""
    if not pd.isna(row["paper"]):
        return f"{row['paper']:g} +- {row['tolerance_percent']:g} %"
    if pd.isna(row["tolerance_percent"]):
        return "does not fit into memory"
    return f"above {1 + row['tolerance_percent'] / 100:g}"


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


def _table(heads: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [_line(heads), "|---" * len(heads) + "|", *map(_line, rows)]
    return "".join(f"{line}\n" for line in lines)


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"
