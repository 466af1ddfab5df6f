"""Where the output of emulated commands goes: to somebody who does not wait, or to a disk that is full."""

import os
import select
from contextlib import closing, redirect_stderr
from pathlib import Path
from threading import Thread
from time import sleep

import pytest

from ddlbench.emulate.output import Budget, Stream, say
from ddlbench.emulate.series import Series, passed
from ddlbench.errors import DiskFull
from ddlbench.telemetry.counters import Counted

LINES = 20_000  # more than a pipe has room for, with the names of hosts


@pytest.fixture
def forwarding():
    """A function that forwards, to a descriptor, what is printed to a stream until it ends."""

    def forward(text: bytes, target: int) -> None:
        with closing(Stream(Budget("h1", len(text)), 2, target)) as stream:
            printing = Thread(target=Path(stream.path).write_bytes, args=(text,))
            printing.start()
            while stream.forward() and printing.is_alive():
                pass
            printing.join()
            stream.drain()

    return forward


@pytest.fixture
def slow_reader():
    """The writing end of a pipe in which nobody may wait, and all lines that its reader got when it had been full."""
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    read: list[bytes] = []

    def read_when_full() -> None:
        while select.select([], [writing], [], 0)[1]:
            sleep(0.01)
        read.extend(file)

    def lines() -> list[bytes]:
        os.close(writing)
        reader.join()
        return read

    with open(reading, "rb") as file:
        reader = Thread(target=read_when_full)
        reader.start()
        yield writing, lines


def test_a_reader_that_does_not_let_us_wait_gets_every_line(forwarding, slow_reader):
    writing, lines = slow_reader
    forwarding(b"line\n" * LINES, writing)
    assert lines() == [b"h1 | line\n"] * LINES


def test_what_we_say_reaches_a_reader_that_does_not_let_us_wait(slow_reader):
    writing, lines = slow_reader
    with open(writing, "w", closefd=False) as errors, redirect_stderr(errors):
        for _ in range(LINES):
            say("h2 ended with SIGKILL")
    assert lines() == [b"ddlbench: h2 ended with SIGKILL\n"] * LINES


def test_a_full_disk_is_told_in_one_line(forwarding, tmp_path):
    full = os.open("/dev/full", os.O_WRONLY)
    with pytest.raises(DiskFull, match="the output of the commands: the disk is full"):
        forwarding(b"line\n", full)
    os.close(full)


def test_a_series_for_which_there_is_no_room_is_told_by_its_file():
    series = Series(Path("/dev/full"), [], 1.0)
    with pytest.raises(DiskFull, match="/dev/full: the disk is full"):
        series.close()


def test_short_packets_of_udp_take_the_bytes_of_tcp_not_below_zero():
    before, after = (
        Counted({}, 0, sent, 0, 0, received, 0, again) for sent, received, again in ((9, 5, 1), (2, 8, 4))
    )
    assert passed(before, after) == (0, 3, 3)
