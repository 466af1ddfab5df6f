"""What the commands print, each line with the name of its host, up to a bound; and what we say about them."""

import errno
import os
import re
import select
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ddlbench.errors import DdlbenchError, DiskFull, has_no_room

_LINE_END = re.compile(rb"\r\n|\r|\n")  # a progress bar ends its lines with \r alone
_LONGEST_LINE_BYTES = 1 << 16
_READ_BYTES = 1 << 20
_GONE = (errno.EPIPE, errno.EIO)  # a pipe's reader, a terminal


class ReaderGone(DdlbenchError):
    """What we print to has been closed."""


class Budget:
    """How much of a host's output is still shown.

    Attributes:
        seen_bytes: how much the host has printed.
    """

    def __init__(self, host: str, shown_bytes: int) -> None:
        self.host = host
        self.seen_bytes = 0
        self._limit_bytes = shown_bytes

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is shown."""
        return self.seen_bytes > self._limit_bytes

    def take(self, count: int) -> bool:
        """Count some bytes.

        Args:
            count: how many.

        Returns:
            Whether these were the ones that have spent the budget.
        """
        before = self.is_spent
        self.seen_bytes += count
        return self.is_spent and not before


class Stream:
    """The reading end of a pipe that a command prints to, and where its lines go.

    Args:
        budget: of its host.
        width: of the longest host's name.
        target: a file descriptor, standard output or standard error.
    """

    def __init__(self, budget: Budget, width: int, target: int) -> None:
        self._reading, writing = os.pipe()
        self._writing: int | None = writing  # open until the end, for it is opened again by the command
        os.set_blocking(self._reading, False)
        self._budget = budget
        self._prefix = f"{budget.host:<{width}} | ".encode()
        self._target = target
        self._part = b""

    @property
    def path(self) -> str:
        """The path by which other processes of the sandbox open the pipe to write, as long as some process has it."""
        return f"/proc/{os.getpid()}/fd/{self._writing}"

    def fileno(self) -> int:
        """Get the file descriptor that becomes readable when the command prints."""
        return self._reading

    def forward(self) -> bool:
        """Print what has come.

        Returns:
            Whether more may come: False when the last process has closed the pipe.

        Raises:
            ReaderGone: nobody reads what is printed.
            DiskFull: what is printed to is on a disk that is.
        """
        try:
            chunk = os.read(self._reading, _READ_BYTES)
        except BlockingIOError:
            return True
        if not chunk:
            self._print([self._part] if self._part else [])
            self._part = b""
            return False
        if self._budget.is_spent:
            self._budget.take(len(chunk))
        elif self._budget.take(len(chunk)):
            self._part = b""
            self._print([b"[ddlbench: it prints too much; the rest is not shown, see --shown-mb]"])
        else:
            self._forward_lines(chunk)
        return True

    def drain(self) -> None:
        """Print what is still in the pipe, when no process of the host has it any more.

        Raises:
            ReaderGone: nobody reads what is printed.
            DiskFull: what is printed to is on a disk that is.
        """
        self._close_writing()
        while self.forward():
            pass

    def close(self) -> None:
        """Close the pipe."""
        self._close_writing()
        os.close(self._reading)

    def _close_writing(self) -> None:
        if self._writing is not None:
            os.close(self._writing)
        self._writing = None

    def _forward_lines(self, chunk: bytes) -> None:
        text = self._part + chunk
        held = text[-1:] if text.endswith(b"\r") else b""  # perhaps the first half of \r\n
        *lines, rest = _LINE_END.split(text[: len(text) - len(held)])
        self._part = rest + held
        if len(self._part) > _LONGEST_LINE_BYTES:
            lines.append(self._part)
            self._part = b""
        self._print(lines)

    def _print(self, lines: list[bytes]) -> None:
        _write(self._target, b"".join(self._prefix + line + b"\n" for line in lines))


@contextmanager
def told_when_full(what: str) -> Iterator[None]:
    """Tell that the disk is full, if something cannot be written therefore.

    Args:
        what: is written.

    Yields:
        Nothing; the body of the `with` writes.

    Raises:
        DiskFull: it is.
    """
    try:
        yield
    except OSError as error:
        if has_no_room(error):
            raise DiskFull(f"{what}: the disk is full. Make room, and start again") from error
        raise


def _write(target: int, data: bytes) -> None:
    """Write all of it, however slowly it is read."""
    rest = memoryview(data)
    while rest:
        try:
            with told_when_full("the output of the commands"):
                rest = rest[os.write(target, rest) :]
        except BlockingIOError:  # whoever has started us reads slowly, and does not let us wait in `write`
            _wait_for_room(target)
        except OSError as error:
            if error.errno in _GONE:
                raise ReaderGone("nobody reads the output any more") from None
            raise


def _wait_for_room(target: int) -> None:
    waiting = select.poll()
    waiting.register(target, select.POLLOUT)
    waiting.poll()


def say(text: str) -> None:
    """Tell the user something about the commands.

    Args:
        text: a line.
    """
    tell(f"ddlbench: {text}")


def tell(text: str) -> None:
    """Write something to standard error, however slowly that is read.

    Args:
        text: lines. Nobody gets them where nobody reads the output any more.

    Raises:
        DiskFull: what is printed to is on a disk that is.
    """
    with suppress(ReaderGone):
        _write(sys.stderr.fileno(), f"{text}\n".encode())
