"""Opening what is expected to be a regular file: a path from outside may lead to anything, and nobody waits for it."""

import errno
import io
import os
import stat
from pathlib import Path


def open_regular(path: Path | str | bytes, *, follow: bool = False) -> io.BufferedReader:
    """Open what is expected to be a regular file, without waiting: a path from outside may lead to anything.

    Args:
        path: of the file.
        follow: if it is a symbolic link, open what that leads to.

    Returns:
        The file, open for reading bytes. The caller closes it.

    Raises:
        OSError: it is missing, a folder, a pipe, a device, a symbolic link, or may not be read; `strerror` says which.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if follow else os.O_NOFOLLOW)
    try:
        descriptor = os.open(path, flags)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise OSError(
                errno.ELOOP, "is a symbolic link, which is not followed", os.fsdecode(path)
            ) from None
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "is no regular file", os.fsdecode(path))
    return os.fdopen(descriptor, "rb")
