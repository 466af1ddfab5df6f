"""Shi 2019: a parameter server compared with a ring."""

from collections.abc import Callable
from typing import Any

import pandas as pd
import plotnine as p9

from ddlbench.figures.captions.paper import beside_the_paper
from ddlbench.figures.table import table_picture
from ddlbench.figures.words import escaped, listed, values_of
from ddlbench.plan.study import Figure

MIB = 1 << 20
MODELS = {
    "alexnet": "AlexNet",
    "vgg16": "VGG16",
    "vgg19": "VGG19",
    "resnet18": "ResNet18",
    "resnet50": "ResNet50",
    "resnet152": "ResNet152",
}
HEADINGS = ("model", "parameters", "here", "paper", "here", "paper")
GROUPS = {2.5: "size (MB)", 4.5: "billions of multiply-adds"}
NOTE = (
    "1 MB is 1,048,576 bytes, with which the paper's sizes agree. What it calls GFLOPs counts a multiplication and an "
    "addition together as one, and so do these numbers (PyTorch's counter counts two)."
)


def table3_1(table: pd.DataFrame, figure: Figure) -> p9.ggplot:
    """Draw table 3.1: size and multiply-adds of each model, counted here and in the paper.

    Args:
        table: the counts of models, a row for each.
        figure: from the study's file, with the published numbers.

    Returns:
        The picture of the table; its data are the rows of `counted`.
    """
    rows = counted(table, figure)
    heads: list[dict[str, Any]] = [
        *({"column": column, "line": -2, "at": -1.7, "text": text} for column, text in GROUPS.items()),
        *({"column": i, "line": -1, "at": -1.0, "text": text} for i, text in enumerate(HEADINGS)),
    ]
    cells = [{"bold": True, **head} for head in heads]
    for line, row in enumerate(rows.to_dict("records")):
        texts = (
            MODELS.get(row["model"], row["model"]),
            f"{row['parameters']:,}",
            f"{row['size_mb']:.1f}",
            f"{row['published_size_mb']:g}",
            f"{row['multiply_adds'] / 1e9:.2f}",
            f"{row['published_gflops']:g}",
        )
        cells += [
            {"column": i, "line": line, "at": line, "text": text, "bold": False}
            for i, text in enumerate(texts)
        ]
    return table_picture(
        rows,
        pd.DataFrame(cells).assign(note=""),
        [-0.5, len(rows) - 0.5],
        title=figure.title,
        note=NOTE,
        caption=how_counted(rows),
    )


def counted(table: pd.DataFrame, figure: Figure) -> pd.DataFrame:
    """Put the paper's numbers (Shi 2019, table 3.1) beside ours.

    Args:
        table: the counts of models, with model, parameters, bytes and multiply_adds.
        figure: from the study's file, with the published numbers; it decides which models are shown.

    Returns:
        One row for each model, in the figure's order: the table's counts, size_mb (MiB), published_size_mb and
        published_gflops.
    """
    rows = table.set_index("model").loc[list(figure.published)].reset_index()
    published = pd.DataFrame([dict(values) for values in figure.published.values()]).add_prefix("published_")
    return pd.concat([rows.assign(size_mb=rows["bytes"] / MIB), published], axis=1)


def how_counted(rows: pd.DataFrame) -> str:
    """Describe by which tool the models were counted, and for which images.

    Args:
        rows: from `counted`.

    Returns:
        One line of text.
    """
    return (
        f"counted by {listed(values_of(rows, 'counted_by'))}, not measured; one image of "
        f"{listed(values_of(rows, 'image_shape'))}, convolutions and matrix products only"
    )


def caption3_1(rows: pd.DataFrame, figure: Figure) -> str:
    """Write the report's caption of table 3.1.

    Args:
        rows: from `counted`.
        figure: from the study's file.

    Returns:
        reStructuredText.
    """
    text = f"{NOTE} The numbers here are {how_counted(rows)}."
    return (
        "\n".join([f"**{escaped(figure.title)}.** {escaped(text)}", *beside_the_paper(rows, figure)]) + "\n"
    )


FIGURES: dict[str, Callable[[pd.DataFrame, Figure], p9.ggplot]] = {"shi2019_table3_1": table3_1}
CAPTIONS: dict[str, Callable[[pd.DataFrame, Figure], str]] = {"shi2019_table3_1": caption3_1}
