"""Faults of a SLURM cluster, drawn at random while a study is measured: does the driver end, and is all measured?

A tiny study is measured on two of four nodes. One fault happens after the first measurements. If the driver ends
without having measured everything, the same command is started once more, as a person would.
"""

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from random import Random
from threading import Thread
from time import monotonic, sleep, time

import psutil

from benchmarks.torture.places import DATA, OnSlurm, on_slurm
from benchmarks.torture.tally import Tally
from ddlbench.runs.measure_run import SESSION
from tests.support.on_cluster import OnCluster
from tests.support.pipeline import Pipeline, new_pipeline
from tests.support.slurm_cluster import Cluster, cluster, command_of
from tests.support.vanishing import vanishing_folder

REPETITIONS = 16
FIRST_S, LAST_S = 0.0, 4.0  # of the fault, after the first measurement
AWAY_S = (5.0, 60.0)  # how long slurmctld does not answer
END_S = 600.0  # of a driver, from the fault on; SLURM itself takes minutes to see a lost node
JOBS_S = 150.0  # of the last job after its driver: SLURM tells again after a minute that a job has completed
HANG, LOST, LEFT = "drivers that hang", "measurements lost", "jobs left"


@dataclass(frozen=True)
class Outcome:
    """What became of one fault: is the driver still there, are measurements lost, which jobs are left, what it took."""

    fault: str
    hangs: bool
    lost: int
    left: int
    starts: int
    ending_s: float | None

    def __str__(self) -> str:
        bad = [HANG.upper()] if self.hangs else []
        bad += [f"LOST {self.lost}"] if self.lost else []
        bad += [f"{self.left} JOBS LEFT"] if self.left else []
        ending = "" if self.ending_s is None else f", {self.ending_s:.1f} s after the last measurement"
        return "; ".join([f"{self.fault}: done by start {self.starts}{ending}", *bad])


def faults(seed: int, tries: int, keep: Callable[[Tally], None]) -> Tally:
    """The part of the torture that troubles a cluster."""
    random = Random(f"{seed} cluster")
    tally = Tally(
        f"SLURM faults drawn at random: {HANG}; {LOST}; {LEFT}",
        f"{tries}: 0; 0; 0",
        seed,
        dict.fromkeys((HANG, LOST, LEFT), 0),
    )
    endings = []
    with vanishing_folder("ddlbench-torture-") as folder, cluster() as nodes:
        first = new_pipeline(folder / "first")
        first.run(DATA)
        for number in range(tries):
            outcome = one_fault(first.copy(folder / str(number)), nodes, random)
            tally.add(str(outcome), {HANG: outcome.hangs, LOST: outcome.lost, LEFT: outcome.left})
            endings += [outcome.ending_s] if outcome.ending_s is not None else []
            if endings:
                range_s = f"{min(endings):.1f} to {max(endings):.1f} s"
                tally.notes = [f"{len(endings)} drivers have ended {range_s} after their last measurement"]
            keep(tally)
    return tally


def one_fault(pipeline: Pipeline, nodes: Cluster, random: Random) -> Outcome:
    """Measure, have one fault, and see what becomes of it."""
    on_cluster = on_slurm(pipeline, nodes, min_repetitions=REPETITIONS, max_repetitions=REPETITIONS)
    where = OnSlurm(on_cluster)
    kind = random.choice(list(FAULTS))
    after_s = random.uniform(FIRST_S, LAST_S)
    going, starts = on_cluster.start(pipeline.manifest("two")), 1
    try:
        while not pipeline.measurements() and going.poll() is None:
            sleep(0.2)
        if going.poll() is not None:
            return Outcome(
                f"none: the driver ended before: {pipeline.said[-300:]}", False, REPETITIONS, 0, 1, None
            )
        sleep(after_s)
        kept = pipeline.measurements()
        try:
            with FAULTS[kind](on_cluster, random, going) as told:
                ended = _end(going)
            if len(pipeline.measurements()) < REPETITIONS:
                going, starts = on_cluster.start(pipeline.manifest("two")), 2
                ended = _end(going)
        except subprocess.TimeoutExpired:
            return Outcome(f"{kind}: {pipeline.said[-300:]}", True, 0, 0, starts, None)
        now = pipeline.measurements()
        missing = sum(now.get(name) != content for name, content in kept.items())
        missing += max(0, REPETITIONS - len(now)) + _twice(on_cluster)
        left = _jobs_left(nodes)
        return Outcome(
            f"{kind}{told}", False, missing, left, starts, None if missing else ended - _last(on_cluster)
        )
    finally:
        on_cluster.kill(going)
        where.end()


def _end(going: "subprocess.Popen[str]") -> float:
    """When a driver ended, in seconds since the epoch. Raises TimeoutExpired."""
    going.wait(END_S)
    return time()


def _last(on_cluster: OnCluster) -> float:
    """When the last measurement ended, in seconds since the epoch."""
    return max(
        datetime.fromisoformat(each["ended"]).astimezone(UTC).timestamp() for each in on_cluster.records()
    )


def _twice(on_cluster: OnCluster) -> int:
    """How many repetitions were kept more than once."""
    numbers = [each["repetition"] for each in on_cluster.records()]
    return len(numbers) - len(set(numbers))


def _jobs_left(nodes: Cluster) -> int:
    until = monotonic() + JOBS_S
    while (jobs := nodes.ask("squeue", "--noheader").splitlines()) and monotonic() < until:
        sleep(0.5)
    return len(jobs)


Fault = Callable[[OnCluster, Random, "subprocess.Popen[str]"], Iterator[str]]


def _node(on_cluster: OnCluster, random: Random) -> str:
    names: list[str] = list(on_cluster.records()[-1]["provenance"]["slurm"]["nodes"])
    return random.choice(names)


def _one_killed(processes: list[psutil.Process], random: Random) -> str:
    if not processes:
        return " (there is none any more)"
    with suppress(psutil.NoSuchProcess):
        random.choice(processes).kill()
    return ""


@contextmanager
def _slurmd_killed(on_cluster: OnCluster, random: Random, going: "subprocess.Popen[str]") -> Iterator[str]:
    node = _node(on_cluster, random)
    on_cluster.nodes.kill_daemon(node)
    try:
        yield f" on {node}"
    finally:
        on_cluster.nodes.restart_daemon(node)


@contextmanager
def _stepd_killed(on_cluster: OnCluster, random: Random, going: "subprocess.Popen[str]") -> Iterator[str]:
    steps = [each for each in on_cluster.nodes.processes() if _name(each) == "slurmstepd"]
    yield _one_killed(steps, random)


@contextmanager
def _driver_killed(on_cluster: OnCluster, random: Random, going: "subprocess.Popen[str]") -> Iterator[str]:
    """The driver: a job's script, which waits for its supervisor."""
    drivers = [
        each
        for each in on_cluster.nodes.processes()
        if any("measure_run.py" in word for word in command_of(each))
    ]
    yield _one_killed(drivers, random)


@contextmanager
def _supervisor_killed(
    on_cluster: OnCluster, random: Random, going: "subprocess.Popen[str]"
) -> Iterator[str]:
    yield _one_killed(on_cluster.processes(SESSION), random)


@contextmanager
def _worker_killed(on_cluster: OnCluster, random: Random, going: "subprocess.Popen[str]") -> Iterator[str]:
    agents = on_cluster.processes("ddlbench.cluster.node_agent")
    theirs: list[psutil.Process] = []
    for agent in agents:
        with suppress(psutil.NoSuchProcess):
            theirs += agent.children(recursive=True)
    yield _one_killed(theirs, random)


@contextmanager
def _cancelled(on_cluster: OnCluster, random: Random, going: "subprocess.Popen[str]") -> Iterator[str]:
    on_cluster.nodes.ask("scancel", on_cluster.jobs()[-1])
    yield ""


@contextmanager
def _drained(on_cluster: OnCluster, random: Random, going: "subprocess.Popen[str]") -> Iterator[str]:
    node, ask = _node(on_cluster, random), on_cluster.nodes.ask
    ask("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=torture")
    try:
        yield f" {node}"
    finally:
        with suppress(subprocess.CalledProcessError):  # it is not drained any more
            ask("scontrol", "update", f"NodeName={node}", "State=RESUME")


@contextmanager
def _slurmctld_away(on_cluster: OnCluster, random: Random, going: "subprocess.Popen[str]") -> Iterator[str]:
    control = next(each for each in on_cluster.nodes.processes() if _name(each) == "slurmctld")
    away_s = random.uniform(*AWAY_S)
    control.suspend()
    back = Thread(target=_resumed, args=(control, away_s))
    back.start()
    try:
        yield f" for {away_s:.0f} s"
    finally:
        back.join()


@contextmanager
def _two_drivers(on_cluster: OnCluster, random: Random, going: "subprocess.Popen[str]") -> Iterator[str]:
    """A second start of the same command; the first one is killed before that, or goes on."""
    is_killed = random.random() < 0.5
    if is_killed:
        on_cluster.kill(going)
    second = on_cluster.start(on_cluster.pipeline.manifest("two"))
    try:
        _end(second)
        yield ", the first one killed" if is_killed else f", side by side (status {second.returncode})"
    finally:
        on_cluster.kill(second)


def _resumed(process: psutil.Process, after_s: float) -> None:
    sleep(after_s)
    process.resume()


def _name(process: psutil.Process) -> str:
    with suppress(psutil.Error):
        return str(process.name())
    return ""


FAULTS = {
    "a slurmd killed": _slurmd_killed,
    "a slurmstepd killed": _stepd_killed,
    "a job's driver killed": _driver_killed,
    "a supervisor killed": _supervisor_killed,
    "a process of a node killed": _worker_killed,
    "scancel": _cancelled,
    "a node drained": _drained,
    "slurmctld away": _slurmctld_away,
    "two drivers": _two_drivers,
}
