"""The verdicts of a run in README and docs: `python -m ddlbench.claims.documents results/claims.csv`."""

import sys
from pathlib import Path

import pandas as pd

from ddlbench.claims.report import judged, page
from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically

BEGIN = "<!-- Made by `python -m ddlbench.claims.documents results/claims.csv`: -->\n"
END = "<!-- Written by hand: -->\n"


def write_documents(csv: Path, root: Path) -> None:
    """Write the verdicts into README.md, those that were judged, and into docs/claims.md, all with their reasons.

    Args:
        csv: as of `report.judge_files`.
        root: the repository.

    Raises:
        DdlbenchError: a page has no lines that say where they go.
    """
    found = pd.read_csv(csv, dtype={"setup": str}).fillna({"setup": ""})
    for name, tables in (("README.md", judged(found)), ("docs/claims.md", page(found))):
        before, begin, rest = (root / name).read_text().partition(BEGIN)
        _, end, after = rest.partition(END)
        if not end:
            raise DdlbenchError(f"{name}: lacks {BEGIN.strip()} or, below that, {END.strip()}")
        write_atomically(root / name, f"{before}{begin}\n{tables}\n{end}{after}")


if __name__ == "__main__":
    write_documents(Path(sys.argv[1]), Path.cwd())
