"""UCX's own benchmark between two emulated hosts, in a sandbox of its own.

python -m ddlbench.probes.ucx_probe JOB.json ANSWER.json        (the first process of the sandbox)
"""

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from time import monotonic, sleep

import psutil

from ddlbench.network.fabrics import OF_EMULATED_HOSTS
from ddlbench.network.limits import Capacity, check_link
from ddlbench.network.link import Link
from ddlbench.network.star import Star
from ddlbench.network.verify import Measured, verify
from ddlbench.probes import ucx
from ddlbench.probes.exchange import ExchangeFailed, Side, exchange
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.sandbox.job import answer_of, do
from ddlbench.system.namespaces import entered

_ADDRESSES = ("10.66.0.1", "10.66.0.2")
_PORT = 13337  # UCX's default; no other program uses the hosts' network
_TRANSPORT = "tcp"
_LARGEST_BYTES = 4 << 20
_TEST_S = 0.2  # a test takes about that long, or a few trips
_FEWEST, _MOST = 4, 1000  # trips
_CARRIER_S = 5.0  # the kernel reports a new link's carrier up to a second late


@dataclass(frozen=True)
class UcxProbeJob:
    """A link to measure; the arguments of `probe_link` describe its fields."""

    link: Link
    dilation: float
    repetitions: int
    largest_bytes: int
    timeout_s: float
    congestion_control: str
    tolerances: Tolerances | None


@dataclass
class UcxCurves:
    """One-way times in s and throughputs of a stream in 10^6 bit/s by message size; what went wrong (None: nothing)."""

    times_s: dict[int, list[float]] = field(default_factory=dict)
    throughput_mbit: dict[int, list[float]] = field(default_factory=dict)
    vanished: str | None = None


@dataclass(frozen=True)
class UcxProbed:
    """What a probe found, as it would be without dilation.

    Attributes:
        curves: a part, if something went wrong.
        device: UCX's name of the device that was used (`tcp/eth0`).
        backend: what makes the link.
        measured: what the link was measured to be before (None without tolerances).
    """

    curves: UcxCurves
    device: str
    backend: str
    measured: Measured | None


Tested = Callable[[str, int, int], str]  # test, size in bytes, trips -> what UCX's program reports


def sizes(largest_bytes: int = _LARGEST_BYTES) -> list[int]:
    """Return the message sizes to measure: powers of four, as each needs a start of two programs.

    Args:
        largest_bytes: the largest size, in bytes.

    Returns:
        Sizes in bytes from 1, in ascending order.
    """
    return [4**n for n in range(largest_bytes.bit_length()) if 4**n <= largest_bytes]


def probe_link(
    link: Link,
    *,
    dilation: float = 1.0,
    repetitions: int = 3,
    largest_bytes: int = _LARGEST_BYTES,
    timeout_s: float = 60.0,
    congestion_control: str = "cubic",
    tolerances: Tolerances | None = None,
) -> UcxProbed:
    """Measure an emulated link with UCX over TCP.

    Args:
        link: the link of each of the two hosts, not dilated.
        dilation: how much slower the hosts' time runs.
        repetitions: how often each size is measured.
        largest_bytes: the largest message.
        timeout_s: how long a single test may take.
        congestion_control: TCP's algorithm.
        tolerances: for the check of the link before (None: it is not checked).

    Returns:
        The curves, as they would be without dilation, and how the link was made.

    Raises:
        DdlbenchError: the link cannot be made or is out of tolerance.
    """
    job = UcxProbeJob(link, dilation, repetitions, largest_bytes, timeout_s, congestion_control, tolerances)
    found = answer_of("ddlbench.probes.ucx_probe", job, UcxProbed)
    curves = found.curves
    times_s = {size: [each / dilation for each in values] for size, values in curves.times_s.items()}
    rates = {size: [each * dilation for each in values] for size, values in curves.throughput_mbit.items()}
    return replace(found, curves=UcxCurves(times_s, rates, curves.vanished))


def run(job: UcxProbeJob) -> UcxProbed:
    """Make two hosts and the link, and measure from one to the other.

    Args:
        job: what is measured.

    Returns:
        The curves in the dilated time of the hosts.

    Raises:
        DdlbenchError: the link cannot be made or is out of tolerance.
    """
    with Star(list(_ADDRESSES), congestion_control=job.congestion_control, dilation=job.dilation) as star:
        _show_own_sysfs(star)
        check_link(Capacity(star), job.link, hosts=2, senders=1)
        star.shape(job.link)
        measured = verify(star, job.link, job.tolerances) if job.tolerances else None
        curves = repeated(
            lambda *asked: _tested(star, job.timeout_s, *asked), job.repetitions, sizes(job.largest_bytes)
        )
        star.backend.check()
        return UcxProbed(curves, f"{_TRANSPORT}/{OF_EMULATED_HOSTS.name}", star.backend.name, measured)


def repeated(tested: Tested, repetitions: int, wanted: list[int]) -> UcxCurves:
    """Test the latency of every size from small to large, then a stream of the largest; repeat that.

    The time of the last size determines how many trips the next test makes.

    Args:
        tested: runs UCX's program for a test, a size in bytes and a number of trips, and returns its report.
        repetitions: how often.
        wanted: message sizes in bytes, in ascending order.

    Returns:
        Times and throughputs; a part of them, with the reason, if a test fails.
    """
    found = UcxCurves()
    try:
        for _ in range(repetitions):
            trips = _FEWEST
            for size in wanted:
                once_s = ucx.one_way_s(tested(ucx.LATENCY, size, trips))
                found.times_s.setdefault(size, []).append(once_s)
                trips = max(_FEWEST, min(_MOST, round(_TEST_S / (2 * once_s))))
            report = tested(ucx.STREAM, wanted[-1], max(_FEWEST, 2 * trips))
            found.throughput_mbit.setdefault(wanted[-1], []).append(ucx.throughput_mbit(report))
    except (ExchangeFailed, ValueError) as error:
        found.vanished = str(error)
    return found


def _tested(star: Star, timeout_s: float, test: str, size_bytes: int, trips: int) -> str:
    cores = sorted(os.sched_getaffinity(0))
    variables = ucx.variables(_TRANSPORT, OF_EMULATED_HOSTS.name)
    client = ucx.client_argv(_ADDRESSES[1], _PORT, test=test, size_bytes=size_bytes, iterations=trips)
    return exchange(
        Side(ucx.server_argv(_PORT), variables, star.namespaces[1], (cores[-1],)),
        Side(client, variables, star.namespaces[0], (cores[0],)),
        timeout_s=timeout_s,
    )


def _show_own_sysfs(star: Star) -> None:
    """Mount a host's /sys over the machine's, in which UCX would look for eth0; and wait until eth0 has a carrier.

    The hosts' /sys are all alike. Where a container forbids the mount, UCX reports itself what it does not find.
    """
    with entered(star.namespaces[0]):
        subprocess.run(["mount", "-t", "sysfs", "sysfs", "/sys"], capture_output=True, timeout=10)
    until = monotonic() + _CARRIER_S
    for namespace in star.namespaces:
        with entered(namespace):
            while not psutil.net_if_stats()[OF_EMULATED_HOSTS.name].isup and monotonic() < until:
                sleep(0.02)


if __name__ == "__main__":
    sys.exit(do(UcxProbeJob, run))
