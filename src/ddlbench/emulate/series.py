"""What each host does over time, as a CSV file: a row for each host and moment.

One process reads all hosts, the supervisor, which also forwards what they print. Its CPU time is on no host's account.
"""

import csv
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from ddlbench.emulate.output import told_when_full
from ddlbench.telemetry.counters import Counted, Counters, parse
from ddlbench.telemetry.load import Load

COLUMNS = ("time_s", "host", "cpu_s", "memory_bytes", "sent_bytes", "received_bytes", "tcp_retransmits")
_INTERVAL_S = 0.1  # in the hosts' time
_CHILDREN_S = 1.0  # how often processes that were started since are looked for


@dataclass(frozen=True)
class Sampled:
    """A host that is sampled.

    Attributes:
        name: of the host.
        counters: of its network namespace.
        before: their values at the start.
        load: of its processes; None: not measured.
    """

    name: str
    counters: Counters
    before: Counted
    load: Load | None


class Series:
    """A file that grows while the commands run. Times and CPU times in it are the hosts': real ones, divided.

    Args:
        file: to be written.
        hosts: that are sampled.
        dilation: how much slower the hosts' time runs.
    """

    def __init__(self, file: Path, hosts: Sequence[Sampled], dilation: float) -> None:
        self._hosts = hosts
        self._dilation = dilation
        self._began_s = monotonic()
        self._due_s = self._children_due_s = 0.0
        self._file = file.open("w", newline="")
        self._writer = csv.writer(self._file, lineterminator="\n")
        self._writer.writerow(COLUMNS)

    def sample(self) -> None:
        """Read all hosts, if it is time to.

        Raises:
            DiskFull: the file could not be continued.
        """
        now_s = monotonic()
        if now_s < self._due_s:
            return
        self._due_s = now_s + _INTERVAL_S * self._dilation
        if now_s > self._children_due_s:
            self._children_due_s = now_s + _CHILDREN_S
            for load in filter(None, (host.load for host in self._hosts)):
                load.find_children()
        with self._told_when_full():
            for host in self._hosts:
                self._writer.writerow(self._row(host))

    def close(self) -> None:
        """Finish the file.

        Raises:
            DiskFull: it could not be finished.
        """
        with self._told_when_full():
            self._file.close()

    def _told_when_full(self) -> AbstractContextManager[None]:
        return told_when_full(self._file.name)

    def _row(self, host: Sampled) -> tuple[object, ...]:
        cpu_s, memory_bytes = "", ""
        if host.load:
            cpu_ns, resident_bytes = host.load.read()
            cpu_s, memory_bytes = f"{cpu_ns / 1e9 / self._dilation:.6f}", str(resident_bytes)
        return (
            f"{(monotonic() - self._began_s) / self._dilation:.3f}",
            host.name,
            cpu_s,
            memory_bytes,
            *passed(host.before, parse(host.counters.read())),
        )


def passed(before: Counted, after: Counted) -> tuple[int, int, int]:
    """Compute what passed over TCP. Bytes of UDP are in it as far as the kernel's counters cannot tell them apart.

    Args:
        before: the counters of a host.
        after: the same counters later.

    Returns:
        Bytes that were sent and that were received, which short UDP packets do not take below 0, and segments that TCP
        sent again.
    """
    return (
        max(0, after.sent_bytes - before.sent_bytes),
        max(0, after.received_bytes - before.received_bytes),
        after.tcp_retransmits - before.tcp_retransmits,
    )
