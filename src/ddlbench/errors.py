"""Errors for users: what happened, where, and what to do. They are shown without a stack trace."""

import errno
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from difflib import get_close_matches
from pathlib import Path
from time import sleep
from typing import NoReturn

CALL = (
    "DDLBENCH_CALL"  # an environment variable: the process of the call of Snakemake that this one works for
)
FULL_DISK = signal.SIGUSR1  # tells that call that no job of it can write any more
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_ENDING_S = 30.0  # until a call has ended its jobs


class DdlbenchError(Exception):
    """An error that the user can do something about; only its text is shown."""

    exit_code = 1


class ConfigError(DdlbenchError):
    """A mistake in the configuration: file, key, value, and what was expected. It is found before anything starts."""

    exit_code = 2


class DiskFull(DdlbenchError):
    """A disk, or a user's share of it, has no room left."""

    exit_code = errno.ENOSPC  # by which a process learns why one that it has started has ended


def has_no_room(error: OSError) -> bool:
    """Say whether something could not be written for want of room.

    Args:
        error: of the system's.

    Returns:
        True if the disk is full, or the user's quota is used up.
    """
    return error.errno in _NO_ROOM


def nearest(name: object, known: Iterable[str]) -> str:
    """Find the known name that is most similar to a wrong one.

    Args:
        name: what the user wrote.
        known: the names that would have been right.

    Returns:
        A hint like ` (did you mean 'mlp'?)` that can be appended to a message; an empty string if no name is similar.
    """
    matches = get_close_matches(str(name), list(known), n=1, cutoff=0.5)
    return f" (did you mean {matches[0]!r}?)" if matches else ""


@contextmanager
def exit_on_error(log: str | None = None) -> Iterator[None]:
    """End the process with an error's text and exit code instead of a stack trace.

    A full disk is left to the call of Snakemake that has started this process, if it can be told: it says so once, and
    ends all its jobs, none of which could write.

    Args:
        log: a file that gets the text too, in place of its content; None: standard error alone.

    Yields:
        Nothing; the body of the `with` runs.
    """
    try:
        yield
    except DdlbenchError as error:
        _end(error, log)
    except OSError as error:
        if not has_no_room(error):
            raise
        _end(DiskFull(f"{error.filename or 'the disk'}: {error.strerror}"), log)


def _end(error: DdlbenchError, log: str | None) -> NoReturn:
    text = f"{error}\n"
    if log:
        with suppress(OSError):  # it may be full, too
            Path(log).write_text(text)
    if isinstance(error, DiskFull) and os.environ.get(CALL) == str(os.getppid()):
        os.kill(os.getppid(), FULL_DISK)
        sleep(_ENDING_S)  # it ends this process
    sys.stderr.write(text)
    sys.exit(error.exit_code)
