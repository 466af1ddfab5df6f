"""When the delay process lets a packet go, in a made-up time."""

import random
import struct
from collections import deque

import pytest

from ddlbench.network import delay
from ddlbench.network.delay import Queue

MS = 1_000_000  # ns
EARLY_NS = 200_000  # as it wakes that late
PACKETS = 2000


class Packets:
    """A socket from which so many packets come at once."""

    def __init__(self, count: int) -> None:
        self.ids = iter(range(count))

    def recv_into(self, buffer: bytearray) -> None:
        if (number := next(self.ids, None)) is None:
            raise BlockingIOError
        struct.pack_into("!I", buffer, 24, number)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    """A queue that needs no kernel, at a moment that does not pass."""
    made = Queue.__new__(Queue)
    made.delay_ns, made.jitter_ns, made.waiting = 20 * MS, 8 * MS, deque()
    monkeypatch.setattr(delay, "monotonic_ns", lambda: 0)
    random.seed(1)
    return made


def due_ns(queue: Queue, count: int) -> list[int]:
    """When packets are due that arrive at once."""
    queue.socket = Packets(count)  # type: ignore[assignment]
    queue.take(bytearray(64))
    return [due for due, _ in queue.waiting]


def test_jitter_lets_as_many_packets_go_early_as_late_within_its_bounds(queue: Queue) -> None:
    found = []
    for _ in range(PACKETS):
        queue.waiting.clear()  # none waits for another
        found += due_ns(queue, 1)
    late_ns = [due + EARLY_NS for due in found]
    assert 12 * MS <= min(late_ns) < 12.5 * MS
    assert 27.5 * MS < max(late_ns) <= 28 * MS
    assert 0.45 < sum(due < 20 * MS for due in late_ns) / PACKETS < 0.55


def test_no_packet_overtakes_another(queue: Queue) -> None:
    found = due_ns(queue, 50)
    assert found == sorted(found)
    assert [number for _, number in queue.waiting] == list(range(50))


def test_without_jitter_all_packets_take_the_same(queue: Queue) -> None:
    queue.jitter_ns = 0
    assert set(due_ns(queue, 50)) == {20 * MS - EARLY_NS}
