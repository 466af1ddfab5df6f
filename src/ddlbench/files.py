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

from ddlbench.errors import DiskFull, has_no_room
from ddlbench.system.regular_files import open_regular

MOST_BYTES = 1 << 28  # of a file that is read at once
_TAIL_LINES = 8


def write_atomically(path: Path | str, data: bytes | str) -> None:
    """Replace a file in one step: after a crash or power failure it has the old content or the new, never a part.

    Args:
        path: the file; its folder is made if there is none.
        data: the whole content; text is encoded as UTF-8.

    Raises:
        DiskFull: it is.
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
        DiskFull: it is.
    """
    with _complete_temporary_file(Path(path), data) as temporary:
        try:
            os.link(temporary, path)
        except FileExistsError:  # as NFS says too where it was linked, and the answer was lost
            return os.stat(temporary).st_nlink > 1
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
        if has_no_room(error):
            raise DiskFull(
                f"{path}: the disk is full. What was measured before is kept; make room and start again."
            ) from error
        raise
    finally:
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


def read_regular(path: Path | str, most_bytes: int = MOST_BYTES) -> bytes:
    """Read a file from outside, as `open_regular` opens it. Symbolic links are not followed.

    Args:
        path: of the file.
        most_bytes: a larger file is not read.

    Returns:
        The whole content.

    Raises:
        OSError: as of `open_regular`, or the file is too large.
    """
    with open_regular(path) as file:
        content = file.read(most_bytes + 1)
    if len(content) > most_bytes:
        raise OSError(
            errno.EFBIG, f"is larger than the {most_bytes} bytes that are expected at most", str(path)
        )
    return content


def read_json(path: Path | str) -> Any:
    """The JSON value in a file from outside.

    Args:
        path: of the file.

    Returns:
        What `json.loads` makes of it.

    Raises:
        OSError: as `read_regular`.
        ValueError: the file holds no JSON, or brackets nested too deeply.
    """
    try:
        return json.loads(read_regular(path))
    except RecursionError:
        raise ValueError("its brackets are nested too deeply") from None


def is_hashed(value: Any) -> bool:
    """Say whether a value from outside tells the hash of a file.

    Args:
        value: JSON data.

    Returns:
        True if it has a `sha256`, and a `path` as of `is_path`.
    """
    return isinstance(value, dict) and is_path(value.get("path")) and isinstance(value.get("sha256"), str)


def is_path(value: Any) -> bool:
    """Say whether a value from outside can name a file.

    Args:
        value: JSON data.

    Returns:
        True if it is text that the system takes as a path.
    """
    try:
        return isinstance(value, str) and b"\0" not in value.encode()
    except UnicodeEncodeError:  # JSON can hold half of a surrogate pair
        return False


def sha256_file(path: Path | str, *, follow: bool = True) -> str:
    """Compute the SHA-256 of a file's content.

    Args:
        path: of the file.
        follow: if it is a symbolic link, hash what that leads to.

    Returns:
        Hexadecimal digits.

    Raises:
        OSError: as of `open_regular`.
    """
    with open_regular(path, follow=follow) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def sha256_json(value: Any) -> str:
    """Compute the SHA-256 of `canonical_json(value)`. Equal values have equal hashes.

    Args:
        value: JSON data.

    Returns:
        Hexadecimal digits.

    Raises:
        ValueError: it contains NaN or infinity.
    """
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()


def canonical_json(value: Any) -> str:
    """Write a value as JSON with sorted keys and no spaces.

    Args:
        value: JSON data.

    Returns:
        One line.

    Raises:
        ValueError: it contains NaN or infinity.
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def tail(log: Path, begin: int = 0) -> str:
    """Take the end of a log, to append it to a message.

    Args:
        log: the file; it may be missing.
        begin: what is written before this byte is of earlier processes.

    Returns:
        The last lines, each after a line break and indented; empty if there is no such file.
    """
    lines = since(log, begin).splitlines()[-_TAIL_LINES:]
    return "".join(f"\n    {line}" for line in lines)


def since(log: Path, begin: int) -> str:
    """Read a log from a byte on.

    Args:
        log: the file; it may be missing.
        begin: the first byte.

    Returns:
        The text; empty if there is no such file.
    """
    return log.read_bytes()[begin:].decode(errors="replace") if log.exists() else ""


def size_of(log: Path) -> int:
    """Find how many bytes a log has; 0 if there is no such file.

    Args:
        log: the file.

    Returns:
        Its size.
    """
    return log.stat().st_size if log.exists() else 0
