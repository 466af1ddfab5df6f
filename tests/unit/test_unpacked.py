"""The files of a SIF are unpacked once."""

import errno
import fcntl
import os
from types import SimpleNamespace

import pytest

from ddlbench.containers import unpacked
from ddlbench.containers.unpacked import unpack, unpacked_folder

SHA256 = "f00d" * 16


@pytest.fixture
def on_nfs(monkeypatch):
    """A file system whose kernel makes byte-range locks of others, for which a file must be open for writing."""

    def flock(file, operation):
        if fcntl.fcntl(file, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))

    monkeypatch.setattr(unpacked, "fcntl", SimpleNamespace(flock=flock, LOCK_EX=fcntl.LOCK_EX))


def test_a_sif_on_nfs_that_nobody_may_change_is_unpacked_once(on_nfs, tmp_path, monkeypatch):
    sif = tmp_path / "torch.sif"
    sif.touch(mode=0o444)
    made = []

    def making(argv, what, *, timeout_s):
        made.append(what)
        (tmp_path / argv[-2]).mkdir()

    monkeypatch.setattr(unpacked, "run_command", making)
    for _ in range(2):
        unpack(sif, SHA256, "apptainer")
    assert unpacked_folder(sif, SHA256).is_dir()
    assert len(made) == 1
