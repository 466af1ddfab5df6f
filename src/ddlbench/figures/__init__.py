"""Figures: a table of measurements in; a picture (svg, pdf, png), its data (csv) and its caption (rst) out."""

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ddlbench.errors import ConfigError, DdlbenchError
from ddlbench.files import write_atomically

if TYPE_CHECKING:  # plotting takes a second to import: only who draws pays for it
    import pandas as pd
    import plotnine as p9

    from ddlbench.plan.study import Figure


def draw(
    name: str, tables: Sequence["pd.DataFrame"], figure: "Figure", outputs: Iterable[Path | str]
) -> None:
    """Draw `figure` from `tables` and write each of `outputs` by its ending; other endings are left to the caller.

    tables: one a grid, as read from results/tables. Endings: .svg, .pdf, .png (200 dpi), .csv (the tidy rows that were
    drawn), .caption.rst (the report's caption). Every file is whole or absent; the same tables give the same bytes.
    Raises ConfigError where the figure asks for columns, values or a drawing that do not exist.
    """
    import pandas as pd

    from ddlbench.figures.caption import caption
    from ddlbench.figures.theme import render

    filled = [table for table in tables if not table.empty]
    if not filled:
        raise DdlbenchError(f"figure {name}: its tables hold no points; measure its grids first")
    plot = drawing(figure)(pd.concat(filled, ignore_index=True), figure)
    rows = drawn_rows(plot)
    files: dict[str, bytes | str] = {f".{kind}": data for kind, data in render(plot).items()}
    files[".csv"] = rows.to_csv(index=False, float_format="%.10g", lineterminator="\n")
    files[".caption.rst"] = caption(rows, figure)
    for path in map(Path, outputs):
        for ending, data in files.items():
            if path.name == name + ending:
                write_atomically(path, data)


def drawn_rows(plot: "p9.ggplot") -> "pd.DataFrame":
    """The tidy rows that a plot of ours shows, as they go into its CSV (see `rows.points`)."""
    import pandas as pd

    if not isinstance(plot.data, pd.DataFrame):
        raise TypeError("a figure's plot carries its rows: ggplot(rows, ...)")
    return plot.data.drop(columns=["place"], errors="ignore")


def drawing(figure: "Figure") -> Callable[["pd.DataFrame", "Figure"], "p9.ggplot"]:
    """The function that draws `figure`: what its study's module names, else the chart for its kind.

    So a figure that is only a chart of its columns needs no code. Raises ConfigError for a table without a function.
    """
    module = f"{__name__}.{figure.study}"
    if find_spec(module) and (named := import_module(module).FIGURES.get(figure.name)):
        return named  # type: ignore[no-any-return]
    from ddlbench.figures.chart import category_chart, line_chart
    from ddlbench.figures.rows import points

    charts = {"line": line_chart, "bar": category_chart}
    if figure.kind not in charts:
        raise ConfigError(
            f"figure {figure.name}: a {figure.kind} needs a function in src/ddlbench/figures/{figure.study}.py"
        )
    return lambda table, figure: charts[figure.kind](points(table, figure), figure)
