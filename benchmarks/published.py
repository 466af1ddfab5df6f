"""Published scaling beside ours: from the tables of figures into docs/replayed-figures.md, between its two markers.

python -m benchmarks.published [--results results/paper --results results/scaling ...]

What was published, and which rows of which figure's table are ours, is in published.yaml beside this file. Nothing is
measured here: `snakemake --cores 2 wang2019_fig5 shi2019_fig4_3 shi2019_fig4_4 --configfile config/paper.yaml` and
`snakemake --cores 2 --configfile config/examples/scaling.yaml` make the tables. What they lack is `not measured yet`.
"""

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from benchmarks.common import ROOT

LISTED = ROOT / "benchmarks" / "published.yaml"
PAGE = ROOT / "docs" / "replayed-figures.md"
RESULTS = (Path("results/paper"), Path("results/scaling"))
BEGIN, END = "<!-- published -->", "<!-- /published -->"
NOT_YET = "not measured yet"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--results", type=Path, action="append", metavar="FOLDER", help="several; the first counts"
    )
    folders = parser.parse_args(arguments).results or [ROOT / folder for folder in RESULTS]
    text = table(yaml.safe_load(LISTED.read_text()), folders)
    print(text)
    PAGE.write_text(with_table(PAGE.read_text(), text))
    return 0


def table(listed: Iterable[Mapping[str, Any]], folders: Sequence[Path]) -> str:
    """Markdown: a row for each published number, with ours or that there is none yet."""
    lines = ["| what | published | ours | difference |", "|---|---|---|---|"]
    for each in listed:
        difference = " ".join(str(each["difference"]).split())
        published = f"{each['published']} ({each['source']})"
        lines.append(
            f"| {each['what']} | {published} | {in_words(each.get('ours'), folders)} | {difference} |"
        )
    return "\n".join(lines)


def in_words(ours: Mapping[str, Any] | None, folders: Sequence[Path]) -> str:
    """`88 % of linear`, `2.9 times`, or why there is no number."""
    if ours is None:
        return "cannot be measured"
    rows = next((found for folder in folders if (found := measured_rows(ours, folder)) is not None), None)
    if rows is None:
        return NOT_YET
    ratio = float(rows[0][ours["y"]]) / float(rows[1][ours["y"]])
    if "of_linear" in ours:
        return f"{100 * ratio / ours['of_linear']:.0f} % of linear"
    return f"{ratio:.2g} times"


def measured_rows(ours: Mapping[str, Any], folder: Path) -> list[Mapping[str, Any]] | None:
    """The two rows of a figure's table below a folder of results; None if one is missing or was not measured."""
    path = folder / "tables" / f"{ours['figure']}.csv"
    if not path.is_file():
        return None
    points = pd.read_csv(path)
    found: list[Mapping[str, Any]] = []
    for where in ours["rows"]:
        of_point = points[points["status"] == "measured"]
        for column, value in where.items():
            of_point = of_point[of_point[column] == value]
        if len(of_point) != 1:
            return None
        found.append({str(column): value for column, value in of_point.iloc[0].items()})
    return found


def with_table(page: str, text: str) -> str:
    """The page with another table between its two markers."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n{text}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
