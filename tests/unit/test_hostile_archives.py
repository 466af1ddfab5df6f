"""Archives that somebody made to do harm, or that are none: nothing of them is unpacked, and a message says why."""

import zipfile

import pytest

from ddlbench.cli.main import main
from ddlbench.errors import DdlbenchError
from ddlbench.report.archive import check_archive
from tests.support.archive_samples import TABLE, an_archive


@pytest.fixture
def archive(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    return an_archive(tmp_path).rename(tmp_path / "elsewhere/report.zip")


def with_entry(archive, name, content=b"", **values):
    entry = zipfile.ZipInfo(name)
    for key, value in values.items():
        setattr(entry, key, value)
    with zipfile.ZipFile(archive, "a") as packed:
        packed.writestr(entry, content)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("../escaped", {}),
        ("/tmp/escaped", {}),
        ("results/../../escaped", {}),
        ("..\\escaped", {}),
        ("link", {"external_attr": 0o120777 << 16}),
        ("pipe", {"external_attr": 0o010666 << 16}),
    ],
)
def test_an_archive_that_would_write_elsewhere_is_not_unpacked(archive, name, values):
    with_entry(archive, name, b"/etc/passwd", **values)
    with pytest.raises(DdlbenchError, match="so nothing is unpacked"):
        check_archive(archive)
    assert not (archive.parent / "escaped").exists()
    assert not (archive.parent.parent / "escaped").exists()


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_name_that_is_there_twice_is_refused(archive):
    with_entry(archive, TABLE, b"another")
    with pytest.raises(DdlbenchError, match="in it twice"):
        check_archive(archive)


def test_a_bomb_is_refused_before_it_is_unpacked(archive):
    with zipfile.ZipFile(archive, "a", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("results/zeros.csv", bytes(100_000_000))
    with pytest.raises(DdlbenchError, match="bytes are unpacked"):
        check_archive(archive)


@pytest.mark.parametrize("content", [b"", b"PK\x05\x06", b"no zip at all"])
def test_what_is_no_archive_is_told_in_words(tmp_path, content, capsys):
    file = tmp_path / "report.zip"
    file.write_bytes(content)
    assert main(["verify", str(file)]) == 1
    assert "report.zip" in capsys.readouterr().err


def test_a_name_that_is_no_text_is_damage(tmp_path, capsys):
    file = tmp_path / "report.zip"
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("ä.csv", b"1")  # its name is marked as UTF-8
    file.write_bytes(file.read_bytes().replace("ä".encode(), b"\xff\xff"))
    assert main(["verify", str(file)]) == 1
    assert "this zip file is damaged" in capsys.readouterr().err


def test_what_is_no_lzma_though_it_is_said_to_be_is_damage(tmp_path, capsys):
    file = tmp_path / "report.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_LZMA) as packed:
        packed.writestr("table.csv", b"1,2\n" * 100)
    content = bytearray(file.read_bytes())
    place = (
        content.index(b"table.csv") + len(b"table.csv") + 4
    )  # the properties, after their version and size
    content[place] = 0xFF
    file.write_bytes(content)
    assert main(["verify", str(file)]) == 1
    assert "this zip file is damaged" in capsys.readouterr().err
