"""Records, manifests and a small repository of results, as a sweep leaves them."""

import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

from ddlbench.code.purposes import code_for
from ddlbench.measurements import fingerprint, provenance, store, tables

STARTED = "2026-01-02T03:04:05.000006+00:00"
MEASURE = {
    "warmup_steps": 1,
    "min_steps": 1,
    "max_steps": 50,
    "step_budget_s": 0.3,
    "min_repetitions": 3,
    "max_repetitions": 6,
    "interval_percent": 10,
    "lossy_interval_percent": 35,
    "point_budget_s": 5,
    "relaunch": True,
    "trainings": 3,
}
POINT = {
    "framework": "torch",
    "strategy": "ring_allreduce",
    "runtime": "bare",
    "devices": "cpu",
    "fabric": "emulated",
    "model": "mlp",
    "dataset": "digits",
    "image_shape": [28, 28, 1],
    "batch_size": 128,
    "workers": 2,
    "vcpus": 1,
    "memory_gb": 4.0,
    "bandwidth_mbit": 400.0,
    "latency_ms": 0.0,
    "loss_percent": 0.0,
    "congestion_control": "cubic",
    "learning_rate": 0.01,
    "momentum": 0.0,
    "epochs": 0,
    "steps_per_epoch": None,
    "seed": 1,
}
FACTS = {
    "hostname": "node1",
    "cpu_model": "Intel(R) Xeon(R) Silver 4214 CPU @ 2.20GHz",
    "cores": 2,
    "memory_gb": 8.2,
}


def a_point(**values: Any) -> dict[str, Any]:
    return {**POINT, **values}


def a_fingerprint(point: dict[str, Any], **values: Any) -> str:
    sources = {"environment_sha256": "e" * 64, "code_sha256": "c" * 64, "dataset_sha256": "d" * 64}
    conditions = {"measure": MEASURE, "dilation": 1.0, "machine": FACTS}
    return fingerprint.fingerprint(point, **{**conditions, **sources, **values})


def a_record(repetition: int = 1, point: dict[str, Any] = POINT, **values: Any) -> dict[str, Any]:
    """Two ranks, two steps; the slower rank took 10 and 20 ms."""
    return {
        "schema": 1,
        "fingerprint": a_fingerprint(point),
        "point": point,
        "repetition": repetition,
        "status": "measured",
        "reason": None,
        "run": "zhao2016-standalone_bandwidth-torch-ring-2w-123abc",
        "started": STARTED,
        "ended": "2026-01-02T03:04:06+00:00",
        "dilation": 1.0,
        "threads": 1,
        "slice_ms": 1.4,
        "warmup_steps": 1,
        "step_times_ms": [[8.0, 15.0], [10.0, 20.0]],
        "metrics": {"train_loss": 0.5, "test_loss": 0.6, "test_accuracy_percent": 91.5, "forward_ms": 2.0},
        "parameter_count": 10,
        "parameters_sha256": ["f" * 64] * 2,
        "parameters_identical": True,
        "link": {
            "asked": {"bandwidth_mbit": 400.0, "latency_ms": 0.0, "loss_percent": 0.0},
            "measured": {"rate_mbit": 381.5, "rtt_ms": 0.1, "loss_percent": 0.0},
            "rechecked": None,
            "backend": "netem",
            "congestion_control": "cubic",
        },
        "provenance": {
            "dataset": {"name": "digits", "sha256": "d" * 64},
            "environment": {
                "name": "torch",
                "sha256": "e" * 64,
                "packages": {"torch": "2.5.1", "numpy": "2.1.0"},
            },
            "code": {"version": "0.1.0", "commit": "a" * 40, "dirty": False, "sha256": "c" * 64},
            "hosts": [FACTS],
            "fabric": "emulated",
        },
        **values,
    }


def an_entry(point: dict[str, Any], measurements: list[str], **values: Any) -> dict[str, Any]:
    name = f"torch-ring-{point['model']}-{point['dataset']}-b{point['batch_size']}"
    return {
        "id": name,
        "point": point,
        "fingerprint": a_fingerprint(point),
        "status": "measured",
        "reason": None,
        "measurements": measurements,
        **values,
    }


def write_manifest(path: Path, entries: list[dict[str, Any]], **report: Any) -> Path:
    manifest = {
        "run": path.stem,
        "study": "zhao2016",
        "grid": "standalone_bandwidth",
        "points": entries,
        "report": {"epoch_images": 60000, "epochs": 10, **report},
        "host": "Intel Xeon Silver 4214, 2 cores, 8 GB",
        "measure": MEASURE,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(manifest))
    return path


def a_repository(root: Path) -> Path:
    """Two points, three repetitions each, their manifest, table and figure with sidecars; the figure."""
    (root / "Snakefile").write_text("")
    measurements = store.Store(root / "results/store")
    entries, files = [], []
    for model in ("mlp", "conv2"):
        paths = [measurements.add(a_record(number, a_point(model=model))) for number in (1, 2, 3)]
        entries.append(an_entry(a_point(model=model), [str(path.relative_to(root)) for path in paths]))
        files += paths
    gap = an_entry(a_point(devices="gpu"), [], status="not_available", reason="no GPU here")
    manifest = write_manifest(root / "results/runs/zhao2016/run1.json", [*entries, gap])
    provenance.write_sidecar(manifest, made_by="train", inputs={"measurement": files}, started=STARTED)
    table = root / "results/tables/zhao2016_fig5.csv"
    tables.write_table(tables.aggregate([manifest]), table)
    provenance.write_sidecar(table, made_by="aggregate", inputs={"manifest": manifest}, started=STARTED)
    figure = root / "results/figures/zhao2016_fig5.svg"
    figure.parent.mkdir(parents=True)
    others = [figure.with_suffix(suffix) for suffix in (".pdf", ".png", ".csv")]
    for file in (figure, *others):
        file.write_text(table.read_text())
    provenance.write_sidecar(
        figure,
        made_by="zhao2016_fig5",
        inputs={"table": table},
        code=code_for("figures zhao2016"),
        parameters={"figure": "zhao2016_fig5"},
        outputs=others,
        started=STARTED,
    )
    return figure


def manifest_of(root: Path, *records: dict[str, Any], **report: Any) -> Path:
    """Store records of one point below `root`, and write the manifest that lists them."""
    (root / "Snakefile").touch()
    paths = [str(store.Store(root / "results/store").add(record).relative_to(root)) for record in records]
    return write_manifest(
        root / "results/runs/zhao2016/r.json", [an_entry(records[0]["point"], paths)], **report
    )


def a_replay(kind: str) -> dict[str, Any]:
    """The profile of a replayed device; compute waits (gpu) or burns a processor (cpu)."""
    of_origin = {
        "name": "K80",
        "device": "k80",
        "precision": "fp32",
        "origin": "computed",
        "source": "a paper",
    }
    return {**of_origin, "kind": kind, "forward_ms": 5.0, "backward_ms": [4.0, 6.0], "optimizer_ms": 1.0}


def times_of_repetitions(*times_ms: float, **values: Any) -> list[dict[str, Any]]:
    """A record a repetition, each of one step and of a launch of its own."""
    return [
        a_record(number, step_times_ms=[[time]], launch=str(number), **values)
        for number, time in enumerate(times_ms)
    ]


def row_of(folder: Path, records: list[dict[str, Any]], measure: Any = MEASURE) -> dict[Hashable, Any]:
    """The row of one point in a table of its own folder."""
    folder.mkdir()
    (row,) = tables.aggregate([manifest_of(folder, *records)], measure).to_dict("records")
    return row
