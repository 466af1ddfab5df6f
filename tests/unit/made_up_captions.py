"""The captions of made-up tables, for tests of what captions tell."""

from made_up_tables import figure, made_up_table

from ddlbench.figures.captions.caption import caption, how_measured
from ddlbench.figures.rows import points

BY_BATCH = figure("made_fig1", "batch_size", "epoch_time_s", "workers")


def said(y: str = "training_time_s", *, deviations=(), **same) -> tuple[str, str]:
    """The sentences in the picture, and the report's caption, of a figure by batch size."""
    epochs = same.pop("epochs", 0)
    shown = figure("made_fig1", "batch_size", y, lines="workers", deviations=deviations)
    axes = {"batch_size": same.pop("batch_size", [64, 128]), "workers": [1, 2, 4]}
    rows = points(made_up_table(axes, epochs=epochs, **same), shown)
    return " ".join(how_measured(rows, shown)), caption(rows, shown)
