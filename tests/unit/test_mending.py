"""What is damaged is set aside, and nothing else: whatever a forged record or sidecar names."""

import json
from pathlib import Path

import pytest

from ddlbench.measurements.mismatches import Mismatch
from ddlbench.measurements.record import seal
from ddlbench.runs.mending import put_away, set_aside_damage
from tests.support.measurement_samples import a_repository

MANIFEST = "results/runs/zhao2016/run1.json"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    root = tmp_path / "ddlbench"
    root.mkdir()
    a_repository(root)
    monkeypatch.chdir(root)
    return root


@pytest.fixture
def thesis(root: Path) -> Path:
    """A file of the user's beside the repository."""
    file = root.parent / "thesis.tex"
    file.write_text("my life's work")
    return file


def test_a_file_that_a_forged_record_calls_its_telemetry_stays_and_the_record_does_not(root, thesis, capsys):
    record = min((root / "results/store").rglob("*.json"))
    forged = {"telemetry": {"files": [{"path": str(thesis), "sha256": "0" * 64}]}}
    record.write_text(json.dumps(seal(json.loads(record.read_text()) | forged)))
    set_aside_damage([f"{MANIFEST}.prov.json"], root / "results", root / "results/store")
    assert thesis.exists()
    assert not record.exists()
    assert f"{thesis}: has changed. It lies outside of the results" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name", ["../thesis.tex", "results/store/../../../thesis.tex", "results/store/link/thesis.tex"]
)
def test_a_file_is_moved_only_if_it_really_is_among_the_results(root, thesis, name):
    (root / "results/store/link").symlink_to(root.parent)
    put_away(Mismatch(name, "has changed"), root / name, root / "results", root / "results/store")
    assert thesis.exists()


def test_results_that_lie_elsewhere_are_set_aside_through_their_link(root):
    (root / "results").rename(root.parent / "elsewhere")
    (root / "results").symlink_to(root.parent / "elsewhere")
    put_away(Mismatch(MANIFEST, "has changed"), root / MANIFEST, root / "results", root / "results/store")
    assert not (root / MANIFEST).exists()
