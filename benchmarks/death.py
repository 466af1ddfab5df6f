"""How long a large group lives on after one of its workers is killed, ours on emulated hosts and torchrun's on none.

A random worker gets SIGKILL at a random moment while all are in a step: of ours, ranks that replay ResNet-50 with DDP,
of torchrun's, ranks that sum up an array. Counted is the time until the group is known to have failed and none of its
processes is left; our error has to name who died. Time is dilated little, so that moving bytes keeps all cores busy.
"""

import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Timer
from time import monotonic, sleep
from typing import Any

import psutil

from benchmarks.common import (
    ROOT,
    benchmark,
    in_sandbox,
    in_words,
    options,
    python_of_workers,
    row,
    save,
    say,
    spread,
)
from benchmarks.groups import group_of, two_cores
from benchmarks.replay_cases import IMAGES, Case
from ddlbench.errors import DdlbenchError
from ddlbench.launch.group_member import WorkerFailed
from ddlbench.network.hosts import place_waiting
from ddlbench.protocol.messages import ModelShape
from ddlbench.system.processes import die_with_parent

AT_MOST_S = 10.0
STEP_MS, DILATION = 1000.0, 10.0
START_S, END_S = 600.0, 300.0
MODEL = "resnet50"


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, workers=64, turns=5, seed=1)
    job = {**vars(asked), "python": python_of_workers()}
    times_s = in_sandbox("benchmarks.death", job, timeout_s=asked.turns * (START_S + END_S))
    random = Random(asked.seed)
    theirs_s = [torchrun_s(job["python"], asked.workers, random) for _ in range(asked.turns)]
    say(f"torchrun: {in_words(spread(theirs_s), ' s')}")
    found = spread(times_s)
    save(
        "death",
        [
            row(
                f"one of {asked.workers} replayed workers is killed: until its name is told and no process is left",
                at_least=f"within {AT_MOST_S:g} s",
                measured=in_words(found, " s"),
                peer=f"torchrun with as many ranks on no hosts, without a name: {in_words(spread(theirs_s), ' s')}; "
                f"n = {asked.turns}",
                met=found["highest"] <= AT_MOST_S,
            )
        ],
        {"asked": vars(asked), "ours_s": times_s, "torchrun_s": theirs_s},
    )


def inside(job: Mapping[str, Any]) -> list[float]:
    """The times of our groups."""
    workers, random = job["workers"], Random(job["seed"])
    found_s = []
    for turn in range(1, job["turns"] + 1):
        found_s.append(ours_s(job["python"], workers, random))
        say(f"ours, turn {turn} of {job['turns']}: {found_s[-1]:.2f} s")
    return found_s


def ours_s(python: str, workers: int, random: Random) -> float:
    """The time of a group of ours, with its hosts."""
    memory, rank = psutil.virtual_memory().available, random.randrange(workers)
    placement = place_waiting(workers, cores=two_cores(), available_memory_bytes=memory, dilation=DILATION)
    case = Case("torch", "ring_allreduce", MODEL, 10000, 0, workers, STEP_MS)
    processes, killed_s = [], []
    try:
        with group_of(placement, "torch", "ring_allreduce", workers, python, replayed=True) as group:
            processes = [psutil.Process(pid) for pid in group.group.pids()]
            group.group.connect([ModelShape(MODEL, IMAGES)])
            group.group.prepare(case.point(replace(case.forward_only(), dilation=DILATION)), 1)
            killed_s = dies_soon(processes[rank], random)
            group.group.train(10, from_fresh=True)
    except WorkerFailed as error:
        until_gone(processes)
        if f"rank {rank} on host " not in str(error):
            raise DdlbenchError(f"rank {rank} was killed, and the error says: {error}") from error
        return monotonic() - killed_s[0]
    raise DdlbenchError(f"rank {rank} was killed, and the group went on")


def torchrun_s(python: str, workers: int, random: Random) -> float:
    """The time of a group of torchrun's."""
    with TemporaryDirectory(prefix="ddlbench-") as folder:
        options_of_torchrun = ["--standalone", f"--nproc-per-node={workers}"]
        script = [str(ROOT / "benchmarks" / "plain_allreduce.py"), folder]
        with Path(folder, "log").open("wb") as log:
            agent = subprocess.Popen(
                [python, "-m", "torch.distributed.run", *options_of_torchrun, *script],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        give_up_s = monotonic() + START_S
        while len(list(Path(folder).glob("[0-9]*"))) < workers:
            if agent.poll() is not None or monotonic() > give_up_s:
                agent.terminate()  # which ends its ranks
                agent.wait(END_S)
                raise DdlbenchError("torchrun did not start:\n" + Path(folder, "log").read_text()[-2000:])
            sleep(0.1)
        ranks = psutil.Process(agent.pid).children()
        killed_s = dies_soon(random.choice(ranks), random)
        agent.wait(START_S)
        until_gone(ranks)
        return monotonic() - killed_s[0]


def dies_soon(process: psutil.Process, random: Random) -> list[float]:
    """Kill a process at a random moment of the next seconds; the list will have the time."""
    killed_s: list[float] = []

    def kill() -> None:
        killed_s.append(monotonic())
        process.kill()

    timer = Timer(random.uniform(1, 5), kill)
    timer.daemon = True
    timer.start()
    return killed_s


def until_gone(processes: Iterable[psutil.Process]) -> None:
    """Wait until none of these is left. Raises DdlbenchError where one is after minutes."""
    _, left = psutil.wait_procs(processes, timeout=END_S)
    if left:
        raise DdlbenchError(f"{len(left)} processes are left after {END_S:g} s")


if __name__ == "__main__":
    benchmark(main, inside)
