"""What is made once in a test run, whichever of its processes needs it first."""

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The path that `make` makes; the others wait for it.

    Raises RuntimeError where it could not be made, with the words of whoever has tried.
    """
    folder = _folder_of_the_run(factory)
    path, made, failed = folder / name, folder / f"{name}.made", folder / f"{name}.failed"
    with _lock(folder / f"{name}.lock"):
        if failed.exists():
            raise RuntimeError(f"{name} could not be made:\n{failed.read_text()}")
        if not made.exists():
            try:
                make(path)
            except BaseException as error:
                shutil.rmtree(path, ignore_errors=True)
                failed.write_text(str(error))
                raise
            made.touch()
    return path


def _folder_of_the_run(factory: pytest.TempPathFactory) -> Path:
    """A folder that all processes of this test run have: each of several has its own below it."""
    own = factory.getbasetemp()
    return own.parent if "PYTEST_XDIST_WORKER" in os.environ else own


@contextmanager
def _lock(file: Path) -> Iterator[None]:
    with file.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)  # the kernel gives it back when this process ends
        yield
