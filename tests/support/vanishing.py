"""What goes when the test run that made it does, however that ends: folders, users."""

import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_WHEN_ALONE = 'cat; "$@" || { sleep 2; "$@"; }'  # what is being killed may write for a moment


@contextmanager
def vanishing_folder(prefix: str) -> Iterator[Path]:
    """A new folder, which is removed when the block ends, or when this process is killed."""
    folder = tempfile.mkdtemp(prefix=prefix)
    with at_the_end("rm", "-rf", "--", folder):
        yield Path(folder)


@contextmanager
def at_the_end(*command: str) -> Iterator[None]:
    """Run a command when the block ends, or when this process is killed: its end of a pipe is closed by either."""
    waiting = subprocess.Popen(
        ["sh", "-c", _WHEN_ALONE, "sh", *command],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    )
    try:
        yield
    finally:
        waiting.communicate()
