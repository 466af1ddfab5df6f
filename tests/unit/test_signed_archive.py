"""An archive that somebody has signed: by whom, and nothing that was changed since."""

import shutil

import pytest
from signing_keys import new_key

from ddlbench.cli.main import main
from tests.support.archive_samples import an_archive


@pytest.fixture
def archive(tmp_path):
    return an_archive(tmp_path)


@pytest.fixture
def key(tmp_path):
    (tmp_path / "keys").mkdir()
    return new_key(tmp_path / "keys")


def verified(archive, key):
    return main(["verify", str(archive), "--signers", str(key.with_name("signers"))])


def test_an_archive_is_verified_with_the_name_of_its_signer(archive, key, capsys):
    assert main(["sign", "--key", str(key), str(archive)]) == 0
    assert verified(archive, key) == 0
    shown = capsys.readouterr().out
    assert "signed by lab" in shown
    assert "all match" in shown


def test_an_archive_that_was_changed_after_it_was_signed_is_refused(archive, key, capsys):
    assert main(["sign", "--key", str(key), str(archive)]) == 0
    with archive.open("ab") as file:
        file.write(b"\0")
    assert verified(archive, key) == 1
    assert "nobody in" in capsys.readouterr().err


def test_a_signature_of_another_file_or_by_another_key_does_not_count(archive, key, capsys):
    assert main(["sign", "--key", str(key), str(archive)]) == 0
    other = archive.with_name("other.zip")
    shutil.copyfile(archive, other)
    assert verified(other, key) == 1
    assert f"ddlbench sign --key FILE {other}" in capsys.readouterr().err
    new_key(key.parent, "other")
    assert verified(archive, key) == 1
    assert "nobody in" in capsys.readouterr().err


def test_a_damaged_archive_is_not_signed(archive, key, capsys):
    content = bytearray(archive.read_bytes())
    content[len(content) // 3] ^= 1
    archive.write_bytes(content)
    assert main(["sign", "--key", str(key), str(archive)]) == 1
    assert not archive.with_name("report.zip.sig").exists()
