"""Kernel locks on the files that a call of Snakemake reads and writes. They end with the process that holds them.

Snakemake's own locks are files, which remain when Snakemake is killed. These are byte ranges of one file, one byte for
each name. The kernel releases them however the process ends, also between the nodes of a shared file system.
"""

import errno
import fcntl
import os
import struct
import sys
from collections.abc import Iterable
from contextlib import suppress
from hashlib import sha256
from pathlib import Path

from ddlbench.errors import DdlbenchError

FILE = Path(".snakemake/ddlbench.lock")
_NO_LOCKS_HERE = (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP)
_FLOCK = struct.Struct("@hhqqi4x")  # C's struct flock: type, whence, start, length, process
_EVERYTHING = 0  # as a length: to the end of any file


def hold(writes: Iterable[str], reads: Iterable[str], file: Path = FILE) -> int:
    """Lock files by their names until this process ends.

    On a file system without locks a warning is printed, and nothing is locked.

    Args:
        writes: files that no other process may write or read meanwhile.
        reads: files that no other process may write meanwhile.
        file: the file whose bytes stand for names. No other code of this process may open it.

    Returns:
        The descriptor of `file`. The locks last while it is open.

    Raises:
        DdlbenchError: another process holds a lock that excludes one of these, or this user may not write `file`.
    """
    exclusive = set(writes)
    descriptor = _opened(file)
    try:
        for name in sorted(exclusive):
            _lock(descriptor, name, fcntl.LOCK_EX)
        for name in sorted(set(reads) - exclusive):
            _lock(descriptor, name, fcntl.LOCK_SH)
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            os.close(descriptor)
            raise _unusable(file, error) from None
        print(f"{file}: this file system has no locks. Start only one Snakemake at a time.", file=sys.stderr)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def holder(file: Path = FILE) -> int | None:
    """Find a process that holds a lock. This process must not hold one itself.

    Args:
        file: the file whose bytes stand for names, as of `hold`.

    Returns:
        The id of a process that holds any lock on `file`; None if there is none, no such file, or no lock can be held.

    Raises:
        DdlbenchError: this user may not read `file`.
    """
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unusable(file, error) from None
    try:
        return _holder(descriptor, 0, _EVERYTHING)
    except OSError as error:
        if error.errno not in _NO_LOCKS_HERE:
            raise _unusable(file, error) from None
        return None
    finally:
        os.close(descriptor)


def _opened(file: Path) -> int:
    """Open the file, which whoever comes first makes: for all users of the folder, whatever the umask is."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise _unusable(file, error) from None
    with suppress(PermissionError):  # it is another user's
        os.fchmod(descriptor, 0o666)
    return descriptor


def _unusable(file: Path, error: OSError) -> DdlbenchError:
    return DdlbenchError(f"{file}: {error.strerror}. Each call of Snakemake in this folder locks this file.")


def _lock(descriptor: int, name: str, kind: int) -> None:
    place = _place(name)
    try:
        fcntl.lockf(descriptor, kind | fcntl.LOCK_NB, 1, place)
    except (BlockingIOError, PermissionError):
        process = _holder(descriptor, place, 1)
        raise DdlbenchError(
            f"{name}: another call of Snakemake{f' (process {process})' if process else ''} is making it, or needs it. "
            "Start again when that has ended; targets that share no file can be made at the same time."
        ) from None


def _holder(descriptor: int, place: int, length: int) -> int | None:
    """Return the id of the process that holds a lock here; if it is on another node, the id is that node's."""
    asked = _FLOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, place, length, 0)
    kind, _, _, _, process = _FLOCK.unpack(fcntl.fcntl(descriptor, fcntl.F_GETLK, asked))
    return None if kind == fcntl.F_UNLCK else int(process)


def _place(name: str) -> int:
    return int.from_bytes(sha256(os.path.abspath(name).encode()).digest()[:7])
