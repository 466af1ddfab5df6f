"""The files of a SIF, unpacked beside it for a user who may not mount it: once for each SIF, and completely."""

import fcntl
import os
import shutil
from pathlib import Path

from ddlbench.environments.commands import run_command

# As this user and not as root of the user namespace: root would try to change the owners of files.
_IN_NAMESPACES = (
    *("unshare", "--user", "--map-current-user"),
    *("--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"),
)
_TIMEOUT_S = 1800.0


def can_mount() -> bool:
    """Check whether this user may mount a SIF.

    Returns:
        True for root, and for other users who may use FUSE.
    """
    return os.geteuid() == 0 or os.access("/dev/fuse", os.R_OK | os.W_OK)


def unpacked_folder(sif: Path, sha256: str) -> Path:
    """Name the folder of a SIF's unpacked files.

    Args:
        sif: the file.
        sha256: its checksum, of which the name has the first 12 digits.

    Returns:
        The folder beside the SIF, whether it exists or not.
    """
    return sif.with_name(f"{sif.stem}-{sha256[:12]}")


def unpack(sif: Path, sha256: str, program: str) -> None:
    """Unpack a SIF, unless that is done. The files of an older SIF of the same name are removed.

    A second process waits until the first has finished. The folder gets its name when it is complete.

    Args:
        sif: the file.
        sha256: its checksum.
        program: the path of Apptainer's program.

    Raises:
        DdlbenchError: it cannot be unpacked.
    """
    tree = unpacked_folder(sif, sha256)
    with sif.with_suffix(".lock").open("w") as held:  # NFS locks only what is opened for writing
        fcntl.flock(held, fcntl.LOCK_EX)  # the kernel releases the lock when we end
        if tree.is_dir():
            return
        remove_unpacked(sif)
        unpack_into(sif, tree.with_suffix(".making"), program).rename(tree)


def unpack_into(sif: Path, folder: Path, program: str) -> Path:
    """Unpack a SIF into a new folder.

    Args:
        sif: the file.
        folder: the folder to make.
        program: the path of Apptainer's program.

    Returns:
        The folder.

    Raises:
        DdlbenchError: it cannot be unpacked.
    """
    argv = [*_IN_NAMESPACES, program, "--silent", "build", "--sandbox", str(folder), str(sif)]
    run_command(argv, f"{folder} (the files of {sif})", timeout_s=_TIMEOUT_S)
    return folder


def remove_unpacked(sif: Path) -> None:
    """Remove all unpacked files of SIFs of this name, and what a killed process had begun to unpack.

    Args:
        sif: the file; it stays.
    """
    for tree in sif.parent.glob(f"{sif.stem}-*"):
        shutil.rmtree(tree)
