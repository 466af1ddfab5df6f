"""How long threads wait for a core: a process that must share one waits, and it is counted from a moment on."""

import multiprocessing
import os
from multiprocessing.synchronize import Event

from ddlbench.telemetry.waiting import Waiting
from tests.support.remains import eventually


def busy_on(core: int, stop: Event) -> None:
    os.sched_setaffinity(0, {core})
    while not stop.is_set():
        pass


def test_two_processes_on_one_core_run_and_wait():
    context = multiprocessing.get_context("fork")
    stop, core = context.Event(), min(os.sched_getaffinity(0))
    busy = [context.Process(target=busy_on, args=(core, stop), daemon=True) for _ in range(2)]
    for process in busy:
        process.start()
    waiting = Waiting(process.pid or 0 for process in busy)
    assert eventually(
        lambda: all(each["ran_ms"] > 1 and each["waited_ms"] > 1 for each in waiting.since_start())
    )
    later = Waiting(process.pid or 0 for process in busy)
    for so_far, all_of_it in zip(later.since_start(), waiting.since_start(), strict=True):
        assert so_far["waited_ms"] <= all_of_it["waited_ms"]
    stop.set()
    for process in busy:
        process.join()


def test_a_process_that_has_ended_has_neither_run_nor_waited():
    assert Waiting([2**22 - 1]).since_start() == [{"ran_ms": 0.0, "waited_ms": 0.0}]
