"""How much others take of the cores: a stranger's process is seen, one of ours is not."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from ddlbench.telemetry.core_times import busy_times_s, core_times_s
from ddlbench.telemetry.other_load import LoadWatch, OtherLoad, wait_for_others
from tests.support.remains import eventually

STAT = """cpu  1300 30 700 9000 5 6 7 400 0 0
cpu0 1000 10 300 4000 1 2 3 300 0 0
cpu1 300 20 400 5000 4 4 4 100 0 0
intr 1 2 3
"""


@pytest.fixture
def busy() -> Iterator[int]:
    """The id of a process that takes a core."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    yield process.pid
    process.kill()
    process.wait()


def test_processes_and_the_hypervisor_are_told_apart_on_the_cores_asked_for():
    second = os.sysconf("SC_CLK_TCK")
    assert core_times_s(STAT, [0]) == (1310 / second, 300 / second)
    assert core_times_s(STAT, [0, 1]) == (pytest.approx(2030 / second), pytest.approx(400 / second))


def test_a_core_is_busy_with_all_but_idling_and_waiting_for_a_disk():
    second = os.sysconf("SC_CLK_TCK")
    assert busy_times_s(STAT, [0, 1]) == [pytest.approx(1615 / second), pytest.approx(828 / second)]


def test_a_process_of_somebody_else_is_seen(busy):
    watch = LoadWatch(own=lambda: [os.getpid()])
    assert eventually(lambda: (load := watch.since_start()) is None or load.others_percent > 0.1)


def test_a_process_of_ours_is_not(busy):
    strange, ours = LoadWatch(own=lambda: [os.getpid()]), LoadWatch(own=lambda: [os.getpid(), busy])

    def differ() -> bool:
        all_of_it, others = strange.since_start(), ours.since_start()
        return all_of_it is None or others is None or all_of_it.others_percent > others.others_percent

    assert eventually(differ)


@pytest.mark.parametrize(
    ("others", "steal", "lasted_s", "too_much"),
    [(20, 0, 10, False), (50, 0, 10, True), (15, 15, 10, True), (30, 0, 0.05, False), (90, 0, 0.05, True)],
)
def test_what_others_take_counts_beyond_what_ticks_can_tell(others, steal, lasted_s, too_much):
    assert OtherLoad(lasted_s, 2, others, steal).exceeds(25) == too_much


def test_without_patience_nobody_waits(busy, capsys):
    wait_for_others(0, 25)
    assert capsys.readouterr().err == ""
