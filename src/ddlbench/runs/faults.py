"""Train while members of the worker group are killed, and see what happens to the others.

python -m ddlbench.runs.faults JOB.json ANSWER.json        (the first process of a sandbox)

This works with the worker group of any framework. All members train some steps and report them. Then they get the
command to train the rest, and members are killed in the middle of its first step. The frameworks' time-outs are
dilated too.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import sleep
from typing import Any

from ddlbench.containers import engines
from ddlbench.containers.podman import user_namespace
from ddlbench.environments.failed_environments import NO_ENVIRONMENT
from ddlbench.environments.materials import Materials
from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.hosts.group_on_hosts import GroupOnHosts, launched
from ddlbench.launch.group_job import GroupJob
from ddlbench.launch.group_member import Fate
from ddlbench.launch.roles import HOLDING, WORKER, Member
from ddlbench.measurements import facts, faults, provenance
from ddlbench.plan import Fault, Plan, Point, words
from ddlbench.protocol.messages import Conclude, Concluded, ModelShape, TestResult, Train, Trained
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.runs.group_of_run import group_job
from ddlbench.runs.placement import code_of, members_of, placement
from ddlbench.sandbox.job import answer_of, do
from ddlbench.sweep.link_monitor import Links, link_of
from ddlbench.sweep.repetition import training_point
from ddlbench.system.clock import Clock
from ddlbench.system.processes import die_with_parent

SERVER = "server"
_PATIENCE = 1.5  # members that are silent for so many time-outs count as hung
_SLOWER = 3.0  # survivors' steps may take so many times as long as the steps before
_WHEN = ("at_step", "steps", "timeout_s")


@dataclass(frozen=True)
class FaultJob:
    """A training in which members are killed.

    Attributes:
        point: of the plan, as `Point.as_dict` gives it.
        kill: how many workers are killed, or `server`.
        at_step: the number of steps that are trained before.
        steps: of the whole training.
    """

    group: GroupJob
    point: Mapping[str, object]
    kill: int | str
    at_step: int
    steps: int
    tolerances: Tolerances


@dataclass(frozen=True)
class FaultsFound:
    """What happened in one training.

    Attributes:
        made: how the link was made, and what it was measured to be.
        killed: ranks.
        fates: of all ranks; times are dilated, as on the hosts.
        tested: test of the survivors' parameters; None if they did not go on.
    """

    made: Mapping[str, object]
    killed: Sequence[int]
    fates: Sequence[faults.Fate]
    tested: TestResult | None


def write_faults(
    plan: Plan,
    fault: Fault,
    output: Path | str,
    materials: Materials,
    *,
    logs: Path,
) -> None:
    """Train once for each entry of `kill`, and write the table and its sidecar.

    Args:
        plan: all settings.
        fault: the training, and which members to kill.
        output: the table, as CSV.
        materials: data sets and environments; empty if the point cannot be measured at all.
        logs: a folder; each training gets a folder in it.

    Raises:
        DdlbenchError: a training failed before a member was killed.
    """
    die_with_parent()
    started = datetime.now(UTC)
    point = fault.point
    conditions = {
        **{key: value for key, value in point.as_dict().items() if key in faults.COLUMNS},
        "at_step": fault.at_step,
        "steps": fault.steps,
        "timeout_s": fault.timeout_s,
        "host": facts.short_label(facts.gather()),
    }
    there = [whom for whom in fault.kill if whom != SERVER or victims(members_of(fault.run), SERVER)]
    status, reason = plan.status(point)
    _, without = materials.described()
    if point.runtime in without:
        status, reason = NO_ENVIRONMENT, without[point.runtime]
    if status == "measurable":
        rows = [_row(plan, fault, whom, materials, logs, conditions) for whom in there]
    else:
        lacking = {**conditions, "status": status, "reason": reason}
        rows = [{**lacking, "killed": in_words(whom)} for whom in there]
    write_atomically(output, faults.as_csv(rows))
    provenance.write_sidecar(
        output,
        made_by="faults",
        inputs={
            "environment": materials.descriptions,
            "dataset": list(materials.datasets.values()),
        },
        code=code_of(fault.run, "faults"),
        parameters={**point.as_dict(), "kill": list(fault.kill), **{key: conditions[key] for key in _WHEN}},
        started=started,
    )


def _row(
    plan: Plan,
    fault: Fault,
    whom: int | str,
    materials: Materials,
    logs: Path,
    conditions: Mapping[str, Any],
) -> faults.Row:
    """Run one training in a sandbox; return its row, with times as they would be without dilation."""
    placed = placement(plan, fault.run)
    case_logs = logs / str(whom)
    environments, _ = materials.described()
    engines.check(environments)
    datasets = {key: str(path.resolve()) for key, path in materials.datasets.items()}
    group = group_job(plan, fault.run, placed, environments, materials, datasets, {}, case_logs)
    job = FaultJob(
        group=replace(group, framework_timeout_s=fault.timeout_s * placed.dilation),
        point=fault.point.as_dict(),
        kill=whom,
        at_step=fault.at_step,
        steps=fault.steps,
        tolerances=plan.settings.tolerances,
    )
    found = answer_of(
        "ddlbench.runs.faults",
        job,
        FaultsFound,
        what=f"{words(fault.point)}, {in_words(whom)} killed:",
        logs=case_logs,
        within=user_namespace(environments),
    )
    of_ranks = [replace(fate, after_s=fate.after_s / placed.dilation) for fate in found.fates]
    return faults.row(
        in_words(whom),
        [of_ranks[rank] for rank in found.killed],
        [fate for rank, fate in enumerate(of_ranks) if rank not in found.killed],
        tested=found.tested,
        conditions={**conditions, **found.made, "dilation": placed.dilation},
    )


def in_words(whom: int | str) -> str:
    """Describe the members that a training loses.

    Args:
        whom: how many workers, or `server`.

    Returns:
        `the server`, `nobody`, `1 worker`, `2 workers`, ...
    """
    if whom == SERVER:
        return "the server"
    return {0: "nobody", 1: "1 worker"}.get(int(whom), f"{whom} workers")


def victims(group: Sequence[Member], whom: int | str) -> list[int]:
    """Choose the members to kill.

    Workers are taken from the end, because the first worker tests the trained parameters.

    Args:
        group: all members, by rank.
        whom: how many workers, or `server`.

    Returns:
        Their ranks, ascending. Empty for `server` if the group has no server.
    """
    if whom == SERVER:
        return [rank for rank, member in enumerate(group) if member.role in HOLDING]
    workers = [rank for rank, member in enumerate(group) if member.role == WORKER]
    return workers[len(workers) - int(whom) :]


def run(job: FaultJob) -> FaultsFound:
    """Train, kill members in the middle of a step, and see what happens to the others.

    Args:
        job: the training. A rank counts as hung after `_PATIENCE` of the framework's time-outs.

    Returns:
        What happened to every rank. If all survivors trained to the end, their parameters are tested.

    Raises:
        DdlbenchError: the model does not fit into memory, or the training failed before a member was killed.
    """
    timeout_s = job.group.framework_timeout_s or 0.0
    rest = job.steps - job.at_step
    with launched(job.group) as on_hosts:
        group = on_hosts.group
        made = _begin(on_hosts, job)
        with on_hosts.fillers.running():
            trained = group.train(job.at_step, from_fresh=True)
        step_s = max(median(times) for each in trained for times in each.step_times_ms) / 1000
        training_s = _SLOWER * rest * step_s
        killed = victims(on_hosts.members, job.kill)
        # Whoever has not come to the end by then waits for a time-out.
        with on_hosts.fillers.running(at_most_s=training_s):
            group.send(Train(rest))
            sleep(step_s / 2)
            group.kill(killed)
            fates = group.fates(Trained, training_s + _PATIENCE * timeout_s)
        survivors = [fate for rank, fate in enumerate(fates) if rank not in killed]
        tested: TestResult | None = None
        if all(fate.reply for fate in survivors):
            group.send(Conclude(evaluate=True))
            for fate in group.fates(Concluded, job.group.timeouts.prepare_s):
                if isinstance(fate.reply, Concluded) and fate.reply.test:
                    tested = fate.reply.test
    return FaultsFound(made, killed, [_outcome(fate) for fate in fates], tested)


def _outcome(fate: Fate) -> faults.Fate:
    return faults.Fate(fate.name, fate.after_s, fate.reply is not None, fate.ended, fate.log_tail)


def _begin(on_hosts: GroupOnHosts, job: FaultJob) -> dict[str, object]:
    """Connect the workers over open links, make the link and send them the point; return how the link was made."""
    point, star = Point.from_dict(job.point), on_hosts.hosts.star
    training = training_point(point)
    on_hosts.group.connect([ModelShape(*training.key)])
    made: dict[str, object] = {}
    if star and (link := link_of(point)):
        measured = Links(star, job.tolerances, recheck_s=0.0, clock=Clock()).make(link)
        made = {"backend": star.backend.name}
        made |= {f"measured_{name}": value for name, value in measured.items()}
    if not all(reply.fits for reply in on_hosts.group.prepare(training, point.seed)):
        raise DdlbenchError(f"{point.model} with a batch of {point.batch_size} does not fit into memory")
    return made


if __name__ == "__main__":
    sys.exit(do(FaultJob, run))
