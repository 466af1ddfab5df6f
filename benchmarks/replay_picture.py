"""The picture of docs/replay.md's validation: the ratio of each turn of each case, and what is allowed.

python -m benchmarks.replay_picture      # from what `python -m benchmarks replay` has found
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
import plotnine as p9

from benchmarks.common import RESULTS, ROOT
from benchmarks.replay import WITHIN_PERCENT
from ddlbench.figures.theme import BAND, COLOURS, GRID, NOTE, PNG_DPI, ddlbench_theme

PICTURE = ROOT / "docs" / "pictures" / "replay_validation.png"
COMPARED = {
    "arithmetic": "a step without overlap\nby compute + bytes / rate",
    "dilations": "a step at 4 k\nby the same at k",
    "burning": "a replayed CPU\nby real compute",
}
ROW_IN = 0.16


def main() -> None:
    files = {name: RESULTS / f"replay_{name}.json" for name in COMPARED}
    turns = {name: json.loads(file.read_text())["turns"] for name, file in files.items() if file.is_file()}
    picture(ratios_of(turns)).save(PICTURE, dpi=PNG_DPI, verbose=False)
    print(PICTURE.relative_to(ROOT))


def ratios_of(turns: Mapping[str, Sequence[Mapping[str, Any]]]) -> pd.DataFrame:
    """A row for each turn: what was compared, the case and the ratio."""
    compared = [name for name in COMPARED if name in turns]
    found = pd.DataFrame(
        [
            {"compared": COMPARED[name], "case": turn["case"], "ratio": turn["ratio"]}
            for name in compared
            for turn in turns[name]
        ]
    )
    order = pd.CategoricalDtype([COMPARED[name] for name in compared])
    return found.astype({"compared": order})


def picture(ratios: pd.DataFrame) -> p9.ggplot:
    """A panel for each comparison, in it a line for each case, a mark for each turn, and a band of what is allowed."""
    cases = ratios.groupby("compared", observed=True)["case"].nunique()
    bands = pd.DataFrame(
        [
            {"compared": words, "low": 1 - WITHIN_PERCENT[name] / 100, "high": 1 + WITHIN_PERCENT[name] / 100}
            for name, words in COMPARED.items()
            if words in cases.index
        ]
    ).astype({"compared": ratios["compared"].dtype})
    return (
        p9.ggplot(ratios, p9.aes("ratio", "case"))
        + p9.geom_rect(
            p9.aes(xmin="low", xmax="high", ymin=float("-inf"), ymax=float("inf")),
            data=bands,
            inherit_aes=False,
            fill=BAND,
        )
        + p9.geom_vline(xintercept=1, colour=NOTE, linetype="dashed", size=0.3)
        + p9.geom_point(colour=COLOURS[0], alpha=0.7, size=1.6)
        + p9.facet_grid("compared ~ .", scales="free_y", space={"x": [1], "y": list(cases)})
        + p9.labs(x="ratio of step times", y="")
        + ddlbench_theme(height_in=0.8 + ROW_IN * cases.sum(), width_in=7.5)
        + p9.theme(
            axis_text_y=p9.element_text(size=6.5),
            strip_text_y=p9.element_text(size=7, rotation=0, ha="left"),
            panel_border=p9.element_rect(colour=GRID, fill=None),
        )
    )


if __name__ == "__main__":
    main()
