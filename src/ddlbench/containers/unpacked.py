"""A SIF's files laid out beside it, for a user who may not mount it: once for each SIF, and whole or not at all."""

import fcntl
import os
import shutil
from pathlib import Path

from ddlbench.environments.commands import run_command

# as this user, who is nobody else in there: root would try to give files to others
_WITH_ITS_CHILDREN = (
    *("unshare", "--user", "--map-current-user"),
    *("--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"),
)
_TIMEOUT_S = 1800.0


def can_mount() -> bool:
    """Whether this user may mount a SIF: root may, others need FUSE."""
    return os.geteuid() == 0 or os.access("/dev/fuse", os.R_OK | os.W_OK)


def tree_of(sif: Path, sha256: str) -> Path:
    """Where the files of a SIF of this checksum lie, once they are unpacked."""
    return sif.with_name(f"{sif.stem}-{sha256[:12]}")


def unpack(sif: Path, sha256: str, program: str) -> None:
    """Unpack the SIF, unless that is done, in place of what was unpacked of another; who comes meanwhile waits.

    The folder has its name when it is whole. Raises DdlbenchError where it cannot be unpacked.
    """
    tree = tree_of(sif, sha256)
    with sif.open("rb") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # goes with us
        if tree.is_dir():
            return
        remove_unpacked(sif)
        lay_out(sif, tree.with_suffix(".making"), program).rename(tree)


def lay_out(sif: Path, folder: Path, program: str) -> Path:
    """Make `folder` of the SIF's files; returns it. Raises DdlbenchError where that fails."""
    argv = [*_WITH_ITS_CHILDREN, program, "--silent", "build", "--sandbox", str(folder), str(sif)]
    run_command(argv, f"{folder} (the files of {sif})", timeout_s=_TIMEOUT_S)
    return folder


def remove_unpacked(sif: Path) -> None:
    """Remove whatever was unpacked of the SIF of this name, and what a killed call had begun with."""
    for tree in sif.parent.glob(f"{sif.stem}-*"):
        shutil.rmtree(tree)
