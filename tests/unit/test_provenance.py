"""Provenance: from a figure down to its measurements, and whether every file on the way still matches."""

import json
import subprocess

import pytest

from ddlbench.errors import DdlbenchError
from ddlbench.files import sha256_file
from ddlbench.measurements.mismatches import check, verify
from ddlbench.measurements.provenance import code_version, write_sidecar
from ddlbench.measurements.record import seal
from ddlbench.measurements.store import Store
from ddlbench.measurements.trace_tree import trace
from tests.support.measurement_samples import (
    STARTED,
    a_point,
    a_record,
    a_repository,
    an_entry,
    write_manifest,
)


@pytest.fixture
def figure(tmp_path, monkeypatch):
    monkeypatch.chdir("/")  # the root is found from the file, not from where one stands
    return a_repository(tmp_path)


def a_measurement(root):
    return sorted((root / "results/store").rglob("*.json"))[2]


def test_what_nobody_touched_matches(figure):
    assert verify(figure) == []
    assert check([figure])[0] >= 12  # figure and its pdf, png, csv; table, manifest, 6 measurements


def test_one_changed_byte_of_a_measurement_is_named(figure, tmp_path):
    victim = a_measurement(tmp_path)
    before = sha256_file(victim)
    victim.write_bytes(victim.read_bytes().replace(b"381.5", b"381.6"))
    (mismatch,) = verify(figure)
    assert mismatch.path == str(victim.relative_to(tmp_path))
    assert (mismatch.expected, mismatch.found) == (before, sha256_file(victim))


def test_a_changed_measurement_is_named_even_where_nobody_wrote_down_its_hash(figure, tmp_path):
    manifest = tmp_path / "results/runs/zhao2016/run1.json"
    (manifest.parent / f"{manifest.name}.prov.json").unlink()
    victim = a_measurement(tmp_path)
    victim.write_bytes(victim.read_bytes().replace(b"381.5", b"381.6"))
    assert [(each.path, "checksum" in each.why) for each in verify(figure)] == [
        (str(victim.relative_to(tmp_path)), True)
    ]


def test_a_record_replaced_by_another_true_one_is_named(figure, tmp_path):
    victim = a_measurement(tmp_path)
    record = json.loads(victim.read_text())
    victim.write_text(json.dumps(seal({**record, "step_times_ms": [[1.0], [1.0]]})))
    assert [each.path for each in verify(figure)] == [str(victim.relative_to(tmp_path))]


@pytest.mark.parametrize(
    "name",
    [
        "results/figures/zhao2016_fig5.svg",
        "results/figures/zhao2016_fig5.pdf",
        "results/figures/zhao2016_fig5.csv",
        "results/tables/zhao2016_fig5.csv",
        "results/runs/zhao2016/run1.json",
    ],
)
def test_every_file_of_the_tree_is_checked(figure, tmp_path, name):
    (tmp_path / name).write_bytes((tmp_path / name).read_bytes() + b"\n")
    assert [(each.path, each.why) for each in verify(figure)] == [(name, "has changed")]


def test_missing_files_are_named(figure, tmp_path):
    measurement = a_measurement(tmp_path)
    measurement.unlink()
    (tmp_path / "results/figures/zhao2016_fig5.png").unlink()
    assert {(each.path, each.why) for each in verify(figure)} == {
        (str(measurement.relative_to(tmp_path)), "is missing"),
        ("results/figures/zhao2016_fig5.png", "is missing"),
    }


def test_a_table_that_lost_its_sidecar_is_named(figure, tmp_path):
    (tmp_path / "results/tables/zhao2016_fig5.csv.prov.json").unlink()
    (mismatch,) = verify(figure)
    assert mismatch.path == "results/tables/zhao2016_fig5.csv"
    assert "no sidecar" in mismatch.why


def test_a_sidecar_that_somebody_edited_is_named(figure, tmp_path):
    sidecar = tmp_path / "results/tables/zhao2016_fig5.csv.prov.json"
    sidecar.write_text(sidecar.read_text().replace('"aggregate"', '"something"'))
    assert [each.path for each in verify(figure)] == [str(sidecar.relative_to(tmp_path))]
    assert "DAMAGED" in trace(figure).text


def test_a_figures_pdf_is_traced_like_its_svg(figure):
    assert verify(figure.with_suffix(".pdf")) == []
    assert trace(figure.with_suffix(".pdf")).text.splitlines()[1:] == trace(figure).text.splitlines()[1:]


def test_the_tree_reaches_from_the_figure_down_to_data_set_environment_code_and_host(figure, tmp_path):
    tree = trace(figure).text
    assert tree.startswith("results/figures/zhao2016_fig5.svg")
    for text in (
        "table results/tables/zhao2016_fig5.csv",
        "manifest results/runs/zhao2016/run1.json",
        "measurements: 6",
        "mlp, digits, batch 128, 2 workers, 400 Mbit/s, 0 ms, 0 % loss",
        "repetition 3, 2026-01-02T03:04:05  results/store/",
        f"dataset digits, sha256 {'d' * 64}",
        f"environment torch, 2 packages, lock sha256 {'e' * 64}",
        "code ddlbench 0.1.0, commit aaaaaaaaaaaa, modules sha256 cccccccccccc",
        "host node1: Intel Xeon Silver 4214, 2 cores, 8 GB",
        "fabric emulated, time dilation 1",
        "not_available: no GPU here",
    ):
        assert text in tree
    for measurement in (tmp_path / "results/store").rglob("*.json"):
        assert f"{measurement.relative_to(tmp_path)}  {sha256_file(measurement)[:12]}" in tree
    assert str(tmp_path) not in tree


def test_the_tree_shows_what_is_missing_or_damaged(figure, tmp_path):
    first, second, *_ = sorted((tmp_path / "results/store").rglob("*.json"))
    first.unlink()
    second.write_text("{}")
    (missing,) = [
        line for line in trace(figure).text.splitlines() if str(first.relative_to(tmp_path)) in line
    ]
    (damaged,) = [
        line for line in trace(figure).text.splitlines() if str(second.relative_to(tmp_path)) in line
    ]
    assert missing.endswith("MISSING")
    assert "DAMAGED" in damaged


def test_a_measurement_speaks_for_itself(figure, tmp_path):
    assert "dataset digits" in trace(a_measurement(tmp_path)).text
    assert verify(a_measurement(tmp_path)) == []


def test_a_circle_of_sidecars_ends(tmp_path):
    (tmp_path / "Snakefile").touch()
    first, second = tmp_path / "first.csv", tmp_path / "second.csv"
    for file in (first, second):
        file.write_text(file.name)
    for file, source in ((first, second), (second, first)):
        write_sidecar(file, made_by="circle", inputs={"table": source}, started=STARTED)
    assert verify(first) == []
    assert "(shown above)" in trace(first).text


@pytest.mark.parametrize("question", [trace, verify])
def test_a_file_without_a_sidecar_is_a_clear_error(figure, tmp_path, question):
    (tmp_path / "notes.txt").touch()
    with pytest.raises(DdlbenchError, match=r"notes\.txt: no sidecar"):
        question(tmp_path / "notes.txt")
    with pytest.raises(DdlbenchError, match="no such file"):
        question(tmp_path / "nothing.svg")


def test_sidecars_hold_no_path_of_the_machine(figure, tmp_path):
    for sidecar in tmp_path.rglob("*.prov.json"):
        assert str(tmp_path) not in sidecar.read_text()


def test_a_sidecar_says_who_made_what_from_what_where_and_when(figure):
    sidecar = json.loads((figure.parent / f"{figure.name}.prov.json").read_text())
    assert sidecar["made_by"] == "zhao2016_fig5"
    assert [(each["path"], each["role"]) for each in sidecar["inputs"]] == [
        ("results/tables/zhao2016_fig5.csv", "table"),
    ]
    assert [each["path"].rsplit(".")[-1] for each in sidecar["outputs"]] == ["pdf", "png", "csv"]
    assert sidecar["host"]["cores"] > 0
    assert sidecar["started"] == STARTED < sidecar["ended"]
    assert set(sidecar["code"]) == {"version", "commit", "dirty", "sha256", "purpose", "modules"}
    assert sidecar["code"]["purpose"] == "figures zhao2016"
    assert {"figures/zhao2016.py", "figures/theme.py"} <= sidecar["code"]["modules"].keys()


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"sha256": "0" * 64, "modules": {"figures/theme.py": "0" * 64}}, "figures/__init__.py"),
        ({"purpose": "measure"}, "is not known"),
        ({"purpose": "dance"}, "is not known"),
    ],
)
def test_code_that_is_not_as_it_was_is_named(figure, change, why):
    edit_sidecar(figure, lambda sidecar: sidecar["code"].update(change))
    (mismatch,) = verify(figure)
    assert mismatch.path.startswith("code of ")
    assert why in str(mismatch)


def test_code_that_was_moved_and_says_the_same_matches(figure):
    edit_sidecar(figure, lambda sidecar: sidecar["code"].update(modules={"elsewhere.py": "0" * 64}))
    assert verify(figure) == []


def test_a_sidecar_of_before_lists_code_as_files(figure, tmp_path):
    module = tmp_path / "draw.py"
    module.write_text("plot = None\n")
    listed = {"path": "draw.py", "sha256": sha256_file(module), "role": "code"}
    old = {"version": "0.1.0", "commit": None, "dirty": None, "sha256": "c" * 64}
    edit_sidecar(figure, lambda sidecar: sidecar.update(code=old, inputs=[*sidecar["inputs"], listed]))
    assert verify(figure) == []
    assert "code draw.py" in trace(figure).text
    module.write_text("plot = 1\n")
    assert [each.path for each in verify(figure)] == ["draw.py"]


def edit_sidecar(file, edit):
    sidecar = file.parent / f"{file.name}.prov.json"
    content = json.loads(sidecar.read_text())
    edit(content)
    sidecar.write_text(json.dumps(seal(content)))


def test_the_code_version_knows_the_commit_and_whether_anything_differs_from_it(tmp_path, monkeypatch):
    monkeypatch.setattr("ddlbench.measurements.provenance.PACKAGE", tmp_path)
    (tmp_path / "a.py").write_text("a = 1\n")
    identity = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for command in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "one"]):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    head = subprocess.run(
        ["git", "-C", tmp_path, "rev-parse", "HEAD"], capture_output=True, text=True
    ).stdout.strip()
    assert (code_version()["commit"], code_version()["dirty"]) == (head, False)
    (tmp_path / "a.py").write_text("a = 2\n")
    assert (code_version()["commit"], code_version()["dirty"]) == (head, True)


def test_the_code_version_needs_no_git(monkeypatch):
    monkeypatch.setenv("PATH", "")
    version = code_version()
    assert (version["commit"], version["dirty"]) == (None, None)
    assert len(version["sha256"]) == 64


def test_a_repetition_that_stalled_is_told_from_the_others(tmp_path):
    (tmp_path / "Snakefile").touch()
    store = Store(tmp_path / "results/store")
    without_steps = {"status": "stalled", "reason": "the link stalled", "step_times_ms": [], "metrics": {}}
    records = a_record(0, stalled_s=240.0, **without_steps), a_record(1, stalled_s=240.0)
    paths = [str(store.add(record).relative_to(tmp_path)) for record in records]
    tree = trace(write_manifest(tmp_path / "results/runs/r.json", [an_entry(a_point(), paths)])).text
    assert "repetition 0 (stalled: the link stalled), " in tree
    assert "repetition 1 (given up after 240 s without a step), " in tree


@pytest.mark.long
def test_a_thousand_measurements_are_verified_and_traced(tmp_path):
    (tmp_path / "Snakefile").touch()
    store = Store(tmp_path / "results/store")
    paths = [str(store.add(a_record(number)).relative_to(tmp_path)) for number in range(1000)]
    manifest = write_manifest(tmp_path / "results/runs/r.json", [an_entry(a_point(), paths)])
    assert verify(manifest) == []
    assert trace(manifest).text.count("repetition") == 1000
