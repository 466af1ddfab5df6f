"""Made-up tables as in results/tables, for tests of figures. NOT measurements: a formula makes the numbers."""

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import pandas as pd

from ddlbench.measurements.metrics import METRICS
from ddlbench.plan.study import Figure

COMPUTE_MS = {"mlp": 0.02, "conv1": 0.2, "conv2": 0.12, "cnn": 0.15}  # of an image
WEIGHTS_MB = {"mlp": 0.4, "conv1": 2.6, "conv2": 0.25, "cnn": 1.7}


def figure(name: str, x: str, y: str, lines: str | None = None, **more: Any) -> Figure:
    """A figure as a study's file declares it."""
    usual = {
        "kind": "line", "grids": ("made_up",), "title": "A title", "columns": (), "where": {}, "x_scale": "linear",
        "y_scale": "linear", "category": "Made up", "caption": "The paper shows something.", "per_epoch": False,
    }  # fmt: skip
    return Figure(name=name, study=name.split("_")[0], x=x, y=y, lines=lines, **{**usual, **more})


def made_up_table(
    axes: Mapping[str, Sequence[Any]],
    *,
    epochs: int = 0,
    per_epoch: bool = False,
    fits_gb: float = 1e9,
    **same: Any,
) -> pd.DataFrame:
    """All combinations of `axes` as a table; a worker's batch above `fits_gb` (0.1 MB an image) does not fit."""
    rows = []
    for number, values in enumerate(product(*axes.values())):
        point = {**POINT, **same, **dict(zip(axes, values, strict=True)), "epochs": epochs}
        if point["workers"] == 1:
            point |= dict.fromkeys(("bandwidth_mbit", "latency_ms", "loss_percent"))
        point_id = "-".join(str(value) for value in point.values())
        fits = point["batch_size"] / point["workers"] * 1e-4 <= fits_gb
        for epoch in range(1, epochs + 1) if per_epoch else [1]:
            facts = {"point_id": point_id, **({"epoch": epoch} if per_epoch else {})}
            rows.append({**POINT_FACTS, **point, **facts, **_measured(point, fits, number, epoch)})
    return pd.DataFrame(rows).drop_duplicates(["point_id", *(["epoch"] if per_epoch else [])])


POINT: dict[str, Any] = {
    "framework": "torch", "strategy": "ring_allreduce", "runtime": "bare", "devices": "cpu", "fabric": "emulated",
    "model": "mlp", "dataset": "digits", "batch_size": 128, "workers": 2, "vcpus": 1, "memory_gb": 4.0,
    "bandwidth_mbit": 1000.0, "latency_ms": 0.0, "loss_percent": 0.0, "congestion_control": "cubic",
    "learning_rate": 0.01, "momentum": 0.0, "epochs": 0, "steps_per_epoch": None, "image_shape": "28x28x1", "seed": 1,
}  # fmt: skip
POINT_FACTS: dict[str, Any] = {
    "study": "made_up",
    "grid": "made_up",
    "diverged": 0,
    "backend": "tbf+nfqueue",
    "host": "made-up CPU, 2 cores",
    "epoch_images": 60000,
    "epoch_steps": None,
    "reported_epochs": 10,
}


def _measured(point: Mapping[str, Any], fits: bool, number: int, epoch: int) -> dict[str, Any]:
    """Status, statistics and metrics of a point, from a formula."""
    k = max(1.0, point["workers"] * point["vcpus"] / 2)
    facts: dict[str, Any] = {
        "dilation": k,
        "resolved": number % 7 != 3,
        "repetitions": 3 + number % 3,
        "steps": 20,
        "launches": 3 + number % 3,
        "bounds": "range" if number % 3 == 0 else "interval",
    }
    empty = {f"{metric}{end}": None for metric in METRICS for end in ("", "_low", "_high")}
    if not fits:
        reason = f"a batch of {point['batch_size']} images does not fit in {point['memory_gb']:g} GB"
        return {**facts, **empty, "status": "does_not_fit", "reason": reason, "repetitions": 0, "steps": 0}
    n = point["workers"]
    network = 0.0
    if n > 1:
        moved = 8e3 * WEIGHTS_MB[point["model"]] * 2 * (n - 1) / n
        network = (
            moved / point["bandwidth_mbit"] * (1 + 1.6 * point["loss_percent"])
            + 4 * (n - 1) * point["latency_ms"]
        )
    step = 1.5 + COMPUTE_MS[point["model"]] * point["batch_size"] / n + network
    steps = 60000 / point["batch_size"]
    wiggle = 1 + 0.01 * ((number * 37 + epoch * 11) % 7 - 3)
    values = dict.fromkeys(METRICS, 0.0) | {
        "step_time_ms": step * wiggle,
        "images_per_second": point["batch_size"] / step * 1e3,
        "epoch_time_s": step * steps / 1e3 * wiggle,
        "training_time_s": 10 * step * steps / 1e3 * wiggle,
        "test_loss": 0.04 * point["batch_size"] ** 0.45 * wiggle,
        "test_accuracy_percent": {"mlp": 97.0}.get(point["model"], 98.8)
        - 0.001 * point["batch_size"]
        + wiggle,
    }
    spread = {"test_accuracy_percent": 0.002}
    for metric, value in values.items():
        width = spread.get(metric, 0.04 + 0.02 * (number % 3))
        facts |= {
            metric: value,
            f"{metric}_low": value * (1 - width),
            f"{metric}_high": value * (1 + 1.4 * width),
        }
    return {**facts, "status": "measured", "reason": None}


def batch_figure(**more):
    """A figure of times by batch size, with a line for each number of workers."""
    return figure("made_fig1", "batch_size", "epoch_time_s", "workers", **more)
