"""Files that are whole or absent: atomic writes, append-only creation, and hashes of contents."""

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
    """Replace `path` by `data` in one step; after any death it holds the old content or the new, never a part.

    Raises DdlbenchError where the disk is full.
    """
    with _complete_temporary_file(Path(path), data) as temporary:
        os.replace(temporary, path)


def create_once(path: Path | str, data: bytes | str) -> bool:
    """Create `path` with `data` in one step; False, and nothing changed, where it exists already."""
    with _complete_temporary_file(Path(path), data) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:
            return False
    return True


@contextmanager
def _complete_temporary_file(path: Path, data: bytes | str) -> Iterator[str]:
    """A file beside `path` that holds all of `data` on disk; gone afterwards unless it was renamed."""
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
    """SHA-256 of a file's bytes, as hexadecimal digits."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_json(value: Any) -> str:
    """SHA-256 of the canonical JSON of `value`: sorted keys, no spaces, so that equal values hash alike."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """`value` as JSON with sorted keys and no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def tail(log: Path) -> str:
    """The last lines of a log, indented, to follow a message."""
    lines = log.read_text(errors="replace").splitlines()[-_TAIL_LINES:] if log.exists() else []
    return "".join(f"\n    {line}" for line in lines)
