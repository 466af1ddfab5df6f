"""What a machine must have before the first run: room on its disk. What is missing is told once, and before set-up."""

import errno
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from ddlbench.errors import DdlbenchError

_LEAST_BYTES = 16 << 20  # records, telemetry and logs of a short run


def check_room(folders: Iterable[Path]) -> None:
    """Check that files can be written.

    Args:
        folders: where; those that do not exist yet are checked where they would be made.

    Raises:
        DdlbenchError: a disk is full, the user's quota is used up, or nothing may be written there.
    """
    if why := _want_of_room(folders):
        raise DdlbenchError(f"{why} What was measured before is kept.")


def full_disk(folders: Iterable[Path]) -> str:
    """Say which disk is full, after something could not be written.

    Args:
        folders: where it may have been.

    Returns:
        A sentence.
    """
    return _want_of_room(folders) or "a disk is full; the logs name it."


def _want_of_room(folders: Iterable[Path]) -> str | None:
    for folder in folders:
        there = next(each for each in (folder, *folder.absolute().parents) if each.is_dir())
        try:
            with tempfile.TemporaryFile(dir=there) as file:
                os.posix_fallocate(file.fileno(), 0, _LEAST_BYTES)
        except OSError as error:
            return f"{folder}: {_why(error, there)}"
    return None


def _why(error: OSError, folder: Path) -> str:
    need = f"A run needs {_LEAST_BYTES >> 20} MB at least."
    if error.errno == errno.ENOSPC:
        disk = os.statvfs(folder)
        if disk.f_files and not disk.f_favail:
            return f"the disk has no room for another file, however small (df -i). {need}"
        return f"the disk is full ({(disk.f_bavail * disk.f_frsize) >> 20} MB are free). {need}"
    if error.errno == errno.EDQUOT:
        return f"your quota of this disk is used up (quota -s). {need}"
    if error.errno == errno.EROFS:
        return "this disk can only be read."
    if error.errno in (errno.EACCES, errno.EPERM):
        return "you may not write there."
    return f"nothing can be written there ({error.strerror})."
