"""The archive of all results: verified from itself alone, whatever was done to it, and safe to unpack."""

import json
import shutil
import zipfile

import pytest

from ddlbench.cli.main import main
from ddlbench.errors import DdlbenchError
from ddlbench.files import sha256_file
from ddlbench.measurements.provenance import write_sidecar
from ddlbench.measurements.record import seal
from ddlbench.report.archive import METADATA, check_archive
from ddlbench.report.crate import PROFILES, Run, write_archive
from tests.support.measurement_samples import a_repository

PAGE, TABLE = "results/report.html", "results/tables/zhao2016_fig5.csv"
FIGURE = "results/figures/zhao2016_fig5.svg"


@pytest.fixture
def root(tmp_path):
    """A repository with results and their page."""
    folder = tmp_path / "repository"
    folder.mkdir()
    a_repository(folder)
    (folder / "config").mkdir()
    (folder / "config/config.yaml").write_text("results: results\n")
    (folder / PAGE).write_text("<!doctype html>")
    write_sidecar(
        folder / PAGE,
        made_by="report_page",
        inputs={"figure": folder / FIGURE, "table": folder / TABLE},
        started="2026-01-02T03:04:05+00:00",
    )
    return folder


@pytest.fixture
def archive(root, tmp_path, monkeypatch):
    """The archive, far from the repository that it was made of, which is gone."""
    made = tmp_path / "elsewhere/report.zip"
    made.parent.mkdir()
    write_archive(made, a_run(root), root)
    shutil.rmtree(root)
    monkeypatch.chdir(made.parent)
    return made


def a_run(root):
    return Run(PAGE, [FIGURE, TABLE], [root / "config/config.yaml"])


def rewritten(archive, change, metadata_too=False):
    """The archive with other contents, which `change` gives by name; `metadata_too` mends its list of hashes."""
    with zipfile.ZipFile(archive) as packed:
        contents = {name: packed.read(name) for name in packed.namelist()}
    contents = change(contents)
    if metadata_too:
        folder = archive.parent / "hashed"
        for name, content in contents.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        crate = json.loads(contents[METADATA])
        for entity in crate["@graph"]:
            if "sha256" in entity and entity["@id"] in contents:
                entity["sha256"] = sha256_file(folder / entity["@id"])
        contents[METADATA] = json.dumps(crate).encode()
    other = archive.with_name("other.zip")
    with zipfile.ZipFile(other, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in contents.items():
            packed.writestr(name, content)
    return other


def records(contents):
    return sorted(name for name in contents if name.startswith("results/store/") and name.endswith(".json"))


def damaged(archive):
    return [mismatch.path for mismatch in check_archive(archive).damage]


def test_what_nobody_touched_is_verified_without_the_repository(archive, capsys):
    assert main(["verify", str(archive)]) == 0
    assert "all match" in capsys.readouterr().out
    assert len(list(archive.parent.iterdir())) == 1


def test_it_holds_each_measurement_and_what_the_figures_were_made_from(archive):
    with zipfile.ZipFile(archive) as packed:
        names = packed.namelist()
    assert {PAGE, TABLE, FIGURE, "results/runs/zhao2016/run1.json", "Snakefile", "config/config.yaml"} <= set(
        names
    )
    assert len(records(names)) == 6
    assert len(names) == len(set(names))


def test_its_metadata_are_those_of_a_workflow_run_crate(archive):
    # The profiles' required properties. The whole of them is what the public validator checks (docs/report.md).
    with zipfile.ZipFile(archive) as packed:
        entities = {each["@id"]: each for each in json.loads(packed.read(METADATA))["@graph"]}
        names = set(packed.namelist())
    root, workflow, run = entities["./"], entities["Snakefile"], entities["#run"]
    assert {each["@id"] for each in root["conformsTo"]} == PROFILES.keys()
    assert root["mainEntity"] == {"@id": "Snakefile"}
    assert {"File", "SoftwareSourceCode", "ComputationalWorkflow"} == set(workflow["@type"])
    assert run["@type"] == "CreateAction"
    assert run["instrument"] == {"@id": "Snakefile"}
    assert {each["@id"] for each in run["result"]} == {PAGE, FIGURE, TABLE}
    assert run["startTime"] <= run["endTime"]
    assert {each["@id"] for each in root["hasPart"]} | {METADATA} == names


def test_every_changed_missing_or_additional_file_is_named(archive):
    def change(contents):
        first, second, *_ = records(contents)
        contents[first] += b" "
        del contents[second]
        contents["results/more.csv"] = b"1"
        return contents

    with zipfile.ZipFile(archive) as packed:
        first, second, *_ = records(packed.namelist())
    assert {first, second, "results/more.csv"} <= set(damaged(rewritten(archive, change)))


def test_a_forged_measurement_is_named_though_its_checksum_and_the_list_of_hashes_are_right(archive):
    def forge(contents):
        name = records(contents)[0]
        record = json.loads(contents[name])
        contents[name] = json.dumps(seal({**record, "step_times_ms": [[1.0, 1.0], [1.0, 1.0]]})).encode()
        return contents

    with zipfile.ZipFile(archive) as packed:
        name = records(packed.namelist())[0]
    assert name in damaged(rewritten(archive, forge, metadata_too=True))


def test_a_forged_table_is_named_and_the_exit_status_says_so(archive, capsys):
    def forge(contents):
        contents[TABLE] = contents[TABLE].replace(b"mlp", b"alp")
        return contents

    assert main(["verify", str(rewritten(archive, forge, metadata_too=True))]) == 1
    assert f"{TABLE}: has changed" in capsys.readouterr().out


def test_provenance_that_leads_out_of_the_archive_is_not_followed(archive, tmp_path):
    (tmp_path / "secret").write_text("x")

    def lead_out(contents):
        name = f"{TABLE}.prov.json"
        sidecar = json.loads(contents[name])
        for path in (str(tmp_path / "secret"), "../../secret"):
            sidecar["inputs"].append({"path": path, "sha256": "0" * 64, "role": "table"})
        contents[name] = json.dumps(seal(sidecar)).encode()
        return contents

    found = {
        each.path: each for each in check_archive(rewritten(archive, lead_out, metadata_too=True)).damage
    }
    for path in (str(tmp_path / "secret"), "../../secret"):
        assert found[path].why == "lies outside"
        assert found[path].found is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"inputs": [{"path": TABLE}]},
        {"inputs": [{"path": "a\0b", "sha256": "0" * 64, "role": "table"}]},
        {"inputs": [{"path": "\ud800", "sha256": "0" * 64, "role": "table"}]},
        {"outputs": 5},
        {"code": 5},
        {"code": {"purpose": "claims", "modules": [1]}},
    ],
    ids=str,
)
def test_a_sidecar_that_holds_something_else_than_is_written_is_named(archive, wrong):
    def misshape(contents):
        name = f"{TABLE}.prov.json"
        contents[name] = json.dumps(seal({**json.loads(contents[name]), **wrong})).encode()
        return contents

    assert f"{TABLE}.prov.json" in damaged(rewritten(archive, misshape, metadata_too=True))


@pytest.mark.parametrize(
    "telemetry", [5, {"files": 5}, {"files": [{"path": "a\0b", "sha256": "0"}]}], ids=str
)
def test_a_measurement_that_lists_no_files_of_its_telemetry_is_named(archive, telemetry):
    def misshape(contents):
        name = records(contents)[0]
        contents[name] = json.dumps(seal({**json.loads(contents[name]), "telemetry": telemetry})).encode()
        return contents

    with zipfile.ZipFile(archive) as packed:
        name = records(packed.namelist())[0]
    assert name in damaged(rewritten(archive, misshape, metadata_too=True))


def test_a_flipped_bit_anywhere_is_noticed(archive):
    content = archive.read_bytes()
    for number in range(40):
        place = (2 * number + 1) * len(content) // 80
        flipped = archive.with_name("flipped.zip")
        flipped.write_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])
        try:
            with zipfile.ZipFile(archive) as one, zipfile.ZipFile(flipped) as other:
                is_same = {name: one.read(name) for name in one.namelist()} == {
                    name: other.read(name) for name in other.namelist()
                }
        except Exception:
            is_same = False
        try:
            noticed = bool(check_archive(flipped).damage)
        except DdlbenchError:
            noticed = True
        assert noticed or is_same, place


def test_no_archive_is_made_of_damaged_results(root, tmp_path):
    (root / TABLE).write_text("other")
    with pytest.raises(DdlbenchError, match=TABLE):
        write_archive(tmp_path / "report.zip", a_run(root), root)
    assert not (tmp_path / "report.zip").exists()
    assert [each.name for each in tmp_path.iterdir()] == ["repository"]


def test_what_a_killed_call_has_packed_is_removed_by_the_next_one(root):
    left = root / "results/.report.zip.killed"
    left.mkdir()
    (left / "report.zip").write_bytes(b"half of it")
    write_archive(root / "results/report.zip", a_run(root), root)
    assert not left.exists()
    assert [file.name for file in (root / "results").glob("*report.zip*")] == ["report.zip"]
