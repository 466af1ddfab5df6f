"""The verdicts as a table and as a page."""

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from ddlbench.claims.claim import read_claims
from ddlbench.claims.judge import VERDICTS, judge
from ddlbench.files import write_atomically

DIGITS = "%.6g"


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
    measured = {table.stem: pd.read_csv(table) for table in tables}
    rows = [
        {
            "study": file.stem,
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
        for file in claims
        for claim in read_claims(file, Path.cwd())
    ]
    verdicts = pd.DataFrame(rows)
    write_atomically(csv, verdicts.to_csv(index=False, lineterminator="\n", float_format=DIGITS))
    write_atomically(page, _page(verdicts))


def _page(verdicts: pd.DataFrame) -> str:
    counts = pd.crosstab(verdicts["study"], verdicts["verdict"]).reindex(columns=list(VERDICTS), fill_value=0)
    lines = ["# Which claims of the papers hold here", "", _line(["study", *VERDICTS]), "|---" * 5 + "|"]
    lines += [_line([study, *values]) for study, *values in counts.itertuples()]
    lines += ["", _line(["claim", "verdict", "measured with", "why"]), "|---" * 4 + "|"]
    for row in verdicts.to_dict("records"):
        waited = (
            "" if pd.isna(row["waited_percent"]) else f" (waited for cores: {row['waited_percent']:.0f} %)"
        )
        with_what = f"{row['setup']}{waited}"
        lines.append(_line([f"{row['study']}: {row['says']}", row["verdict"], with_what, row["reason"]]))
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[object]) -> str:
    return f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"
