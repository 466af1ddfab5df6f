"""What the rows of tables say of hosts: GPUs, dilation, memory, their shares of cores, and where they differ."""

import json

import pytest

from ddlbench.measurements.tables import aggregate
from tests.support.measurement_samples import (
    a_point,
    a_record,
    a_replay,
    manifest_of,
    row_of,
    times_of_repetitions,
)


def test_a_row_says_how_many_workers_were_on_a_gpu_and_nothing_of_gpus_where_there_were_none(tmp_path):
    with_gpus = a_record()
    with_gpus["provenance"]["gpus"] = {"of_workers": [], "workers_per_gpu": 2, "versions": {"nccl": "2.29.7"}}
    for record, count in ((a_record(), None), (with_gpus, 2)):
        folder = tmp_path / str(count)
        folder.mkdir()
        (row,) = aggregate([manifest_of(folder, record)]).to_dict("records")
        assert row["workers_per_gpu"] == count


def test_a_row_says_what_dilation_its_repetitions_had_least_and_most(tmp_path):
    records = [a_record(number, dilation=factor) for number, factor in enumerate((5.0, 8.0, 8.0), 1)]
    (row,) = aggregate([manifest_of(tmp_path, *records)]).to_dict("records")
    assert (row["dilation_least"], row["dilation"]) == (5.0, 8.0)


@pytest.mark.parametrize(("of_point", "memory_gb"), [({}, 61), ({"workers_per_host": 8}, 488)])
def test_a_row_says_what_memory_a_host_had_for_all_its_workers(tmp_path, of_point, memory_gb):
    record = a_record(1, a_point(**of_point), host_memory_bytes=61 * 2**30)
    (row,) = aggregate([manifest_of(tmp_path, record)]).to_dict("records")
    assert row["host_memory_gb"] == memory_gb


def test_a_row_says_how_long_a_thread_waited_beyond_what_its_host_explains(tmp_path):
    waits = [
        {"kept": [{"got_percent": None, "unexplained_percent": wait} for wait in (0.0, longest)]}
        for longest in (3.21, 1.0)
    ]
    records = [a_record(n, step_times_ms=[[10.0]], **of_hosts) for n, of_hosts in enumerate(waits, 1)]
    (row,) = aggregate([manifest_of(tmp_path, *records)]).to_dict("records")
    assert row["unexplained_wait_percent"] == 3.2


def test_a_row_says_the_least_and_the_most_that_a_host_got_of_its_share(tmp_path):
    kept = [{"got_percent": got, "unexplained_percent": 0.0} for got in (88.04, 115.0, None)]
    (row,) = aggregate([manifest_of(tmp_path, a_record(1, kept=kept))]).to_dict("records")
    assert (row["got_percent"], row["got_percent_most"]) == (88.0, 115.0)


@pytest.mark.parametrize(("kind", "compute_ms"), [("gpu", 16.0), ("cpu", None)])
def test_a_row_says_what_compute_took_that_was_replayed_by_waiting(tmp_path, kind, compute_ms):
    record = a_record(point=a_point(replay=a_replay(kind)), step_times_ms=[[20.0]])
    (row,) = aggregate([manifest_of(tmp_path, record)]).to_dict("records")
    assert row["replayed_compute_ms"] == compute_ms


WORST = {"percent": 9.0, "cases": 12, "machine": "AMD EPYC", "date": "2026-11-24", "commit": "0123456789"}


def test_a_row_says_how_far_emulated_times_may_be_off_and_by_what_that_was_judged(tmp_path):
    worst_cases = [
        WORST | {"of": "hosts", "divided_between": "sessions"},
        WORST | {"of": "vcpus", "on_a_core": 2},
    ]
    of_both = {"percent": 27.0, "worst_cases": worst_cases}
    older, newer, of_four = (
        row_of(tmp_path / name, times_of_repetitions(10.0, systematic_error=error, vcpu_speed=speed))
        for name, error, speed in (
            ("older", WORST, None),
            ("newer", of_both, {"vcpus": 2}),
            ("of four", of_both, {"vcpus": 4}),
        )
    )
    assert (older["systematic_error_percent"], newer["systematic_error_percent"]) == (9, 27)
    when = "2026-11-24, 0123456"
    assert older["systematic_error_judged"] == f"AMD EPYC: 12 cases, {when}"
    assert newer["systematic_error_judged"] == (
        f"AMD EPYC: 12 cases of hosts that share a core, divided between sessions, {when}; "
        f"12 cases of 2 vCPUs that are one core, {when}"
    )
    assert f"2 vCPUs that are one core, as 4 were not judged, {when}" in of_four["systematic_error_judged"]


def test_a_row_says_in_what_the_hosts_of_its_repetitions_differ(tmp_path):
    path = manifest_of(tmp_path, a_record())
    content = json.loads(path.read_text())
    for mixed, told in (({}, None), ({"cpu_model": ["A", "B"], "gpus": ["none", "H100"]}, "cpu_model, gpus")):
        content["differing_hosts"] = {content["points"][0]["id"]: mixed}
        path.write_text(json.dumps(content))
        (row,) = aggregate([path]).to_dict("records")
        assert row["hosts_differ_in"] == told
