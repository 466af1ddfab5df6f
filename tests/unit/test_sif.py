"""How a SIF is made, and when it is taken for whole."""

import os
from pathlib import Path
from typing import Any

import pytest

from ddlbench.containers.sif import (
    apptainer,
    apptainer_variables,
    check_sif,
    is_untouched,
    isolated_argv,
    sif_argv,
)
from ddlbench.errors import DdlbenchError
from ddlbench.files import sha256_file

pytestmark = pytest.mark.unit


@pytest.fixture
def described(tmp_path: Path) -> dict[str, Any]:
    """The description of a file that is no SIF, which does not matter here."""
    sif = tmp_path / "x.sif"
    sif.write_bytes(b"files")
    return {
        "sif": str(sif),
        "sif_sha256": sha256_file(sif),
        "sif_mtime_ns": sif.stat().st_mtime_ns,
        "size_bytes": 5,
    }


def test_a_sif_is_made_of_what_the_engine_has_saved() -> None:
    assert sif_argv("apptainer", Path("x.sif"), Path("/w/image.tar")) == [
        "apptainer",
        "build",
        "--force",
        "--mksquashfs-args",
        "-comp zstd -Xcompression-level 3",
        "x.sif",
        "docker-archive:/w/image.tar",
    ]
    assert sif_argv("singularity", Path("x.sif"), Path("i.tar"), compression="") == [
        "singularity",
        "build",
        "--force",
        "x.sif",
        "docker-archive:i.tar",
    ]


def test_a_sif_is_asked_out_of_sight_of_the_machine() -> None:
    assert isolated_argv("apptainer", Path("x.sif"), ["python"]) == [
        "apptainer",
        "exec",
        "--containall",
        "--cleanenv",
        "x.sif",
        "python",
    ]


def test_apptainer_keeps_nothing_outside_of_the_folder_it_works_in() -> None:
    assert apptainer_variables({"HOME": "/h"}, Path("/w")) == {
        "HOME": "/h",
        "APPTAINER_TMPDIR": "/w",
        "APPTAINER_CACHEDIR": "/w/cache",
        "SINGULARITY_TMPDIR": "/w",
        "SINGULARITY_CACHEDIR": "/w/cache",
        "APPTAINER_DROP_CAPS": "CAP_SYS_RESOURCE",
    }


def test_a_missing_apptainer_is_named_with_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(DdlbenchError, match="apptainer"):
        apptainer()


def test_a_whole_sif_passes(described: dict[str, Any]) -> None:
    check_sif(Path(described["sif"]), described["sif_sha256"])
    assert is_untouched(described)


def test_a_damaged_sif_is_named(described: dict[str, Any]) -> None:
    Path(described["sif"]).write_bytes(b"fires")
    os.utime(described["sif"], ns=(0, 0))
    assert not is_untouched(described)
    with pytest.raises(DdlbenchError, match=r"x\.sif is damaged: its checksum is not the one"):
        check_sif(Path(described["sif"]), described["sif_sha256"])


def test_a_missing_sif_is_named(described: dict[str, Any]) -> None:
    Path(described["sif"]).unlink()
    assert not is_untouched(described)
    with pytest.raises(DdlbenchError, match=r"x\.sif is missing"):
        check_sif(Path(described["sif"]), described["sif_sha256"])
