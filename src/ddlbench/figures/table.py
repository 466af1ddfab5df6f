"""A picture of a table: texts in columns and lines, some of them bold, with small notes below."""

from collections.abc import Sequence

import pandas as pd
import plotnine as p9

from ddlbench.figures import theme
from ddlbench.figures.chart import wrapped

ROW_IN = 0.31
COLUMN_IN = 0.66  # the least: an interval of two numbers of three digits each has room
FOOT = 0.12  # from the middle of a digit to its foot, in lines; all texts of a line share this base line


def table_picture(
    rows: pd.DataFrame, cells: pd.DataFrame, rules: Sequence[float], *, title: str, note: str, caption: str
) -> p9.ggplot:
    """Draw a table.

    Args:
        rows: the data that the figure's CSV holds.
        cells: one row for each cell. Columns: column, line (below 0 for headings), at (its height, in lines), text,
            note (small; below the text, or in its place if that is empty), bold.
        rules: the heights of horizontal rules, in lines.
        title: above the table.
        note: below the title.
        caption: below the table.

    Returns:
        The plot; its data are `rows`. It is wider than other figures if the columns need more room.
    """
    columns, lines = float(cells["column"].max()), int(cells["line"].max())
    width_in = max(theme.WIDTH_IN, COLUMN_IN * (columns + 1))
    values, heads = cells[cells["line"] >= 0], cells[cells["line"] < 0]
    plot = p9.ggplot(rows) + p9.geom_segment(
        p9.aes(y="at", yend="at"),
        data=pd.DataFrame({"at": list(rules)}),
        x=-0.5,
        xend=columns + 0.5,
        color=theme.NOTE,
        size=0.4,
    )
    for bold in (True, False):
        weight = "bold" if bold else "normal"
        for part, size in ((values, theme.NOTE_PT + 1), (heads, theme.NOTE_PT + 0.5)):
            data = part[(part["bold"] == bold) & (part["text"] != "")]
            if len(data):
                plot += p9.geom_text(
                    p9.aes("column", "at", label="text"),
                    data=data.assign(at=data["at"] + FOOT),
                    size=size,
                    va="baseline",
                    fontweight=weight,
                    color=theme.INK,
                    lineheight=1.1,
                )
    small = values[values["note"] != ""].assign(at=lambda part: part["at"] + part["text"].ne("") * 0.4)
    none = p9.element_blank()
    return (
        plot
        + p9.geom_text(
            p9.aes("column", "at", label="note"),
            data=small,
            size=theme.NOTE_PT - 1.5,
            color=theme.NOTE,
            lineheight=1.1,
        )
        + p9.scale_y_reverse(limits=(lines + 0.6, -2.3), expand=(0, 0))
        + p9.scale_x_continuous(limits=(-0.5, columns + 0.5), expand=(0, 0))
        + p9.labs(
            title=wrapped(title, theme.BASE_PT + 2.4, width_in),
            subtitle=wrapped(note, theme.NOTE_PT + 0.5, width_in),
            caption=wrapped(caption, theme.NOTE_PT, width_in),
        )
        + theme.ddlbench_theme(1.3 + ROW_IN * (lines + 3), width_in)
        + p9.theme(panel_grid=none, axis_text=none, axis_line=none, axis_line_x=none, axis_title=none)
    )
