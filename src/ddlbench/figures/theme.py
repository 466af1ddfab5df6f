"""How pictures look and are saved: one theme, colours that all readers can distinguish, equal bytes for equal data."""

from collections.abc import Collection
from io import BytesIO
from itertools import cycle, islice
from typing import Any

import matplotlib as mpl
import plotnine as p9

WIDTH_IN = 5.0
BASE_PT = 10.0
NOTE_PT = 7.0
PNG_DPI = 200

# Okabe and Ito's colours in an order that also differs in lightness; their yellow is too light for lines on white.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
SHAPES = ("o", "s", "^", "D", "v", "p", "h", "*")
LINETYPES: tuple[Any, ...] = (
    "solid",
    (0, (5, 2)),
    (0, (1, 1.5)),
    (0, (6, 2, 1, 2)),
    (0, (6, 2, 1, 2, 1, 2)),
    (0, (9, 3)),
)
INK, NOTE, GRID, BAND = "#1A1A1A", "#555555", "#E3E3E3", "#F1F1F1"

# Text stays text; ids and dates do not change from one drawing to the next.
RC: dict[Any, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial", "Helvetica"],
    "text.parse_math": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "ddlbench",
    "pdf.fonttype": 3,
}
METADATA: dict[str, dict[str, Any]] = {
    "svg": {"Date": None, "Creator": "ddlbench"},
    "pdf": {"CreationDate": None, "Creator": "ddlbench"},
    "png": {"Software": "ddlbench"},
}


def ddlbench_theme(height_in: float, width_in: float = WIDTH_IN) -> p9.theme:
    """Make the theme of all figures: sans-serif letters, a light grid, the legend above the panel, notes below it.

    Args:
        height_in: of the picture, in inches.
        width_in: of the picture, in inches.

    Returns:
        A complete theme, to be added to a plot.
    """
    none = p9.element_blank()
    return p9.theme_minimal(base_size=BASE_PT, base_family="sans-serif") + p9.theme(
        figure_size=(width_in, height_in),
        text=p9.element_text(color=INK),
        plot_title=p9.element_text(size=BASE_PT + 1, weight="bold", ha="left", margin={"b": 3, "unit": "pt"}),
        plot_subtitle=p9.element_text(size=NOTE_PT + 0.5, color=NOTE, ha="left", linespacing=1.25),
        plot_caption=p9.element_text(
            size=NOTE_PT, color=NOTE, ha="left", linespacing=1.3, margin={"t": 6, "unit": "pt"}
        ),
        plot_title_position="plot",
        plot_caption_position="plot",
        plot_background=p9.element_rect(fill="white", color="white"),
        axis_title=p9.element_text(size=BASE_PT),
        axis_text=p9.element_text(size=BASE_PT - 1.5, color=INK),
        axis_ticks=none,
        panel_grid_major=p9.element_line(color=GRID, size=0.5),
        panel_grid_minor=none,
        axis_line_x=p9.element_line(color=NOTE, size=0.5),
        legend_position="top",
        legend_justification="left",
        legend_title=p9.element_text(size=BASE_PT - 1.5, color=INK),
        legend_text=p9.element_text(size=BASE_PT - 1.5),
        legend_key_width=26,
        legend_key_height=12,
        legend_box_spacing=0.01,
        legend_margin=0,
    )


def styles(count: int) -> tuple[list[str], list[str], list[Any]]:
    """Choose how series look.

    Args:
        count: how many series.

    Returns:
        Colours, marker shapes and line types, one of each for a series; no two series have all three in common.
    """
    return tuple(list(islice(cycle(kind), count)) for kind in (COLOURS, SHAPES, LINETYPES))  # type: ignore[return-value]


def render(plot: p9.ggplot, formats: Collection[str]) -> dict[str, bytes]:
    """Save a plot in several formats; equal plots give equal bytes.

    Args:
        plot: with a theme.
        formats: some of svg, pdf and png (200 dpi); others are left out.

    Returns:
        Format -> the file's content.
    """
    pictures = {}
    with mpl.rc_context(RC):
        figure = plot.draw()
        if layout := figure.get_layout_engine():
            layout.execute(figure)
            figure.set_layout_engine("none")
        for kind, metadata in METADATA.items():
            if kind in formats:
                buffer = BytesIO()
                figure.savefig(buffer, format=kind, dpi=PNG_DPI, metadata=metadata)
                pictures[kind] = buffer.getvalue()
    return pictures
