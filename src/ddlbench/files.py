"""Files that are complete or absent: atomic writes, creation without overwriting, and hashes of contents."""

import errno
import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ddlbench.errors import DdlbenchError

_TAIL_LINES = 8


def write_atomically(path: Path | str, data: bytes | str) -> None:
    """Replace a file in one step: after a crash or power failure it has the old content or the new, never a part.

    Args:
        path: the file; its folder is made if there is none.
        data: the whole content; text is encoded as UTF-8.

    Raises:
        DdlbenchError: the disk is full.
    """
    with _complete_temporary_file(Path(path), data) as temporary:
        os.replace(temporary, path)


def create_once(path: Path | str, data: bytes | str) -> bool:
    """Create a file in one step, unless it exists.

    Args:
        path: the file; its folder is made if there is none.
        data: the whole content; text is encoded as UTF-8.

    Returns:
        Whether it was created; False: it exists, and was not changed.

    Raises:
        DdlbenchError: the disk is full.
    """
    with _complete_temporary_file(Path(path), data) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
    return True


@contextmanager
def _complete_temporary_file(path: Path, data: bytes | str) -> Iterator[str]:
    """A file beside `path` with all of `data` on disk; it is removed afterwards unless it was renamed."""
    temporary = ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "wb") as file:
            file.write(data.encode() if isinstance(data, str) else data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        yield temporary
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DdlbenchError(
                f"{path}: the disk is full. What was measured before is kept; make room and start again."
            ) from error
        raise
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


def sha256_file(path: Path | str) -> str:
    """SHA-256 of a file's content, as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_json(value: Any) -> str:
    """SHA-256 of `canonical_json(value)`, as hexadecimal digits: equal values have equal hashes."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """Write a value as JSON with sorted keys and no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def tail(log: Path) -> str:
    """The last lines of a log, indented, to append to a message; empty if there is no such file."""
    lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:] if log.exists() else []
    return "".join(f"\n    {line}" for line in lines)
