"""The point-to-point probe between two emulated hosts, in a sandbox of its own.

python -m ddlbench.runtime.probing JOB.json        (the first process of the sandbox)
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.measurements.point_to_point import from_netpipe
from ddlbench.measurements.statistics import needs_repetition
from ddlbench.network.hosts import GIB, Host
from ddlbench.network.link import Link
from ddlbench.network.namespaces import enter, entered
from ddlbench.network.pingpong import answer, listening, probe, sizes
from ddlbench.network.star import Star
from ddlbench.runtime.processes import die_with_parent
from ddlbench.runtime.sandbox import run_sandboxed

NETPIPE = "NPtcp"
_NETPIPE_TIMEOUT_S = 600

Found = dict[str, Any]


def probe_link(
    link: Link,
    *,
    dilation: float,
    measure: Mapping[str, Any],
    largest_bytes: int,
    timeout_s: float,
    netpipe: bool,
    congestion_control: str = "cubic",
) -> Found:
    """Probe an emulated link; {tool: {size: one-way times in s}, vanished: None or what went wrong}.

    Times are as they would be without dilation. measure: the stop rule (min_repetitions, max_repetitions,
    interval_percent). netpipe: run NetPIPE's own program too. Raises DdlbenchError where the link cannot be made, or
    NetPIPE is asked for and not installed.
    """
    if netpipe and not shutil.which(NETPIPE):
        raise DdlbenchError(f"{NETPIPE} is not installed. On Debian:  apt-get install netpipe-tcp")
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        told = Path(folder) / "answer.json"
        job = {
            "link": asdict(link),
            "dilation": dilation,
            "measure": dict(measure),
            "largest_bytes": largest_bytes,
            "timeout_s": timeout_s,
            "netpipe": netpipe,
            "congestion_control": congestion_control,
            "answer": str(told),
        }
        path = Path(folder) / "job.json"
        path.write_text(json.dumps(job))
        if status := run_sandboxed("ddlbench.runtime.probing", [str(path)]):
            raise DdlbenchError(f"the probe failed (exit status {status}); what it said is above")
        found: Found = json.loads(told.read_text())
    times = {
        tool: {int(size): [each / dilation for each in values] for size, values in by_size.items()}
        for tool, by_size in found["times_s"].items()
    }
    return {"times_s": times, "vanished": found["vanished"], "backend": found["backend"]}


def run(job: Mapping[str, Any]) -> Found:
    """Make two hosts and the link, and probe from one to the other."""
    cores = sorted(os.sched_getaffinity(0))
    hosts = [Host(f"h{i + 1}", f"10.66.0.{i + 1}", (cores[i % len(cores)],), 1, GIB) for i in (0, 1)]
    addresses = [host.address for host in hosts]
    with Star(addresses, congestion_control=job["congestion_control"], dilation=job["dilation"]) as star:
        star.shape(Link(**job["link"]))
        with entered(star.namespaces[1]):
            listener = listening(hosts[1].address)
        port = listener.getsockname()[1]
        child = _in_host(star, hosts[1], 1, lambda: answer(listener, job["timeout_s"]))
        _become(star, hosts[0], 0)
        times_s, vanished = probe(
            hosts[1].address,
            port,
            sizes(job["largest_bytes"]),
            needs_more=lambda values: needs_repetition(values, job["measure"]),
            timeout_s=job["timeout_s"],
        )
        os.waitpid(child, 0)
        found = {"ddlbench": times_s}
        if job["netpipe"]:
            found[NETPIPE] = _netpipe(star, hosts, job["largest_bytes"])
        star.backend.check()
        return {"times_s": found, "vanished": vanished and str(vanished), "backend": star.backend.name}


def _netpipe(star: Star, hosts: Sequence[Host], largest_bytes: int) -> dict[int, list[float]]:
    """What NetPIPE's own program finds, one value a size."""
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        receiver = subprocess.Popen(
            [NETPIPE, "-u", str(largest_bytes)],
            preexec_fn=lambda: _become(star, hosts[1], 1),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=folder,
        )
        try:
            command = [NETPIPE, "-h", hosts[1].address, "-o", "np.out", "-u", str(largest_bytes)]
            subprocess.run(command, cwd=folder, check=True, timeout=_NETPIPE_TIMEOUT_S, capture_output=True)
        except (subprocess.SubprocessError, OSError) as error:
            raise DdlbenchError(f"{NETPIPE} failed: {error}") from error
        finally:
            receiver.kill()
            receiver.wait()
        return from_netpipe((Path(folder) / "np.out").read_text())


def _in_host(star: Star, host: Host, number: int, work: Callable[[], None]) -> int:
    """Do `work` in a process of its own on an emulated host; returns the process id."""
    if child := os.fork():
        return child
    try:
        die_with_parent()
        _become(star, host, number)
        work()
    except DdlbenchError as error:
        print(error, file=sys.stderr, flush=True)
    finally:
        os._exit(0)


def _become(star: Star, host: Host, number: int) -> None:
    """Make the calling process one of the host's."""
    enter(star.namespaces[number])
    os.sched_setaffinity(0, host.cores)


def main(job_path: str) -> int:
    """Run the job; an error is told in words, and its exit code returned."""
    job = json.loads(Path(job_path).read_text())
    try:
        write_atomically(job["answer"], json.dumps(run(job)))
    except DdlbenchError as error:
        print(error, file=sys.stderr, flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
