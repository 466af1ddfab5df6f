"""vCPUs that are made of one core: which points have such, and at which number of images they are measured."""

import json
from datetime import UTC, datetime, timedelta
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from test_filled_hosts import point_of

from ddlbench.errors import DiskFull
from ddlbench.files import canonical_json
from ddlbench.measurements.record import seal
from ddlbench.network.hosts import Placement, place
from ddlbench.probes import thread_scaling
from ddlbench.probes.thread_scaling import Scaling, Scalings, ThreadTimes, needs_repetition
from ddlbench.runs import vcpus
from ddlbench.runs.vcpus import images_of_a_worker, kept, vcpus_of_a_core
from ddlbench.sweep.session_job import VcpuSpeed
from ddlbench.telemetry.other_load import OtherLoad

NOW = datetime.now(UTC)


def placed(cores: int) -> Placement:
    """Two hosts of four vCPUs on so many cores."""
    return place(
        2, vcpus=4, memory_gb=1, host_count=2, cores=list(range(cores)), available_memory_bytes=2**33
    )


def test_hosts_with_too_few_cores_have_vcpus_of_one_core_and_others_have_cores(tmp_path):
    point = point_of(tmp_path, workers=[2])
    assert vcpus_of_a_core(point, placed(2)) == 4
    assert vcpus_of_a_core(point, placed(8)) == 1


def test_each_of_several_workers_of_a_host_has_its_part_of_the_vcpus(tmp_path):
    point = point_of(tmp_path, workers=[4], workers_per_host=2, inside="pcie3-x16")
    assert vcpus_of_a_core(point, placed(2)) == 2


def on_a_machine_of_16_cores(tmp_path, monkeypatch, answer):
    """An inventory and a group there, where `answer` is what comes of measuring threads."""
    monkeypatch.setattr(vcpus, "_cores", lambda: list(range(16)))
    monkeypatch.setattr(vcpus, "_of_one_worker", lambda _group, threads, _point: threads)
    monkeypatch.setattr(vcpus, "answer_of", answer)
    inventory = SimpleNamespace(
        store=SimpleNamespace(root=tmp_path / "store"),
        environments={"bare": SimpleNamespace(sha256="e" * 64)},
        measure=SimpleNamespace(step_budget_s=1, max_steps=9, interval_percent=5, seed=1),
        facts={"cpu_model": "made up", "cores": 16},
        plan=SimpleNamespace(settings=SimpleNamespace(other_measurements="ignore")),
    )
    hosts = [SimpleNamespace(threads=1)]
    return inventory, SimpleNamespace(
        placement=SimpleNamespace(hosts=hosts), worker="torch", environments={"bare": None}
    )


def test_a_full_disk_ends_the_run_and_is_not_taken_for_threads_of_unknown_speed(tmp_path, monkeypatch):
    def answer(_module, _job, _kind, what):
        raise DiskFull(f"{what}: the disk is full")

    inventory, group = on_a_machine_of_16_cores(tmp_path, monkeypatch, answer)
    with pytest.raises(DiskFull):
        vcpus.vcpu_speeds(inventory, group, {"point": point_of(tmp_path, {"vcpus": 2}, workers=[2])})


def test_how_fast_threads_are_does_not_depend_on_the_hosts_that_are_measured_at_the_same_time(
    tmp_path, monkeypatch
):
    def answer(_module, job, _kind, what):
        asked.append(job.groups)
        times = [ThreadTimes(threads, [8.0 / threads, 8.1 / threads]) for threads in job.groups]
        return Scalings([Scaling(times)] * len(job.points))

    asked = []
    inventory, group = on_a_machine_of_16_cores(tmp_path, monkeypatch, answer)
    points = {count: point_of(tmp_path / str(count), {"vcpus": count}, workers=[2]) for count in (2, 6, 8)}
    found = vcpus.vcpu_speeds(inventory, group, points)
    assert asked == [[1, 2, 4, 6, 8]]
    assert {count: list(each.threads) for count, each in found.items()} == {
        2: [1, 2],
        6: [1, 2, 4, 6],
        8: [1, 2, 4, 8],
    }


def test_a_host_of_one_vcpu_has_one(tmp_path):
    assert vcpus_of_a_core(point_of(tmp_path, {"vcpus": 1}, workers=[2]), placed(2)) == 1


@pytest.mark.parametrize(
    ("batch_size", "images"), [(2, 2), (64, 32), (192, 128), (100, 64), (640, 256), (128_000, 1024)]
)
def test_a_worker_of_two_has_the_nearest_power_of_two_of_half_the_images(tmp_path, batch_size, images):
    assert images_of_a_worker(point_of(tmp_path, workers=[2], batch_size=[batch_size])) == images


@pytest.fixture
def note(tmp_path):
    content = seal({"step_ms": {"1": [2.0, 2.1], "2": [1.2, 1.3]}, "date": NOW.isoformat()})
    (tmp_path / "note.json").write_text(canonical_json(content))
    return tmp_path / "note.json"


def test_what_was_measured_counts_until_all_is_measured_afresh(note):
    assert kept(note, None)["step_ms"] == {"1": [2.0, 2.1], "2": [1.2, 1.3]}
    assert kept(note, NOW) == kept(note, None)
    assert kept(note, NOW + timedelta(seconds=1)) is None


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"date": 1}', "changed"])
def test_a_damaged_note_is_named_and_does_not_count(note, damage, capsys):
    changed = json.dumps({**json.loads(note.read_text()), "step_ms": {"1": [2.0, 2.0], "2": [1.0, 1.0]}})
    note.write_text(changed if damage == "changed" else damage)
    assert kept(note, None) is None
    assert f"{note}: damaged" in capsys.readouterr().err


def test_nothing_is_known_of_what_was_not_measured(tmp_path, capsys):
    assert kept(tmp_path / "none.json", None) is None
    assert not capsys.readouterr().err


def test_time_is_dilated_by_as_much_less_as_threads_are_slower_than_so_many_cores():
    assert VcpuSpeed(vcpus=4, speedup=2.5).dilation(8.0) == 5.0
    assert VcpuSpeed(vcpus=4, why_not="this machine has one core").dilation(8.0) == 8.0


def test_threads_are_timed_until_their_speed_up_is_known_well_enough_and_twenty_times_at_most():
    steady, doubtful = [2.0, 2.02, 1.98, 2.01], [1.2, 2.2, 1.2, 1.2]
    assert needs_repetition({1: [], 2: []}, 4, 10)
    assert needs_repetition({1: steady, 2: steady}, 4, 10)
    assert not needs_repetition({1: [*steady, 2.0], 2: [*steady, 1.99]}, 4, 10)
    assert needs_repetition({1: [*steady, 2.0], 2: [*doubtful, 1.2]}, 4, 10)
    assert not needs_repetition({1: 5 * steady, 2: 5 * doubtful}, 4, 1)


def test_nobody_is_waited_for_after_the_last_try(monkeypatch):
    busy = OtherLoad(lasted_s=1.0, cores=2, others_percent=90.0, steal_percent=0.0)
    waits: list[float] = []
    monkeypatch.setattr(thread_scaling, "LoadWatch", lambda: SimpleNamespace(since_start=lambda: busy))
    monkeypatch.setattr(thread_scaling, "wait_for_others", lambda *asked: waits.append(1))
    group: Any = SimpleNamespace(
        prepare=lambda *_: [SimpleNamespace(fits=True)],
        train=lambda steps: [SimpleNamespace(step_times_ms=[[1.0] * steps])],
    )
    job: Any = SimpleNamespace(
        seed=1, most_steps=1, repetition_s=1, interval_percent=100, most_others_percent=25
    )
    point: Any = SimpleNamespace(batch_size=1)
    found = thread_scaling._scaling({1: group, 2: group}, point, 2, job, Random(1))
    assert found.why_not == f"{busy} in each of 3 tries"
    assert len(waits) == 2
