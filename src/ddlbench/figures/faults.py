"""Tables of faults: what happened to each framework's training when members of its worker group were killed."""

from collections.abc import Mapping
from typing import Any

import pandas as pd
import plotnine as p9

from ddlbench.figures.captions.conditions import conditions
from ddlbench.figures.captions.hosts import machine
from ddlbench.figures.captions.images import images
from ddlbench.figures.captions.paper import beside_the_paper
from ddlbench.figures.table import table_picture
from ddlbench.figures.words import escaped, listed, values_of
from ddlbench.measurements.faults import HUNG, WENT_ON
from ddlbench.plan.study import Figure

_FIRST = 3  # the first column of outcomes; framework and strategy have the width of three
_FOOT = 0.6  # the height of the last line below its middle, for its notes
_NOT_THERE = "has none"


def fault_table(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Draw a table: a line for each framework and strategy, a column for each set of members that were killed.

    Args:
        table: as in results/faults, one or several.
        figure: from the study's file.

    Returns:
        The picture of the table; its data are `table`.
    """
    systems = table[["framework", "strategy"]].drop_duplicates()
    ways = list(dict.fromkeys(table["killed"]))
    middle = (2 * _FIRST + len(ways) - 1) / 2
    cells: list[dict[str, Any]] = [
        {"column": middle, "line": -2, "at": -1.7, "text": "killed", "bold": True},
        *(
            {"column": _FIRST + i, "line": -1, "at": -1.0, "text": way, "bold": True}
            for i, way in enumerate(ways)
        ),
    ]
    found = {(row["framework"], row["strategy"], row["killed"]): row for row in table.to_dict("records")}
    for line, (framework, strategy) in enumerate(systems.itertuples(index=False)):
        name = f"{framework}, {strategy}".replace("_", " ")
        cells.append({"column": (_FIRST - 1) / 2, "line": line, "at": line, "text": name, "bold": False})
        for i, way in enumerate(ways):
            at = (framework, strategy, way)
            cell = _cell(found[at]) if at in found else {"text": "", "note": _NOT_THERE}
            cells.append({"column": _FIRST + i, "line": line, "at": line, "bold": False, **cell})
    return table_picture(
        table,
        pd.DataFrame(cells).fillna({"note": ""}),
        [-0.5, len(systems) - 1 + _FOOT],
        title=figure.title,
        note=f"{_meaning(table)} {_conditions(table, figure)}.",
        caption=_how(table),
    )


def _cell(row: Mapping[Any, Any]) -> dict[str, Any]:
    """The outcome in words; below it after how many seconds, and the accuracy."""
    if row["status"] != "measured":
        return {"text": "", "note": _why_not(row)}
    accuracy = row["test_accuracy_percent"]
    reached = f", {accuracy:.1f} %" if pd.notna(accuracy) else ""
    return {
        "text": str(row["outcome"]).replace("_", " "),
        "note": f"{row['after_s']:.1f} s{reached}",
        "bold": row["outcome"] == WENT_ON,
    }


def _why_not(row: Mapping[Any, Any]) -> str:
    return "no environment" if row["status"] == "no_environment" else "not available"


def _meaning(table: pd.DataFrame) -> str:
    """What was done, and what the cells mean."""
    step, steps = values_of(table, "at_step"), values_of(table, "steps")
    timeouts = listed(values_of(table, "timeout_s"))
    return (
        f"SIGKILL in the middle of step {listed([each + 1 for each in step])} of {listed(steps)}; seconds from there "
        "until the last survivor had finished or ended; accuracy on the test images where all survivors finished. "
        f"{HUNG.capitalize()}: a survivor was silent to the end, or ended only after a time-out of {timeouts} s."
    )


def _conditions(table: pd.DataFrame, figure: Figure) -> str:
    return conditions(table.drop(columns=["framework", "strategy"]), figure)


def _how(table: pd.DataFrame) -> str:
    """Sentences: repetitions, images, host, dilation."""
    factors = listed(values_of(table, "dilation"))
    words = [
        "Each outcome was seen once.",
        *images(table, "test_accuracy_percent"),
        machine(table),
        f"Time dilation {factors}, of time-outs too." if factors else "Nothing could be measured here.",
    ]
    return " ".join(words)


def fault_caption(table: pd.DataFrame, figure: Figure) -> str:
    """Write the report's caption, with the last error line in the log of the first survivor that ended.

    Args:
        table: as in results/faults, one or several.
        figure: from the study's file.

    Returns:
        reStructuredText.
    """
    sentences = [
        f"**{escaped(figure.title)}.** {escaped(_meaning(table))} {escaped(_conditions(table, figure))}."
    ]
    sentences += [escaped(_how(table)), *beside_the_paper(table, figure)]
    missing = table[table["status"] != "measured"].drop_duplicates(["framework", "strategy"])
    for row in missing.to_dict("records"):
        sentences.append(f"{escaped(row['framework'])} is missing: {escaped(str(row['reason']))}.")
    ended = table[table["last_log_line"].notna()]
    if len(ended):
        sentences += ["", "The last log line of the first survivor that ended:", ""]
    for row in ended.to_dict("records"):
        system = f"{row['framework']}, {row['strategy'].replace('_', ' ')}, {row['killed']} killed"
        sentences.append(f"* {escaped(system)}: {escaped(str(row['last_log_line']))}")
    return "\n".join(sentences) + "\n"
