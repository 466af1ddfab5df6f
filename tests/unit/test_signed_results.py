"""Results that somebody has signed with an SSH key, and what has changed since."""

import json
import subprocess

import pytest
from signing_keys import new_key

from ddlbench.cli.main import main
from ddlbench.errors import DdlbenchError
from ddlbench.measurements.record import seal
from ddlbench.measurements.signature import check_signature, sign
from ddlbench.measurements.whole_results import check_all
from tests.support.measurement_samples import a_repository


@pytest.fixture
def root(tmp_path, monkeypatch):
    a_repository(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def keys(tmp_path_factory):
    """A folder with an SSH key and a file that allows its owner to sign."""
    folder = tmp_path_factory.mktemp("keys")
    new_key(folder)
    return folder


def test_what_was_signed_and_not_changed_is_good(root, keys):
    files = sign(root / "results", keys / "key")
    assert check_signature(root / "results", keys / "signers") == ("lab", files, [])
    assert main(["verify", "--signers", str(keys / "signers")]) == 0
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=root / "results", check=True)


def test_records_and_sidecars_that_were_rewritten_consistently_are_seen_by_their_signature_alone(root, keys):
    sign(root / "results", keys / "key")
    for sidecar in (root / "results").rglob("*.prov.json"):
        content = json.loads(sidecar.read_text())
        sidecar.write_text(json.dumps(seal({**content, "host": {"hostname": "another"}})))
    assert check_all(root / "results").damage == []
    signed = check_signature(root / "results", keys / "signers")
    assert len(signed.mismatches) == 3
    assert main(["verify", "--signers", str(keys / "signers")]) == 1


@pytest.mark.parametrize("name", ["SHA256SUMS", "SHA256SUMS.sig"])
def test_a_changed_list_or_signature_is_refused(root, keys, name):
    sign(root / "results", keys / "key")
    file = root / "results" / name
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(DdlbenchError):
        check_signature(root / "results", keys / "signers")


def test_a_signature_of_somebody_else_is_refused(root, keys):
    sign(root / "results", keys / "key")
    new_key(keys, "other")
    with pytest.raises(DdlbenchError, match=r"nobody in .* has signed this"):
        check_signature(root / "results", keys / "signers")


def test_what_came_after_a_signature_is_not_covered_by_it(root, keys):
    sign(root / "results", keys / "key")
    (root / "results/tables/late.csv").write_text("x\n")
    assert [each.path for each in check_signature(root / "results", keys / "signers").mismatches] == [
        "tables/late.csv"
    ]


def test_a_key_that_cannot_sign_changes_nothing(root, keys):
    """Neither where nothing was signed before, nor where something was."""
    no_key = keys / "none"
    no_key.write_text("no key\n")
    for _ in range(2):
        before = sorted((root / "results").rglob("*"))
        with pytest.raises(DdlbenchError, match="could not be signed"):
            sign(root / "results", no_key)
        assert sorted((root / "results").rglob("*")) == before
        sign(root / "results", keys / "key")
    assert check_signature(root / "results", keys / "signers").mismatches == []


def test_damaged_results_are_not_signed(root, keys, capsys):
    (root / "results/tables/zhao2016_fig5.csv").write_bytes(b"")
    assert main(["sign", "--key", str(keys / "key")]) == 1
    assert "nothing is signed" in capsys.readouterr().err
