"""One measurement at a time on a machine or on an allocation's nodes: a kernel lock for all checkouts and all users.

Snakemake's `threads` keep the jobs of one call apart, unless `--cores` or `--set-threads` say otherwise. Two calls know
nothing of each other.
"""

import fcntl
import os
import pwd
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path

from ddlbench.errors import DdlbenchError

_FOLDERS = (Path("/run/lock"), Path("/tmp"))  # the file is never written to  # nosec B108
_FOR_EVERYBODY = stat.S_ISVTX | stat.S_IWOTH
_NAME = "ddlbench-measuring.lock"
_ALLOCATION = "DDLBENCH_ALLOCATION"  # the job of SLURM's that Snakemake plans in; its jobs inherit it


@contextmanager
def alone_on_this_machine(
    when_busy: str, file: Path | None = None, where: str = "on this machine"
) -> Iterator[None]:
    """Hold this machine's lock of measurements. The kernel releases it however the process ends.

    Args:
        when_busy: what to do while another process has it: `wait` and say for whom, `refuse`, or `ignore` it.
        file: the file that is locked; None: the one that all checkouts and users lock.
        where: what the lock stands for, in words.

    Yields:
        Nothing; the `with` measures.

    Raises:
        DdlbenchError: another process measures, and that is refused; or this user may not open the file.
    """
    if when_busy == "ignore":
        yield
        return
    descriptor = _opened(file or shared_folder() / _NAME)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            busy = f"another measurement is running {where}{_holder(descriptor)}"
            if when_busy == "refuse":
                raise DdlbenchError(f"{busy}. Both would be wrong; start again when it has ended.") from None
            print(f"waiting: {busy}", file=sys.stderr, flush=True)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def note_allocation() -> None:
    """Have the jobs of this process, which plans them, know the job of SLURM's that it is in itself."""
    os.environ[_ALLOCATION] = os.environ.get("SLURM_JOB_ID", "")


def alone_on_these_nodes(when_busy: str) -> AbstractContextManager[None]:
    """Hold the lock of the nodes of an allocation that Snakemake was started in, where all its jobs run.

    A job that was submitted has its nodes for itself. It takes no lock: SLURM may start it again while its first driver
    still lives, which may store nothing any more.

    Args:
        when_busy: as of `alone_on_this_machine`.

    Returns:
        The context in which to measure.
    """
    job = os.environ.get("SLURM_JOB_ID")
    if not job or job != os.environ.get(_ALLOCATION):
        return nullcontext()
    lock = shared_folder() / f"ddlbench-measuring-{job}.lock"
    return alone_on_this_machine(when_busy, lock, f"on the nodes of SLURM's job {job}")


def shared_folder(folders: Sequence[Path] = _FOLDERS) -> Path:
    """Choose the folder of the lock: the same for all users, so each must be able to write there.

    Args:
        folders: that it may be; on some systems root alone writes to the first.

    Returns:
        The first in which everybody may make files of his own; the last if there is none.
    """
    for each in folders:
        if each.is_dir() and each.stat().st_mode & _FOR_EVERYBODY == _FOR_EVERYBODY:
            return each
    return folders[-1]


def _opened(file: Path) -> int:
    """Open the file to read, which is enough for a lock; whoever comes first makes it."""
    try:
        return os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        descriptor = os.open(file, os.O_RDONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
        with suppress(PermissionError):  # another user was first
            os.fchmod(descriptor, 0o644)  # whatever the umask is: all users must be able to open it
        return descriptor
    except PermissionError:
        raise DdlbenchError(
            f"{file}: this user may not open the lock that all measurements on this machine take.\n"
            f"  Its owner, or root, can change that:  chmod 644 {file}"
        ) from None


def _holder(descriptor: int) -> str:
    """Which process holds the lock, whose it is, and where it works; empty if this user may not know."""
    inode = os.fstat(descriptor).st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if words[1] == "FLOCK" and words[5].endswith(f":{inode}"):
            process = Path("/proc") / words[4]
            try:
                user = pwd.getpwuid(process.stat().st_uid).pw_name
                return f" (process {words[4]} of {user}, in {os.readlink(process / 'cwd')})"
            except (OSError, KeyError):
                return f" (process {words[4]})"
    return ""
