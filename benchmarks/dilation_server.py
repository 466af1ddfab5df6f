"""A worker group at one time dilation, in a sandbox of its own, and the way to ask it for step times.

python -m benchmarks.dilation_server JOB        (JSON; started by `server`)
"""

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from statistics import mean
from typing import Any

import psutil

from benchmarks.dilation_cases import Case
from benchmarks.groups import Ours, ours, placement_from, star_of, steps_for
from ddlbench.errors import DdlbenchError
from ddlbench.network.hosts import place
from ddlbench.sandbox.sandbox import outer_descriptors, sandboxed
from ddlbench.system.processes import die_with_parent

BATCH_SIZE = 128
STOP_S = 30
MEMORY_GB = 2
PILOT_STEPS = 3


class Server:
    """A group that waits for cases.

    Attributes:
        between: what divides the cores that its hosts share; None: they share none.
    """

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.between: str | None = self._answer()

    def step_ms(self, case: Case, seconds: float) -> float:
        """Train a case for some time; the mean step time, which dilation has divided."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps([asdict(case), seconds]) + "\n")
        self._process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise DdlbenchError("a worker group died")
        return json.loads(line)


@contextmanager
def server(
    cores: Sequence[int], hosts: int, k: int, cases: Sequence[Case], job: Mapping[str, Any]
) -> Iterator[Server]:
    """Start a group of one system at a time dilation, in a sandbox within this one."""
    placement = place(
        hosts,
        vcpus=1,
        memory_gb=MEMORY_GB,
        host_count=hosts,
        cores=list(cores),
        available_memory_bytes=psutil.virtual_memory().available,
        dilation="auto" if k == 1 else k,
    )
    framework, strategy = cases[0].system
    serving = {
        "placement": asdict(placement),
        "framework": framework,
        "strategy": strategy,
        "models": sorted({case.model for case in cases}),
        "python": job["pythons"][framework],
        "dataset": job["dataset"],
    }
    with subprocess.Popen(
        sandboxed([sys.executable, "-m", "benchmarks.dilation_server", json.dumps(serving)], as_root=True),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        pass_fds=outer_descriptors(),
        preexec_fn=die_with_parent,
    ) as process:
        try:
            yield Server(process)
            process.communicate(timeout=STOP_S)  # the end of its input is the end of its work
        finally:
            process.kill()


def serve(job: Mapping[str, Any]) -> None:
    """Measure what each line of the input asks for, until it ends."""
    placement = placement_from(job["placement"])
    shaped = None
    with (
        star_of(placement) as star,
        ours(
            star,
            placement,
            python=job["python"],
            dataset=job["dataset"],
            models=job["models"],
            framework=job["framework"],
            strategy=job["strategy"],
        ) as group,
    ):
        print(json.dumps(group.between), flush=True)
        for line in sys.stdin:
            values, seconds = json.loads(line)
            case = Case(**values)
            if case.link != shaped:
                star.shape(case.link)
                shaped = case.link
            print(mean(_times_ms(group, case.model, seconds)) / placement.dilation, flush=True)


def _times_ms(group: Ours, model: str, seconds: float) -> list[float]:
    """The times of as many steps as fit into some time, after a few that count only for that."""
    group.take(model, BATCH_SIZE)
    group.train(1)
    return group.train(steps_for(seconds, group.train(PILOT_STEPS)), from_fresh=True)


if __name__ == "__main__":
    serve(json.loads(sys.argv[1]))
