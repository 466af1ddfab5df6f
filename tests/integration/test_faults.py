"""Sweeps that are killed in the middle, damaged files, a full disk: what is lost, what is left, how it goes on."""

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator

import pandas
import pytest

from ddlbench.files import sha256_file
from ddlbench.measurements.store import Store
from tests.support.pipeline import Pipeline, new_pipeline
from tests.support.remains import alive, eventually, namespaces, processes, the
from tests.support.repository import environment
from tests.support.tiny_study import SLOW_STUDY

REPETITIONS = 4
WITHOUT_END = {"measure": {"min_repetitions": 1000, "max_repetitions": 1000}}
TO_AN_END = {"measure": {"min_repetitions": REPETITIONS, "max_repetitions": REPETITIONS}}
POINTS = 2
RUN = "tiny2000-bandwidth-torch-ring-2w"
LONG = pytest.mark.long


@pytest.fixture
def sweep(prepared: Pipeline) -> Iterator[Pipeline]:
    """A pipeline that is about to measure two points without end; whatever it started is ended afterwards."""
    prepared.configure(WITHOUT_END)
    yield prepared
    for process in processes(prepared.root):
        os.kill(process, signal.SIGKILL)


def in_the_middle(sweep: Pipeline) -> "subprocess.Popen[str]":
    """Start the sweep; it has kept three repetitions, and the worker group is busy with the next."""
    started = sweep.start(sweep.manifest("bandwidth"))
    assert eventually(lambda: len(sweep.measurements()) >= 3 or started.poll() is not None)
    assert started.poll() is None, sweep.said
    return started


@pytest.mark.parametrize(
    ("victim", "named"),
    [
        pytest.param("-m snakemake", None, id="driver"),  # nobody is left to say anything
        pytest.param("measure_run.py", [RUN], id="script", marks=LONG),
        pytest.param(
            "ddlbench-rank1", [RUN, "rank 1 on host h2 died (SIGKILL) while "], id="worker", marks=LONG
        ),
        pytest.param("ddlbench.network.delay", [RUN, "the delay process"], id="delay", marks=LONG),
        pytest.param(
            "ddlbench.telemetry.sampler", [RUN, "the telemetry's sampler"], id="sampler", marks=LONG
        ),
    ],
)
def test_a_killed_sweep_loses_only_the_repetition_in_flight(sweep, backends, victim, named):
    if victim == "ddlbench.network.delay" and backends[0] != "tbf+nfqueue":
        pytest.skip("this kernel delays packets itself")
    started = in_the_middle(sweep)
    held = namespaces(sweep.root)
    os.kill(the(sweep.root, victim), signal.SIGKILL)
    kept = sweep.measurements()
    assert started.wait(300) != 0

    assert eventually(lambda: not processes(sweep.root)), processes(sweep.root)
    assert {name.partition(":")[0] for name in held} >= {"net", "mnt", "pid"}
    assert eventually(lambda: not alive(held)), alive(held)

    assert "Traceback" not in sweep.said
    errors = [line for line in sweep.said.splitlines() if not line.startswith("point ")]
    for words in named or []:
        assert any(words in line for line in errors), sweep.said
    if named and len(named) > 1:  # somebody was left who knows what it was at
        assert any("mlp, digits, batch 32, 2 workers, " in line and "repetition " in line for line in errors)
        assert any("kept" in line for line in errors)

    after = sweep.measurements()
    assert kept.items() <= after.items()  # one more may have been written before the end came
    parts = {part["path"]: part["sha256"] for each in sweep.records() for part in each["telemetry"]["files"]}
    assert {path: sha256_file(sweep.root / path) for path in parts} == parts
    everything = pandas.read_parquet(sweep.root / "results/telemetry")
    assert len(parts) <= everything["point"].count() > 0
    sweep.configure(TO_AN_END)
    sweep.run(sweep.manifest("bandwidth"))
    finished = sweep.measurements()
    assert after.items() <= finished.items()
    of_points: dict[str, list[int]] = {}
    for record in sweep.records():
        of_points.setdefault(record["fingerprint"], []).append(record["repetition"])
    assert len(of_points) == POINTS
    for repetitions in of_points.values():  # none twice, none lost
        assert sorted(repetitions) == [*range(max(REPETITIONS, len(repetitions)))]


@pytest.mark.parametrize("reason", ["changed code", "fresh"])
@LONG
def test_a_figure_is_not_left_as_it_was_when_measuring_it_again_was_cut_short(drawn_copy, reason):
    before = drawn_copy.measurements()
    drawn_copy.configure(WITHOUT_END)
    if reason == "fresh":
        started = drawn_copy.start("tiny2000_fig1", "--config", "fresh=true")
    else:
        with open(drawn_copy.root / "src/ddlbench/network/shaping.py", "a") as file:
            file.write("CHANGED = True\n")
        started = drawn_copy.start("tiny2000_fig1")
    assert eventually(lambda: len(drawn_copy.measurements()) > len(before) or started.poll() is not None)
    assert started.poll() is None, drawn_copy.said
    os.kill(the(drawn_copy.root, "ddlbench-rank"), signal.SIGKILL)
    assert started.wait(300) != 0, drawn_copy.said

    drawn_copy.configure()
    drawn_copy.run("tiny2000_fig1")
    after = drawn_copy.measurements()
    assert before.items() <= after.items()
    assert len(after) >= 2 * len(before)
    manifest = (drawn_copy.root / drawn_copy.manifest("bandwidth")).read_text()
    assert {name for name in after if name in manifest} == after.keys() - before.keys()
    assert drawn_copy.ddlbench("verify").returncode == 0
    assert "Nothing to be done" in drawn_copy.run("tiny2000_fig1")


def test_a_damaged_measurement_is_named_set_aside_and_measured_again(drawn_copy):
    manifest = drawn_copy.root / drawn_copy.manifest("bandwidth")
    before = drawn_copy.measurements()
    name = min(before)
    damaged = before[name].replace(b'"repetition":0', b'"repetition":1')
    store = drawn_copy.root / "results/store"
    (store / name).write_bytes(damaged)
    manifest.unlink()

    said = drawn_copy.run(drawn_copy.manifest("bandwidth"))
    assert f"results/store/{name}: has changed" in said
    aside = list((store / "set-aside").iterdir())
    assert [file.read_bytes() for file in aside] == [damaged]
    assert str(aside[0].relative_to(drawn_copy.root)) in said
    after = drawn_copy.measurements()
    assert {other: before[other] for other in before if other != name}.items() <= after.items()
    assert len(after) == len(before)
    repetitions = [(record["fingerprint"], record["repetition"]) for record in drawn_copy.records()]
    assert len(set(repetitions)) == len(repetitions)  # no seed was used twice
    drawn_copy.run("tiny2000_fig1")
    assert drawn_copy.ddlbench("verify").returncode == 0


@LONG
def test_a_damaged_measurement_is_replaced_before_a_table_is_made_from_it(drawn_copy):
    name, content = min(drawn_copy.measurements().items())
    (drawn_copy.root / "results/store" / name).write_bytes(content[:-20])
    (drawn_copy.root / "results/tables/tiny2000_fig1.csv").unlink()
    said = drawn_copy.run("results/tables/tiny2000_fig1.csv")
    assert f"results/store/{name}: " in said
    assert "It is not used" in said
    assert name not in drawn_copy.measurements()
    drawn_copy.run("tiny2000_fig1")
    assert drawn_copy.ddlbench("verify").returncode == 0


@pytest.mark.parametrize("measured", [False, True], ids=["before measuring", "after measuring"])
@LONG
def test_a_damaged_data_set_is_named_set_aside_and_made_again(prepared, drawn_copy, measured):
    pipeline = drawn_copy if measured else prepared
    name = "results/datasets/digits-28x28x1.npz"
    dataset = pipeline.root / name
    good = dataset.read_bytes()
    damaged = good[:5000] + bytes([good[5000] ^ 1]) + good[5001:]
    dataset.write_bytes(damaged)
    before = pipeline.measurements()

    said = pipeline.run(pipeline.manifest("bandwidth"))
    assert f"{name}: has changed. It is not used" in said
    assert dataset.read_bytes() == good
    assert damaged in [file.read_bytes() for file in (pipeline.root / "results").rglob("*set-aside/*")]
    assert before.items() <= pipeline.measurements().items()
    if measured:
        assert pipeline.measurements() == before


@LONG
def test_a_disk_that_takes_no_more_files_is_told_clearly_and_leaves_a_whole_store(sweep):
    # A store on a file system that only this process sees, with room for the files of a few measurements.
    script = (
        "mkdir -p results/store; mount -t tmpfs -o size=32m,nr_inodes=12 tmpfs results/store;"
        ' "$@"; status=$?; cp -a results/store kept; exit $status'
    )
    command = sweep.command(sweep.manifest("bandwidth"))  # which never ends of itself
    answer = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script, "sh", *command],
        cwd=sweep.root,
        env=environment(sweep.root),
        capture_output=True,
        text=True,
    )
    assert answer.returncode == 1, answer.stderr
    assert "are kept in results/store. Make room; the same command goes on from there." in answer.stderr
    assert "Traceback" not in answer.stderr

    shutil.rmtree(sweep.root / "results/store")
    shutil.move(sweep.root / "kept", sweep.root / "results/store")
    kept = sweep.measurements()
    assert kept
    files = [file for file in (sweep.root / "results/store").rglob("*") if file.is_file()]
    assert len(files) == len(kept)  # nothing half written
    store = Store(sweep.root / "results/store")
    assert sum(len(store.measurements(record["fingerprint"])) for record in sweep.records()) >= len(kept)
    assert not (sweep.root / "results/store/set-aside").exists()

    sweep.configure(TO_AN_END)
    sweep.run(sweep.manifest("bandwidth"))
    assert kept.items() <= sweep.measurements().items()
    assert len(sweep.measurements()) >= POINTS * REPETITIONS


@LONG
def test_two_pipelines_at_the_same_time_both_finish(prepared, tmp_path):
    both = (prepared, new_pipeline(tmp_path / "other"))
    for repetitions in (10, 40, 160):  # more, where one has ended before the other has begun
        started = [measuring(pipeline, repetitions) for pipeline in both]
        eventually(
            lambda: all(map(is_at_work, both)) or any(each.poll() is not None for each in started)  # noqa: B023
        )
        side_by_side = [each.poll() for each in started] == [None, None]
        assert [each.wait(600) for each in started] == [0, 0], both[0].said + both[1].said
        assert [len(pipeline.measurements()) for pipeline in both] == [2 * repetitions] * 2
        if side_by_side:
            break
    assert side_by_side


@LONG
def test_a_measurement_of_another_checkout_is_refused_while_one_is_running_and_waits_if_that_is_asked_for(
    prepared, tmp_path
):
    other = new_pipeline(tmp_path / "other")
    other.configure({"other_measurements": "refuse"})
    other.run("results/datasets/digits-28x28x1.npz")
    for_long = {"min_repetitions": 400, "max_repetitions": 400}
    prepared.configure({"other_measurements": "wait", "measure": for_long}, SLOW_STUDY)
    first = prepared.start(prepared.manifest("bandwidth"))
    assert eventually(lambda: is_at_work(prepared) or first.poll() is not None)
    refused = other.attempt(other.manifest("bandwidth"))
    assert refused.returncode == 1
    assert "another measurement is running on this machine (process " in refused.stderr
    assert str(prepared.root) in refused.stderr
    assert other.measurements() == {}
    other.configure({"other_measurements": "wait"})
    second = other.start(other.manifest("bandwidth"))
    assert eventually(lambda: "waiting: another measurement" in other.said or second.poll() is not None)
    first.kill()  # with it ends the job that holds the lock
    first.wait(600)
    assert second.wait(600) == 0, other.said
    assert "waiting: another measurement" in other.said


def measuring(pipeline: Pipeline, repetitions: int) -> "subprocess.Popen[str]":
    """Start a sweep of two points with so many repetitions."""
    measure = {"min_repetitions": repetitions, "max_repetitions": repetitions}
    pipeline.configure({"measure": measure}, SLOW_STUDY)
    return pipeline.start(pipeline.manifest("bandwidth"), "--forcerun", "measure")


def is_at_work(pipeline: Pipeline) -> bool:
    """Whether its hosts are there, and it has measured something."""
    return bool(namespaces(pipeline.root) and pipeline.measurements())


@LONG
def test_a_second_start_in_the_same_folder_is_refused_while_the_first_is_at_work(sweep):
    started = in_the_middle(sweep)
    answer = sweep.attempt(sweep.manifest("bandwidth"))
    assert answer.returncode == 1
    assert "another call of Snakemake (process " in answer.stderr
    kept = len(sweep.measurements())
    assert eventually(lambda: len(sweep.measurements()) > kept or started.poll() is not None)
    assert started.poll() is None, sweep.said
