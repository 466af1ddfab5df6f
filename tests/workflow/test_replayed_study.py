"""A study whose compute is replayed: from a device's profile to a figure that says so, or to what would do instead."""

import copy

import pytest
import yaml

from tests.support.tiny_study import TINY_STUDY

DEVICE = {
    "name": "A made-up device",
    "kind": "gpu",
    "precision": "fp32",
    "tflops": 1.0,
    "memory_gbytes_per_s": 100,
    "source": "made up for a test",
    "profiles": [
        {
            "model": "mlp",
            "image_shape": "28x28x1",
            "batch": 16,
            "images_per_second": 160,  # 100 ms a step
            "source": {
                "origin": "computed",
                "text": "made up for a test",
                "link": "https://example.org/",
                "date": "2026-11",
            },
        }
    ],
}
STEP_MS = 100.0


def replaying(pipeline, **settings) -> None:
    """Configure that one worker and two replay a device, over one link."""
    study = copy.deepcopy(TINY_STUDY)
    study["hosts"]["pair"]["device"] = "made-up"
    grid = study["grids"]["bandwidth"]
    del grid["batch_size"]
    grid |= {"compute": "replay", "dataset": "synthetic", "image_shape": "28x28x1"}
    grid |= {"workers": [1, 2], "batch_per_worker": 16, "bandwidth_mbit": [400]}
    study["figures"]["tiny2000_fig1"]["x"] = "workers"
    pipeline.configure(settings, study)
    devices = pipeline.root / "config/devices.yaml"
    devices.write_text(yaml.safe_dump(yaml.safe_load(devices.read_text()) | {"made-up": DEVICE}))


def test_one_worker_and_two_replay_a_device_and_the_figure_says_so(prepared):
    replaying(prepared, replay={"own_work_percent": 50})
    prepared.run("tiny2000_fig1")
    records = prepared.records()
    assert {record["point"]["workers"] for record in records} == {1, 2}
    for record in records:
        assert record["planned_dilation"] is None  # it was chosen by what moving the bytes costs here
        assert 0 < record["own_work_percent"] <= 50
        wall_ms = record["step_times_ms"][0][0]
        assert wall_ms >= 0.99 * STEP_MS * record["dilation"]
    caption = (prepared.root / "results/figures/tiny2000_fig1.caption.rst").read_text()
    assert "Compute is replayed: A made-up device, fp32 (computed)." in caption
    assert "vCPU" not in caption


@pytest.mark.long
def test_a_dilation_that_leaves_too_much_of_the_emulations_own_work_is_refused_with_one_that_would_do(
    prepared,
):
    replaying(prepared, dilation=4, replay={"own_work_percent": 0.001})
    refused = prepared.attempt("tiny2000_fig1")
    assert refused.returncode != 0
    assert "of this machine's cores, and replayed compute allows 0.001 %" in refused.stderr
    assert "It has a time dilation of 4, and" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert not prepared.records()
