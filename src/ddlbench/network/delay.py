"""The delay process: it holds back each forwarded packet of a link for that link's latency.

It binds one NFQUEUE for each link, in the network namespace that forwards, and gives the verdict when the latency is
over; the packets themselves never leave the kernel. Its input is lines of JSON, each a list of [delay, jitter] in
nanoseconds for every queue; it answers each with `ok`. If it dies, its queues forward nothing: a link never gets faster
than it should be.

    python -m ddlbench.network.delay NAMESPACE...       (file descriptors; queue i is in the i-th, counted from 0)
"""

import json
import os
import select
import socket
import struct
import sys
from collections import deque
from contextlib import suppress
from random import uniform
from time import monotonic_ns, sleep

from ddlbench.network.netfilter import NETLINK_NETFILTER, attribute
from ddlbench.system.calls import set_timer_slack
from ddlbench.system.namespaces import entered

_SUBSYSTEM_QUEUE = 3
_VERDICT_BATCH, _CONFIG = 3, 2
_REQUEST, _ACK = 1, 4
_SOL_NETLINK, _NO_ENOBUFS = 270, 5
_SO_RCVBUFFORCE = 33
_SOCKET_BUFFER_BYTES = 64 << 20
QUEUE_PACKETS = 400_000  # packets: 2 Gbit/s of full frames for more than two seconds
_COPY_META, _GSO_FLAG = 1, 4
_ACCEPT = 1
_PACKET_ID_OFFSET = (
    24  # netlink header 16, nfgenmsg 4, attribute header 4: the packet header is the first attribute
)
_BATCH, _VERDICTS = 64, 8  # packets received, packets released, at a time
# After packets have arrived, it pauses that long. If each packet woke it, it would preempt their senders.
_PAUSE_S = 100e-6
_TIMER_SLACK_NS = 1000
# How late a core, a virtual one in particular, wakes up at most after a long sleep.
_LATE_NS = 500_000
# The usual delay of pauses, timers and the return into Python; a packet is released that much early.
_EARLY_NS = 200_000


class Queue:
    """One NFQUEUE and the packets that wait in it, in order of arrival.

    Attributes:
        number: its number in its namespace.
        delay_ns: for how long a packet waits.
        jitter_ns: how much longer or shorter it may wait, uniformly distributed.
        waiting: (when it is due on the monotonic clock in ns, the kernel's id) of each packet.
    """

    def __init__(self, number: int, namespace: int) -> None:
        self.number = number
        self.delay_ns = self.jitter_ns = 0
        self.waiting: deque[tuple[int, int]] = deque()  # (due, packet id)
        with entered(namespace):
            self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        self.socket.bind((0, 0))
        try:
            self.socket.setsockopt(socket.SOL_SOCKET, _SO_RCVBUFFORCE, _SOCKET_BUFFER_BYTES)
        except PermissionError:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER_BYTES)
        self.socket.setsockopt(_SOL_NETLINK, _NO_ENOBUFS, 1)
        self._configure(attribute(1, struct.pack("!BBH", 1, 0, 0)))  # bind
        self._configure(attribute(2, struct.pack("!IB", 0, _COPY_META)))
        self._configure(attribute(3, struct.pack("!I", QUEUE_PACKETS)))
        flags = struct.pack("!I", _GSO_FLAG)
        self._configure(attribute(5, flags) + attribute(4, flags))
        self.socket.setblocking(False)

    def take(self, buffer: bytearray) -> None:
        """Receive the packets that have arrived.

        A packet is due one delay from now, and never before the packet ahead of it.

        Args:
            buffer: room for one message of the kernel; its content is overwritten.
        """
        now = monotonic_ns() - _EARLY_NS
        due = now + max(_EARLY_NS, self.delay_ns)
        try:
            for _ in range(_BATCH):
                self.socket.recv_into(buffer)
                if self.jitter_ns:
                    ahead = self.waiting[-1][0] if self.waiting else 0
                    delay_ns = self.delay_ns + round(uniform(-self.jitter_ns, self.jitter_ns))
                    due = max(ahead, now + max(_EARLY_NS, delay_ns))
                self.waiting.append((due, struct.unpack_from("!I", buffer, _PACKET_ID_OFFSET)[0]))
        except BlockingIOError:
            pass

    def release(self, now: int) -> int | None:
        """Let the packets pass that are due.

        One verdict covers all packets up to the one that it names. It is given for a few packets at a time: the kernel
        would do nothing else while it handles many.

        Args:
            now: the time on the monotonic clock, in ns.

        Returns:
            When the next packet is due, in ns; None if none waits.
        """
        while self.waiting and self.waiting[0][0] <= now:
            for _ in range(_VERDICTS):
                if not self.waiting or self.waiting[0][0] > now:
                    break
                last = self.waiting.popleft()[1]
            self.socket.send(
                self._message(_VERDICT_BATCH, attribute(2, struct.pack("!II", _ACCEPT, last)), 0)
            )
        return self.waiting[0][0] if self.waiting else None

    def _configure(self, attributes: bytes) -> None:
        self.socket.send(self._message(_CONFIG, attributes, _ACK))
        error: int = struct.unpack_from("=i", self.socket.recv(4096), 16)[0]
        if error:
            raise OSError(-error, f"nfnetlink_queue: {os.strerror(-error)}")

    def _message(self, kind: int, attributes: bytes, flags: int) -> bytes:
        header = struct.pack(
            "=IHHII", 20 + len(attributes), _SUBSYSTEM_QUEUE << 8 | kind, _REQUEST | flags, 0, 0
        ) + struct.pack("!BBH", 0, 0, self.number)
        return header + attributes


def serve(namespaces: list[int]) -> None:
    """Delay the packets of one queue in each namespace until the input ends.

    Args:
        namespaces: file descriptors; queue i is in the i-th, counted from 0. A namespace may be there several times.
    """
    set_timer_slack(_TIMER_SLACK_NS)
    # Only root may have real-time priority. Niceness would not help: it has no effect between sessions.
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    made = [Queue(number, namespace) for number, namespace in enumerate(namespaces)]
    queues = {queue.socket.fileno(): queue for queue in made}
    print("ok", flush=True)
    commands = sys.stdin.fileno()
    buffer = bytearray(8192)
    while True:
        now = monotonic_ns()
        due = [when for queue in queues.values() if (when := queue.release(now)) is not None]
        ready = select.select([commands, *queues], [], [], _wait_s(due))[0]
        for each in ready:
            if each == commands:
                line = sys.stdin.readline()
                if not line:
                    return
                for queue, (delay_ns, jitter_ns) in zip(made, json.loads(line), strict=True):
                    queue.delay_ns, queue.jitter_ns = delay_ns, jitter_ns
                print("ok", flush=True)
            else:
                queues[each].take(buffer)
        if ready:
            sleep(_PAUSE_S)


def _wait_s(due: list[int]) -> float | None:
    """Return how long to wait for the next packet that is due. A long wait ends early; a short, exact one follows."""
    if not due:
        return None
    wait_ns = max(0, min(due) - monotonic_ns())
    return (wait_ns if wait_ns < _LATE_NS else wait_ns - _LATE_NS) / 1e9


if __name__ == "__main__":
    serve([int(namespace) for namespace in sys.argv[1:]])
