"""Everything below the results is checked against its provenance, and nothing that differs is believed."""

import errno
import json
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml

from ddlbench.cli.main import main
from ddlbench.errors import DdlbenchError
from ddlbench.measurements.mismatches import mismatches_of
from ddlbench.measurements.provenance import sidecar_path, write_sidecar
from ddlbench.measurements.record import seal
from ddlbench.measurements.store import Store
from ddlbench.measurements.trace_tree import trace
from ddlbench.measurements.whole_results import check_all, check_files
from ddlbench.runs.mending import require_sound, set_aside_damage
from tests.support.measurement_samples import (
    MEASURE,
    STARTED,
    a_fingerprint,
    a_point,
    a_record,
    a_repository,
)
from tests.support.small_study import small_repository

TABLE = "results/tables/zhao2016_fig5.csv"
MANIFEST = "results/runs/zhao2016/run1.json"


@pytest.fixture
def root(tmp_path, monkeypatch):
    a_repository(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def damaged(root):
    return [mismatch.path for mismatch in check_all(root / "results").damage]


def records(root):
    return sorted((root / "results/store").rglob("*.json"))


def forge(file, **values):
    """Rewrite a record as one whose checksum is right."""
    file.write_text(json.dumps(seal({**json.loads(file.read_text()), **values})))


def test_what_nobody_touched_is_in_order(root):
    found = check_all(root / "results")
    assert found.damage == []
    assert len(found.results) == 3


@pytest.mark.parametrize(
    "name", ["figures/zhao2016_fig5.svg", "figures/zhao2016_fig5.pdf", "tables/zhao2016_fig5.csv"]
)
@pytest.mark.parametrize("how", ["delete", "link", "fifo", "folder"])
def test_what_is_no_file_of_its_own_any_more_is_named(root, name, how):
    victim = root / "results" / name
    kept = root / "kept"
    shutil.move(victim, kept)
    if how == "link":
        victim.symlink_to(kept)
    elif how == "fifo":
        os.mkfifo(victim)
    elif how == "folder":
        victim.mkdir()
    assert f"results/{name}" in damaged(root)


def test_a_sidecar_that_lies_beside_another_file_does_not_vouch_for_it(root):
    (root / "results/tables/other.csv").write_bytes((root / TABLE).read_bytes())
    shutil.copy(root / f"{TABLE}.prov.json", root / "results/tables/other.csv.prov.json")
    assert damaged(root) == ["results/tables/other.csv.prov.json"]


def test_a_file_that_nothing_vouches_for_is_named(root):
    (root / "results/figures/mine.svg").write_text("<svg/>")
    assert damaged(root) == ["results/figures/mine.svg"]


def test_a_result_that_lost_its_sidecar_is_named_though_other_results_were_made_from_it(root):
    for name in (TABLE, MANIFEST):
        (root / f"{name}.prov.json").unlink()
    assert damaged(root) == [MANIFEST, TABLE]


def test_a_record_resealed_as_another_points_is_not_used(root, capsys):
    mlp, conv2 = a_fingerprint(a_point(model="mlp")), a_fingerprint(a_point(model="conv2"))
    store = Store(root / "results/store", MEASURE)
    forged = [file for file in records(root) if file.parent.name == conv2]
    for file in forged:
        forge(file, fingerprint=mlp)
        file.rename(root / "results/store" / mlp[:2] / mlp / f"forged-{file.name}")
    assert len(store.measurements(mlp)) == 3
    assert all(record["point"]["model"] == "mlp" for _, record in store.measurements(mlp))
    assert (
        "its fingerprint is not that of the point and the conditions that it states"
        in capsys.readouterr().err
    )


@pytest.mark.parametrize(
    "values",
    [
        {"point": a_point(model="conv2")},
        {"dilation": 2.0},
        {"planned_dilation": 2.0, "dilation": 2.0},
        {"planned_dilation": 1.0, "dilation": 2.0},
        {"planned_dilation": 1.0, "vcpu_speed": {"vcpus": 2, "speedup": 1.5}},
        {"provenance": {**a_record()["provenance"], "code": {"sha256": "0" * 64}}},
        {"provenance": {}},
    ],
)
def test_a_record_that_states_other_conditions_than_those_asked_for_is_set_aside(root, values, capsys):
    key = a_fingerprint(a_point(model="mlp"))
    victim, *others = [file for file in records(root) if file.parent.name == key]
    forge(victim, **values)
    assert [path for path, _ in Store(root / "results/store", MEASURE).measurements(key)] == others
    assert not victim.exists()
    assert len(list((root / "results/store/set-aside").iterdir())) == 1
    assert "set-aside" in capsys.readouterr().err


def test_a_record_whose_vcpus_are_slower_than_planned_is_of_the_plan(root):
    key = a_fingerprint(a_point(model="mlp"))
    victim, *_ = records_of = [file for file in records(root) if file.parent.name == key]
    forge(victim, planned_dilation=1.0, dilation=0.75, vcpu_speed={"vcpus": 2, "speedup": 1.5})
    assert [path for path, _ in Store(root / "results/store", MEASURE).measurements(key)] == records_of


def test_a_record_whose_manifest_was_made_when_records_were_believed_is_named(root):
    mlp = a_fingerprint(a_point(model="mlp"))
    victim = next(file for file in records(root) if file.parent.name == mlp)
    forge(victim, point=a_point(model="conv2"))
    manifest = json.loads((root / MANIFEST).read_text())
    (root / f"{MANIFEST}.prov.json").unlink()
    assert manifest["measure"] == MEASURE
    assert str(victim.relative_to(root)) in damaged(root)


def test_a_value_written_into_a_table_is_not_drawn(root, capsys):
    table = root / TABLE
    table.write_text(table.read_text().replace("15", "14"))
    assert [each.path for each in mismatches_of(table)] == [TABLE]
    with pytest.raises(DdlbenchError, match="it is not used"):
        require_sound([table])
    set_aside_damage([f"{TABLE}.prov.json"], root / "results", root / "results/store")
    assert not table.exists()
    (aside,) = (root / "results/set-aside").iterdir()
    assert "14" in aside.read_text()
    assert f"{TABLE}: has changed" in capsys.readouterr().err


def test_a_changed_record_is_set_aside_before_its_manifest_is_made_again(root):
    victim = records(root)[0]
    forge(victim, step_times_ms=[[1.0], [1.0]])
    set_aside_damage([f"{MANIFEST}.prov.json"], root / "results", root / "results/store")
    assert not victim.exists()
    assert (root / MANIFEST).exists()
    assert len(records(root)) == 6  # five, and the one set aside


@pytest.mark.parametrize(
    "name",
    ["claims.csv", "report.html", "report.zip", "recommendation.json", "figures/anwar2021_fig16.png"],
)
def test_what_is_written_of_all_results_is_mended_like_these(root, monkeypatch, name, capsys):
    settings, _ = small_repository(root)
    (root / "config/config.yaml").write_text(yaml.safe_dump(settings))
    result, started = root / "results" / name, []
    result.write_text("sound")
    write_sidecar(result, made_by="a rule", inputs={"table": root / TABLE}, started=STARTED)
    result.write_text("damaged")

    def start(command, **_):
        started.extend(command)
        result.write_text("sound")
        return SimpleNamespace(returncode=0)

    monkeypatch.setattr(subprocess, "run", start)
    assert main(["verify", "--repair"]) == 0
    assert f"results/{name}" in started
    assert "makes nothing of this" not in capsys.readouterr().out


def test_a_tree_marks_what_has_changed_and_its_command_exits_with_one(root, capsys):
    figure = "results/figures/zhao2016_fig5.svg"
    assert main(["trace", figure]) == 0
    assert "CHANGED" not in capsys.readouterr().out
    (root / TABLE).write_bytes((root / TABLE).read_bytes() + b"\n")
    assert main(["trace", figure]) == 1
    (line,) = [line for line in capsys.readouterr().out.splitlines() if TABLE in line]
    assert "CHANGED (was " in line
    (root / TABLE).unlink()
    assert trace(figure).damaged == 1
    assert "MISSING" in trace(figure).text


def test_a_folder_that_cannot_be_read_is_named_and_not_left_out(root, monkeypatch):
    scandir = os.scandir

    def refused(folder):
        if Path(folder).name == "tables":
            raise PermissionError(errno.EACCES, "Permission denied", str(folder))
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refused)
    with pytest.raises(DdlbenchError, match="tables: this folder cannot be read: Permission denied"):
        check_all(root / "results")


def test_a_file_with_an_ending_of_two_parts_has_the_sidecar_of_what_it_was_made_with(root):
    picture, words = (root / f"results/figures/made_fig1{ending}" for ending in (".svg", ".caption.rst"))
    for file in (picture, words):
        file.write_text("made")
    write_sidecar(picture, made_by="a rule", inputs={"table": root / TABLE}, outputs=[words], started=STARTED)
    assert check_files([words]).mismatches == []
    sidecar_path(picture).write_text("damaged")
    named = [each.path for each in check_all(root / "results").mismatches]
    assert named == ["results/figures/made_fig1.svg.prov.json"]
