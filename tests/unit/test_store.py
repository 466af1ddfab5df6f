"""The store: append-only, atomic, shared by pipelines, and nothing damaged is used."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ddlbench.files import create_once
from ddlbench.measurements.record import parse, seal
from ddlbench.measurements.store import Store
from tests.support.measurement_samples import MEASURE, POINT, a_fingerprint, a_point, a_record

WRITER = """
import sys
sys.path.insert(0, {tests!r})
from ddlbench.measurements.store import Store
from tests.support.measurement_samples import a_record
store = Store({root!r})
for number in range({first}, {last}):
    print(store.add(a_record(number)), flush=True)
"""


def writer(root, first=1, last=10**9):
    return WRITER.format(tests=str(Path(__file__).parent), root=str(root), first=first, last=last)


def test_what_is_added_is_found_by_its_fingerprint(tmp_path):
    path = Store(tmp_path).add(a_record())
    fingerprint = a_fingerprint(POINT)
    assert path.relative_to(tmp_path) == Path(fingerprint[:2], fingerprint, "1-20260102T030405.000006Z.json")
    assert Store(tmp_path).measurements(fingerprint) == [(path, seal(a_record()))]
    assert Store(tmp_path).measurements(a_fingerprint(a_point(batch_size=64))) == []


def test_measurements_come_by_repetition_then_by_start(tmp_path):
    times = [datetime(2026, 1, 1, hour, tzinfo=UTC).isoformat() for hour in (3, 2, 1)]
    for repetition, started in [(10, times[0]), (2, times[0]), (2, times[1]), (1, times[2])]:
        Store(tmp_path).add(a_record(repetition, started=started))
    found = [(r["repetition"], r["started"]) for _, r in Store(tmp_path).measurements(a_fingerprint(POINT))]
    assert found == [(1, times[2]), (2, times[1]), (2, times[0]), (10, times[0])]


def test_a_fresh_sweep_does_not_see_what_was_measured_before_it(tmp_path):
    now = datetime.now(UTC)
    store, fingerprint = Store(tmp_path), a_fingerprint(POINT)
    old = store.add(a_record(1, started=(now - timedelta(seconds=1)).isoformat()))
    store.start_afresh(fingerprint, now)
    new = store.add(a_record(1, started=(now + timedelta(seconds=1)).isoformat()))
    assert [path for path, _ in Store(tmp_path).measurements(fingerprint)] == [new]
    assert old.exists()


def test_a_fresh_start_is_not_undone_by_an_older_one(tmp_path):
    now = datetime.now(UTC)
    store, fingerprint = Store(tmp_path), a_fingerprint(POINT)
    store.add(a_record(1, started=(now - timedelta(seconds=1)).isoformat()))
    store.start_afresh(fingerprint, now)
    store.start_afresh(fingerprint, now - timedelta(seconds=2))
    assert store.measurements(fingerprint) == []


def test_nothing_is_overwritten(tmp_path):
    paths = {Store(tmp_path).add(a_record(metrics={"train_loss": loss})) for loss in (0.1, 0.2, 0.2)}
    assert len(paths) == 3
    assert len(Store(tmp_path).measurements(a_fingerprint(POINT))) == 3


def test_a_damaged_measurement_is_named_set_aside_and_not_used(tmp_path, capsys):
    store = Store(tmp_path)
    good, bad = store.add(a_record(1)), store.add(a_record(2))
    bad.write_bytes(bad.read_bytes().replace(b"20.0", b"21.0"))
    assert [path for path, _ in store.measurements(a_fingerprint(POINT))] == [good]
    warning = capsys.readouterr().err
    (aside,) = (tmp_path / "set-aside").iterdir()
    assert str(bad) in warning
    assert str(aside) in warning
    assert b"21.0" in aside.read_bytes()
    assert not bad.exists()
    store.measurements(a_fingerprint(POINT))
    assert capsys.readouterr().err == ""


def test_a_measurement_in_the_folder_of_another_fingerprint_is_not_used(tmp_path, capsys):
    path = Store(tmp_path).add(a_record())
    other = Store(tmp_path).add(a_record(point=a_point(seed=2)))
    path.rename(other.parent / "7-elsewhere.json")
    assert [found for found, _ in Store(tmp_path).measurements(a_fingerprint(a_point(seed=2)))] == [other]
    assert "it belongs to the fingerprint" in capsys.readouterr().err


def test_a_killed_writer_leaves_only_whole_files(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", writer(tmp_path)], stdout=subprocess.PIPE, text=True)
    reported = [process.stdout.readline().strip() for _ in range(60)]
    process.send_signal(signal.SIGKILL)
    process.communicate()
    files = list(tmp_path.rglob("*.json"))
    assert len(files) >= 60
    assert {parse(file.read_bytes(), file)["repetition"] for file in files} >= set(range(1, 61))
    assert len(Store(tmp_path).measurements(a_fingerprint(POINT))) == len(files)
    assert all(Path(path).exists() for path in reported)


def test_two_pipelines_write_the_same_store_without_losing_anything(tmp_path):
    command = [sys.executable, "-c", writer(tmp_path, 1, 41)]
    pipelines = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    names = [name for pipeline in pipelines for name in pipeline.communicate()[0].split()]
    assert [pipeline.returncode for pipeline in pipelines] == [0, 0]
    assert len(set(names)) == 80
    assert len(Store(tmp_path).measurements(a_fingerprint(POINT))) == 80


def test_a_full_disk_is_a_clear_error_and_the_store_stays_whole(tmp_path):
    can = subprocess.run(
        ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", str(tmp_path)], capture_output=True
    )
    if can.returncode:
        pytest.skip("this machine lets nobody mount a file system of their own")
    script = f"""
try:
    exec({writer(tmp_path)!r})
except Exception as error:
    print(type(error).__name__, error)
from ddlbench.measurements.record import parse
from pathlib import Path
files = [path for path in Path({str(tmp_path)!r}).rglob("*") if path.is_file()]
print("whole", len([parse(path.read_bytes(), path) for path in files]))
"""
    shell = 'mount -t tmpfs -o size=128k tmpfs "$1" && exec "$2" -c "$3"'
    command = ["unshare", "-rm", "sh", "-c", shell, "sh", str(tmp_path), sys.executable, script]
    answer = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    written = len(answer) - 2
    assert written > 5
    assert answer[-2].startswith("DiskFull ")
    assert "the disk is full" in answer[-2]
    assert answer[-1] == f"whole {written}"


def test_who_looks_for_a_fingerprint_opens_its_folder_alone_however_many_others_there_are(tmp_path):
    Store(tmp_path).add(a_record())
    Store(tmp_path).add(a_record(point=a_point(batch_size=64)))
    fingerprint = a_fingerprint(POINT)
    script = f"""
import sys
from ddlbench.measurements.store import Store
store, opened = Store({str(tmp_path)!r}), []
openings = {{"open", "os.listdir", "os.scandir"}}
sys.addaudithook(lambda event, given: opened.append(given[0]) if event in openings else None)
found = store.measurements({fingerprint!r})
openings.clear()
print(len(found), *(each for each in opened if str(each).startswith({str(tmp_path)!r})), sep="\\n")
"""
    count, *opened = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert count == "1"
    assert opened
    assert all(Path(each).is_relative_to(tmp_path / fingerprint[:2] / fingerprint) for each in opened)


@pytest.mark.parametrize(
    "change",
    [
        {"dilation": 2.0},
        {"environment_sha256": "0" * 64},
        {"code_sha256": "0" * 64},
        {"dataset_sha256": "0" * 64},
        {"machine": {"cpu_model": "another", "cores": 2}},
        {"measure": {**MEASURE, "max_steps": 51}},
        {"gpus": ["NVIDIA A100, 1 on it"]},
    ],
)
def test_the_fingerprint_changes_with_everything_that_determines_a_measurement(change):
    assert a_fingerprint(POINT, **change) != a_fingerprint(POINT)


def test_the_fingerprint_does_not_change_with_how_often_to_repeat_or_how_a_number_is_written():
    assert a_fingerprint(POINT, measure={**MEASURE, "max_repetitions": 99}) == a_fingerprint(POINT)
    assert a_fingerprint(a_point(bandwidth_mbit=400, memory_gb=4), dilation=1) == a_fingerprint(POINT)


def test_a_file_that_was_linked_counts_as_created_though_the_answer_was_lost_on_the_way(
    tmp_path, monkeypatch
):
    link = os.link

    def lost(*names):
        link(*names)
        raise FileExistsError

    monkeypatch.setattr(os, "link", lost)
    assert create_once(tmp_path / "new", "one")
    monkeypatch.undo()
    assert not create_once(tmp_path / "new", "two")
    assert (tmp_path / "new").read_text() == "one"
