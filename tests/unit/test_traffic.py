"""What is sent over links to measure them: how much of it passes, and how much gets lost."""

from contextlib import contextmanager
from unittest import mock

import pytest

from ddlbench.network import traffic
from ddlbench.network.link import Link
from ddlbench.network.sizes import drain_ms, queue_bytes
from ddlbench.network.traffic import FRAME, FULL, LOSS_PAYLOAD, rates_mbit, send_small_packets, settled_count

ON_THE_WIRE = LOSS_PAYLOAD + 42
TO_SEND_S = 4e-6


class SlowLink:
    """A link's queue in a made-up time, which passes while packets are sent and while somebody sleeps."""

    def __init__(self, link: Link) -> None:
        self.bytes_per_s, self.room = link.bandwidth_mbit * 1e6 / 8, queue_bytes(link)
        self.now_s = self.free_s = 0.0
        self.taken = self.dropped = 0

    def sleep(self, s: float) -> None:
        self.now_s += s

    def settimeout(self, s: float) -> None:
        pass

    def send(self, packet: bytes) -> None:
        self.now_s += TO_SEND_S
        if (self.free_s - self.now_s) * self.bytes_per_s + ON_THE_WIRE > self.room:
            self.dropped += 1
            return
        self.taken += 1
        self.free_s = max(self.free_s, self.now_s) + ON_THE_WIRE / self.bytes_per_s


@pytest.mark.parametrize("bandwidth_mbit", [0.05, 1, 100, 2000])
def test_a_link_that_is_slower_than_its_sender_drops_none_of_the_packets_that_are_counted(
    bandwidth_mbit, monkeypatch
):
    slow = SlowLink(Link(bandwidth_mbit, 20))
    monkeypatch.setattr(traffic, "sleep", slow.sleep)
    monkeypatch.setattr(traffic, "monotonic", lambda: slow.now_s)
    send_small_packets([slow], [Link(2000), Link(bandwidth_mbit)], 4_010, longest_ms=20)
    assert (slow.taken, slow.dropped) == (4_010, 0)


@pytest.mark.parametrize("latency_ms", [0, 150, 2000])
def test_the_rate_of_a_link_is_that_of_its_middle_however_late_its_packets_are_counted(
    latency_ms, monkeypatch
):
    link, burst_bytes = Link(5, latency_ms), 16_384
    now_s = 0.0

    @contextmanager
    def watching(sockets, event):
        def ready(wait_s):
            nonlocal now_s
            now_s += wait_s
            return []

        yield ready

    def counted(ports, column):
        """As where netem delays packets: nothing comes at first, then a burst."""
        since_s = now_s - link.latency_ms / 1000
        octets = burst_bytes + since_s * link.bandwidth_mbit * 1e6 / 8 if since_s > 0 else 0
        return [octets if column == 0 else octets / FRAME]

    monkeypatch.setattr(traffic, "monotonic", lambda: now_s)
    monkeypatch.setattr(traffic, "watching", watching)
    monkeypatch.setattr(traffic, "counters", counted)
    monkeypatch.setattr(traffic, "settled_count", lambda *_, **__: [])
    endpoint = mock.Mock()
    assert rates_mbit([[endpoint]], [endpoint], [link], 16_384, FULL, drain_ms=0) == [pytest.approx(5)]


@pytest.mark.parametrize("dilation", [1, 8, 128])
def test_a_queue_that_is_full_is_waited_for_until_it_is_empty(dilation, monkeypatch):
    """As where netem delays packets, and sockets are not held back. Queues are as long as without dilation."""
    link = Link(1000, 1, 1)
    made, now_s = link.dilated(dilation), 0.0

    def sleep(s):
        nonlocal now_s
        now_s += s

    def passed_bytes():
        since_s = now_s - made.latency_ms / 1000
        return [min(queue_bytes(link), max(0, int(since_s * made.bandwidth_mbit * 1e6 / 8)))]

    monkeypatch.setattr(traffic, "monotonic", lambda: now_s)
    monkeypatch.setattr(traffic, "sleep", sleep)
    counted = settled_count(passed_bytes, made.latency_ms, drain_ms=drain_ms(link, dilation))
    assert counted == [queue_bytes(link)]
