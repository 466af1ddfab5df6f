"""The point-to-point probe between two emulated hosts, in a sandbox of its own.

python -m ddlbench.probes.link_probe JOB.json ANSWER.json        (the first process of the sandbox)
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from time import monotonic, sleep
from typing import Any

from ddlbench.errors import DdlbenchError
from ddlbench.files import tail
from ddlbench.measurements.point_to_point import from_netpipe
from ddlbench.measurements.statistics import needs_repetition
from ddlbench.network.hosts import GIB, Host
from ddlbench.network.limits import Capacity, check_link
from ddlbench.network.link import Link
from ddlbench.network.star import Star
from ddlbench.network.verify import Measured, verify
from ddlbench.probes.compiled_ping_pong import compiled
from ddlbench.probes.ping_pong import PeerVanished, Trips, answer, listening, probe, sizes
from ddlbench.protocol.measure import StopRule
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.sandbox.job import answer_of, do
from ddlbench.system.namespaces import enter, entered
from ddlbench.system.processes import describe_exit, die_with_parent

NETPIPE = "NPtcp"
_NETPIPE_TIMEOUT_S = 600
_LISTENS = "0A"  # a state in /proc/net/tcp
_START_TIMEOUT_S, _END_TIMEOUT_S, _POLL_S = 10.0, 2.0, 0.005


@dataclass(frozen=True)
class LinkProbeJob:
    """A link to probe; the arguments of `probe_link` describe its fields."""

    link: Link
    dilation: float
    rule: StopRule
    largest_bytes: int
    timeout_s: float
    netpipe: bool
    congestion_control: str
    tolerances: Tolerances | None


@dataclass(frozen=True)
class LinkProbed:
    """What a probe found.

    Attributes:
        times_s: one-way times by tool and message size in bytes, as they would be without dilation.
        vanished: what went wrong (None: nothing); the times are a part then.
        backend: what makes the link.
        measured: what the link was measured to be before (None without tolerances).
    """

    times_s: Mapping[str, Mapping[int, Sequence[float]]]
    vanished: str | None
    backend: str
    measured: Measured | None


def probe_link(
    link: Link,
    *,
    dilation: float,
    rule: StopRule,
    largest_bytes: int,
    timeout_s: float,
    netpipe: bool,
    congestion_control: str = "cubic",
    tolerances: Tolerances | None = None,
) -> LinkProbed:
    """Probe an emulated link.

    Args:
        link: the link of each of the two hosts, not dilated.
        dilation: how much slower the hosts' time runs.
        rule: how often a size is measured.
        largest_bytes: the largest message.
        timeout_s: how long the peer may be silent.
        netpipe: run NetPIPE's own program too.
        congestion_control: TCP's algorithm.
        tolerances: for the check of the link before (None: it is not checked).

    Returns:
        One-way times in s, as they would be without dilation, and how the link was made.

    Raises:
        DdlbenchError: the link cannot be made or is out of tolerance, NetPIPE is required and not installed, or fails.
    """
    if netpipe and not shutil.which(NETPIPE):
        raise DdlbenchError(f"{NETPIPE} is not installed. On Debian:  apt-get install netpipe-tcp")
    job = LinkProbeJob(
        link, dilation, rule, largest_bytes, timeout_s, netpipe, congestion_control, tolerances
    )
    found = answer_of("ddlbench.probes.link_probe", job, LinkProbed)
    times = {
        tool: {size: [each / dilation for each in values] for size, values in by_size.items()}
        for tool, by_size in found.times_s.items()
    }
    return replace(found, times_s=times)


def run(job: LinkProbeJob) -> LinkProbed:
    """Make two hosts and the link, check the link if there are tolerances, and probe from one host to the other.

    Args:
        job: what is probed.

    Returns:
        One-way times in the dilated time of the hosts.

    Raises:
        DdlbenchError: the link cannot be made or is out of tolerance, there is no result at all, or NetPIPE fails.
    """
    cores = sorted(os.sched_getaffinity(0))
    hosts = [Host(f"h{i + 1}", f"10.66.0.{i + 1}", (cores[i % len(cores)],), 1, GIB) for i in (0, 1)]
    addresses = [host.address for host in hosts]
    link = job.link
    with Star(addresses, congestion_control=job.congestion_control, dilation=job.dilation) as star:
        check_link(Capacity(star), link, hosts=2, senders=1)  # only one of the two hosts sends at a time
        star.shape(link)
        measured = verify(star, link, job.tolerances) if job.tolerances else None
        times_s, vanished = probe_hosts(
            star, hosts, sizes(job.largest_bytes), rule=job.rule, timeout_s=job.timeout_s
        )
        found = {"ddlbench": times_s}
        if job.netpipe:
            found[NETPIPE] = netpipe_hosts(star, hosts, largest_bytes=job.largest_bytes)
        star.backend.check()
        return LinkProbed(found, vanished, star.backend.name, measured)


def probe_hosts(
    star: Star,
    hosts: Sequence[Host],
    wanted: Sequence[int],
    *,
    rule: StopRule,
    timeout_s: float,
) -> tuple[Trips, str | None]:
    """Probe from the first host of a star to the second.

    Args:
        star: the hosts' network; its links are shaped.
        hosts: the two hosts, with their addresses and cores.
        wanted: message sizes in bytes.
        rule: how often a size is measured.
        timeout_s: how long the peer may be silent.

    Returns:
        One-way times in s by size, in the dilated time of the hosts, and what went wrong (None: nothing); the times are
        a part then.

    Raises:
        PeerVanished: the second host cannot be reached at all.
    """
    exchange = compiled()  # before the fork, so that both processes have it
    with entered(star.namespaces[1]):
        listener = listening(hosts[1].address)
    with listener:
        port = listener.getsockname()[1]
        peer = get_context("fork").Process(
            target=_answer_on, args=(star, hosts, listener, timeout_s), daemon=True
        )
        peer.start()
    try:
        with _on(star, hosts, 0):
            times_s, vanished = probe(
                hosts[1].address,
                port,
                wanted,
                needs_more=lambda values: needs_repetition(values, rule),
                timeout_s=timeout_s,
                exchange=exchange,
            )
        peer.join(_END_TIMEOUT_S)
    finally:
        ended = peer.exitcode
        peer.kill()
        peer.join()
    if ended == 0 or (vanished and ended is None):
        return times_s, str(vanished) if vanished else None
    what = vanished or "the curve is there, but its other end failed"
    how = "hangs" if ended is None else f"ended with {describe_exit(ended)}"
    return times_s, f"{what}; the process that answered on host {hosts[1].name} {how}"


def netpipe_hosts(
    star: Star, hosts: Sequence[Host], *, smallest_bytes: int = 1, largest_bytes: int
) -> dict[int, list[float]]:
    """Run NetPIPE's own program from the first host of a star to the second.

    Args:
        star: the hosts' network; its links are shaped.
        hosts: the two hosts, with their addresses and cores.
        smallest_bytes: the smallest message.
        largest_bytes: the largest message.

    Returns:
        One-way times in s by message size, one for each size, in the dilated time of the hosts.

    Raises:
        DdlbenchError: NetPIPE fails.
    """
    bounds = ["-l", str(smallest_bytes), "-u", str(largest_bytes)]
    with TemporaryDirectory(prefix="ddlbench-") as name:
        folder = Path(name)
        log = folder / "log"
        with log.open("wb") as output:
            common: Any = {"cwd": folder, "stdin": subprocess.DEVNULL, "stdout": output, "stderr": output}
            receiver = subprocess.Popen([NETPIPE, *bounds], preexec_fn=_child_of(star, hosts, 1), **common)
            try:
                _await_listener(receiver)
                subprocess.run(
                    [NETPIPE, "-h", hosts[1].address, "-o", "np.out", *bounds],
                    preexec_fn=_child_of(star, hosts, 0),
                    check=True,
                    timeout=_NETPIPE_TIMEOUT_S,
                    **common,
                )
            except (subprocess.SubprocessError, OSError) as error:
                raise DdlbenchError(f"{NETPIPE} failed: {error}{tail(log)}") from error
            finally:
                receiver.kill()
                receiver.wait()
        return from_netpipe((folder / "np.out").read_text())


def _await_listener(process: "subprocess.Popen[bytes]") -> None:
    """Wait until a process listens. Raises DdlbenchError if it ends before, or takes too long."""
    deadline = monotonic() + _START_TIMEOUT_S
    sockets = Path(f"/proc/{process.pid}/net/tcp")  # those of its network namespace
    while process.poll() is None and monotonic() < deadline:
        if any(line.split()[3] == _LISTENS for line in sockets.read_text().splitlines()):
            return
        sleep(_POLL_S)
    raise DdlbenchError(f"{NETPIPE} does not listen")


def _answer_on(star: Star, hosts: Sequence[Host], listener: Any, timeout_s: float) -> None:
    """Run the second host's end of the probe."""
    _child_of(star, hosts, 1)()
    try:
        answer(listener, timeout_s, exchange=compiled())
    except PeerVanished as error:
        sys.exit(str(error))


def _child_of(star: Star, hosts: Sequence[Host], number: int) -> Callable[[], None]:
    """Return a function that moves a new process to the host's namespace and cores, and ends it with this process."""

    def prepare() -> None:
        die_with_parent()
        enter(star.namespaces[number])
        os.sched_setaffinity(0, hosts[number].cores)

    return prepare


@contextmanager
def _on(star: Star, hosts: Sequence[Host], number: int) -> Iterator[None]:
    """Move the calling process to the host's namespace and cores for the length of a `with`."""
    cores = os.sched_getaffinity(0)
    with entered(star.namespaces[number]):
        os.sched_setaffinity(0, hosts[number].cores)
        try:
            yield
        finally:
            os.sched_setaffinity(0, cores)


if __name__ == "__main__":
    sys.exit(do(LinkProbeJob, run))
