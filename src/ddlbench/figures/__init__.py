"""Figures: from a table of measurements to a picture (svg, pdf, png), its data (csv) and its caption (rst)."""

from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddlbench.errors import ConfigError, DdlbenchError
from ddlbench.files import write_atomically

if TYPE_CHECKING:  # plotting takes a second to import, so it is imported only to draw
    import pandas as pd
    import plotnine as p9

    from ddlbench.plan.study import Figure


def draw(
    name: str, tables: Sequence["pd.DataFrame"], figure: "Figure", outputs: Iterable[Path | str]
) -> None:
    """Draw a figure and write its files. Files are whole or absent; the same tables give the same bytes.

    Args:
        name: of the figure.
        tables: as read from results/tables or results/probes; their rows are drawn together.
        figure: what to draw, from the study's file.
        outputs: files to write, each by its ending: .svg, .pdf, .png (200 dpi), .csv (the tidy rows that were drawn) or
            .caption.rst (the report's caption). Files with another ending are left to the caller.

    Raises:
        DdlbenchError: the tables hold no points.
        ConfigError: the figure asks for columns, values or a drawing that do not exist.
    """
    import pandas as pd

    from ddlbench.figures.theme import render

    filled = [table for table in tables if not table.empty]
    if not filled:
        raise DdlbenchError(f"figure {name}: its tables hold no points; measure its grids first")
    plot = drawing(figure)(pd.concat(filled, ignore_index=True), figure)
    rows = drawn_rows(plot)
    paths = [Path(path) for path in outputs]
    pictures = render(plot, {path.suffix.removeprefix(".") for path in paths})
    files: dict[str, bytes | str] = {f".{kind}": data for kind, data in pictures.items()}
    files[".csv"] = rows.to_csv(index=False, float_format="%.10g", lineterminator="\n")
    files[".caption.rst"] = captioning(figure)(rows, figure)
    for path in paths:
        for ending, data in files.items():
            if path.name == name + ending:
                write_atomically(path, data)


def drawn_rows(plot: "p9.ggplot") -> "pd.DataFrame":
    """Take from a plot the tidy rows that it shows, as they go into the figure's CSV.

    Args:
        plot: of ours; its rows are its data.

    Returns:
        The rows without `place`, the position in the picture; for most kinds see `rows.points`.

    Raises:
        TypeError: the plot has no rows.
    """
    import pandas as pd

    if not isinstance(plot.data, pd.DataFrame):
        raise TypeError("a figure's plot carries its rows: ggplot(rows, ...)")
    return plot.data.drop(columns=["place"], errors="ignore")


def drawing(figure: "Figure") -> Callable[["pd.DataFrame", "Figure"], "p9.ggplot"]:
    """Choose the function that draws a figure: that in its study's module, otherwise the chart for its kind.

    Therefore a figure that is only a chart of its columns needs no code.

    Args:
        figure: from the study's file.

    Returns:
        A function from a table of measurements and the figure to its plot.

    Raises:
        ConfigError: figures of this kind need a function, and the study's module has none for this figure.
    """
    if named := _named(figure, "FIGURES"):
        return named  # type: ignore[no-any-return]
    from ddlbench.figures.chart import category_chart, line_chart
    from ddlbench.figures.faults import fault_table
    from ddlbench.figures.probe import message_chart, messages
    from ddlbench.figures.rows import points
    from ddlbench.figures.runtimes import runtime_table
    from ddlbench.figures.telemetry import activity, activity_chart

    charts = {"line": line_chart, "bar": category_chart}
    if figure.kind == "probe":
        return lambda table, figure: message_chart(messages(table, figure, {}), figure)
    if figure.kind == "faults":
        return fault_table
    if figure.kind == "runtimes":
        return runtime_table
    if figure.kind == "telemetry":
        return lambda table, figure: activity_chart(activity(table, figure), figure)
    if figure.kind not in charts:
        raise ConfigError(
            f"figure {figure.name}: a {figure.kind} needs a function in src/ddlbench/figures/{figure.study}.py"
        )
    return lambda table, figure: charts[figure.kind](points(table, figure), figure)


def captioning(figure: "Figure") -> Callable[["pd.DataFrame", "Figure"], str]:
    """Choose the function that writes a figure's caption: that in its study's module, otherwise that of its kind.

    Args:
        figure: from the study's file.

    Returns:
        A function from the rows that were drawn and the figure to reStructuredText.
    """
    from ddlbench.figures.captions.caption import caption
    from ddlbench.figures.faults import fault_caption
    from ddlbench.figures.probe import message_caption
    from ddlbench.figures.runtimes import runtime_caption
    from ddlbench.figures.telemetry import activity_caption

    of_kind: dict[str, Callable[[pd.DataFrame, Figure], str]]
    of_kind = {"probe": message_caption, "telemetry": activity_caption, "faults": fault_caption}
    of_kind["runtimes"] = runtime_caption
    return _named(figure, "CAPTIONS") or of_kind.get(figure.kind, caption)


def _named(figure: "Figure", dictionary: str) -> Any:
    """The entry for a figure in a dictionary of its study's module; None if there is none."""
    module = f"{__name__}.{figure.study}"
    return getattr(import_module(module), dictionary, {}).get(figure.name) if find_spec(module) else None
