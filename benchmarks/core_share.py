"""What a host with three busy processes gets of a core that it shares with idle hosts, by its share of it.

python -m benchmarks core_share [--turns 5] [--seconds 1]

What others take of the core counts for nobody: all hosts of it together are 1.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from itertools import product
from math import fsum
from pathlib import Path
from time import monotonic, sleep
from typing import Any

from benchmarks.common import benchmark, in_sandbox, in_words, options, row, save, spread
from benchmarks.groups import hosts_on
from ddlbench.launch.fork_starter import ForkServer
from ddlbench.protocol.fork_messages import StartSpinner
from ddlbench.shares.core_division import Division
from ddlbench.shares.fillers import Fillers
from ddlbench.telemetry.waiting import Waiting

MEMBER = "ddlbench.emulate.member"  # never started here; a fork server has one
DILATIONS, BUSY, STARTED_S = (2, 4, 8), 3, 60.0
WITHIN_PERCENT = 5.0


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, turns=5, seconds=1.0)
    found = in_sandbox("benchmarks.core_share", vars(asked), timeout_s=600)
    save("core_share", [_row(found, dilation) for dilation in DILATIONS], {"asked": vars(asked), **found})


def _row(found: Mapping[str, Any], dilation: int) -> dict[str, Any]:
    got = spread([each["of_share"] for each in found["turns"] if each["dilation"] == dilation])
    return row(
        f"a busy host's share of a core beside {dilation - 1} idle ones (k = {dilation}), {found['between']} divide it",
        at_least=f"within {WITHIN_PERCENT:g} % of 1/{dilation}",
        measured=f"{in_words(got)} of it",
        peer=f"nominal; {got['count']} turns of {found['asked_s']:g} s",
        met=abs(got["median"] - 1) <= WITHIN_PERCENT / 100,
    )


def inside(job: Mapping[str, Any]) -> dict[str, Any]:
    """The shares of all turns, and what divided the core."""
    turns, between = [], None
    for _, dilation in product(range(job["turns"]), DILATIONS):
        of_share, between = _of_share(dilation, job["seconds"])
        turns.append({"dilation": dilation, "of_share": of_share})
    return {"turns": turns, "between": between, "asked_s": job["seconds"]}


def _of_share(dilation: int, seconds: float) -> tuple[float, str | None]:
    """What the busy host of as many as share a core got, by its share."""
    core = min(os.sched_getaffinity(0))
    hosts, deadline = hosts_on([core], dilation=dilation).hosts, monotonic() + STARTED_S
    command = [sys.executable, "-m", "ddlbench.workers.common.fork_server", MEMBER]
    with ExitStack() as stack:
        division = Division(stack.enter_context(ExitStack()), contained=False)
        server = stack.enter_context(ForkServer(command, os.environ, log=Path(os.environ["TMPDIR"]) / "log"))
        starter = division.starter(server, hosts, deadline)
        fillers = stack.enter_context(Fillers(starter, hosts, deadline))
        busy = [starter.start(StartSpinner(host="h1", core=core), deadline) for _ in range(BUSY)]
        idle = [host for host in fillers.hosts if host != "h1"]
        of_busy = [*(each.pid for each in busy), *fillers.pids("h1")]
        with fillers.running():
            waiting = Waiting([*of_busy, *(pid for host in idle for pid in fillers.pids(host))])
            sleep(seconds)
            ran_ms = [each["ran_ms"] for each in waiting.since_start()]
        for each in busy:
            each.kill()
            each.wait()
    return dilation * fsum(ran_ms[: len(of_busy)]) / fsum(ran_ms), division.between


if __name__ == "__main__":
    benchmark(main, inside)
