"""How late the kernel may wake threads, which is what keeps idle ones from waking for nothing."""

import threading
from pathlib import Path

import pytest

from ddlbench.system.calls import timer_slack_of_new_threads

pytestmark = pytest.mark.unit


def slack_ns() -> int:
    """That of the calling thread."""
    return int(Path(f"/proc/{threading.get_native_id()}/timerslack_ns").read_text())


def slack_of_a_new_thread_ns() -> int:
    found: list[int] = []
    thread = threading.Thread(target=lambda: found.append(slack_ns()))
    thread.start()
    thread.join()
    return found[0]


def test_threads_that_are_started_meanwhile_have_the_slack_and_their_starter_keeps_its_own():
    own_ns = slack_ns()
    with timer_slack_of_new_threads(7_000_000):
        assert slack_of_a_new_thread_ns() == 7_000_000
    assert slack_ns() == slack_of_a_new_thread_ns() == own_ns
