"""Figures that compare runtimes: the verdict on the paper's claim, what differs besides, the table of networks."""

import pandas as pd
import pytest
from made_up_tables import figure

from ddlbench.figures import drawn_rows
from ddlbench.figures.captions.caption import how_measured
from ddlbench.figures.captions.software import unequal_software
from ddlbench.figures.runtimes import runtime_caption, runtime_table
from ddlbench.figures.wang2019 import verdict
from ddlbench.measurements import runtime_network

NETWORKS = figure("wang2019_fig3_network", "network", "one_way_us", kind="runtimes")


def epochs(docker: tuple, apptainer: tuple) -> pd.DataFrame:
    """Epoch times (value, low, high) of one worker in both runtimes."""
    columns = ["epoch_time_s", "epoch_time_s_low", "epoch_time_s_high"]
    shared = {"workers": 1, "devices": "gpu", "repetitions": 4, "bounds": "interval"}
    rows = [
        {**shared, "runtime": runtime, **dict(zip(columns, times, strict=True))}
        for runtime, times in (("docker", docker), ("apptainer", apptainer))
    ]
    return pd.DataFrame(rows)


@pytest.mark.parametrize(
    ("docker", "apptainer", "judged"),
    [
        ((110, 109, 111), (100, 99, 101), "agrees with the claim"),
        ((100, 99, 101), (100, 99, 101), "contradicts the claim: no difference is seen"),
        ((103, 102.5, 103.5), (100, 99.5, 100.5), "contradicts the claim."),
        ((105, 90, 120), (100, 90, 110), "cannot tell the claim from no difference"),
        ((130, 129, 131), (100, 99, 101), "contradicts the claim."),
    ],
)
def test_the_verdict_follows_from_the_measured_intervals(docker, apptainer, judged):
    assert judged in verdict(epochs(docker, apptainer))


def test_the_range_of_too_few_repetitions_judges_no_claim():
    rows = epochs((100, 99, 101), (100, 99, 101)).assign(repetitions=2, bounds=["interval", "range"])
    said = verdict(rows)
    assert "+0.0 % [-2.0, +2.0], from too few repetitions for a verdict." in said
    assert "contradicts" not in said


def test_the_verdict_gives_the_measured_difference_with_its_interval():
    said = verdict(epochs((110.0, 104.5, 115.5), (100.0, 95.0, 110.0)))
    assert "1 worker: +10.0 % [-5.0, +21.6]" in said


def test_what_cpus_do_is_no_verdict_on_a_claim_about_gpus():
    said = verdict(epochs((103, 102.5, 103.5), (100, 99.5, 100.5)).assign(devices="cpu"))
    assert "1 worker: +3.0 %" in said
    assert "contradicts" not in said
    assert "no verdict on the claim" in said


def test_replayed_compute_is_no_verdict_and_is_not_called_that_of_cpus():
    rows = epochs((103, 102.5, 103.5), (100, 99.5, 100.5)).assign(devices="cpu", replay="V100, fp32")
    said = verdict(rows)
    assert said.endswith("the same time in all runtimes: this is no verdict on the claim.")
    assert "CPU" not in said
    assert "contradicts" not in said


def test_there_is_no_verdict_on_what_was_not_measured():
    assert "not measured in both" in verdict(epochs((None, None, None), (100, 99, 101)))


def test_runtimes_with_other_software_are_told_apart():
    rows = pd.DataFrame(
        {
            "framework": ["torch"] * 3,
            "runtime": ["bare", "docker", "apptainer"],
            "python_version": ["3.11.7", "3.11.2", "3.11.2"],
            "packages_sha256": ["f00", "f00", "f00"],
        }
    )
    assert unequal_software(rows) == [
        "Interpreters differ (torch): 3.11.7 (bare), 3.11.2 (docker, apptainer)."
    ]
    assert unequal_software(rows.assign(python_version="3.11.2")) == []


def test_a_caption_says_which_engines_made_the_containers():
    rows = pd.DataFrame(
        {
            "point_id": ["a", "b", "c"],
            "framework": ["torch"] * 3,
            "runtime": ["bare", "docker", "apptainer"],
            "status": ["measured"] * 3,
            "fabric": ["emulated"] * 3,
            "dilation": [1.0] * 3,
            "repetitions": [2] * 3,
            "bounds": ["range"] * 3,
            "host": ["made-up CPU"] * 3,
            "container_engine": [None, "podman 4.3.1", "apptainer 1.4.5"],
        }
    )
    drawn = figure("tiny2000_fig1", "runtime", "step_time_ms")
    assert "Containers by podman 4.3.1, apptainer 1.4.5." in how_measured(rows, drawn)


def test_the_table_of_networks_has_what_was_measured_and_why_the_rest_is_missing():
    measured = {
        (runtime, network): {64: [1e-5, 1.1e-5], 1 << 20: [1e-3, 1.1e-3]}
        for runtime in ("bare", "docker")
        for network in ("host", "joined")
    }
    rows = runtime_network.rows(measured, {("docker", "bridge"): "there is no bridge"}, "made-up CPU")
    table = pd.DataFrame(rows, columns=runtime_network.COLUMNS)
    said = runtime_caption(drawn_rows(runtime_table(table, NETWORKS)), NETWORKS)
    assert "there is no bridge" in said
    assert "Median of 2 rounds" in said
    assert "below it the range of too few repetitions for an interval" in said
    assert "95 %" not in said
