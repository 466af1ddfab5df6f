"""What becomes of a training in the middle of which members of its worker group are killed.

python -m ddlbench.sweep.faults JOB.json ANSWER.json        (the first process of a sandbox)

Any framework's group will do: all train some steps and say so; then they are told to train the rest, and while they are
in the middle of the first step of it, members are killed. Time is dilated for the frameworks' time-outs too.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from time import sleep
from typing import Any

from ddlbench.containers import engines
from ddlbench.containers.podman import user_namespace
from ddlbench.environments.failed_environments import NO_ENVIRONMENT
from ddlbench.environments.materials import Materials, readable
from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.hosts.launch import Crew, launched
from ddlbench.launch.roles import HOLDING, WORKER, Member, worker_of
from ddlbench.measurements import facts, faults, provenance
from ddlbench.network.verify import Tolerances
from ddlbench.plan import Fault, Plan, words
from ddlbench.sandbox.job import answer_of, do
from ddlbench.sweep.link_monitor import Links, link_of
from ddlbench.sweep.placement import code_of, members_of, placement
from ddlbench.system.clock import Clock
from ddlbench.system.processes import die_with_parent

SERVER = "server"
_PATIENCE = 1.5  # time-outs until those that say nothing have hung
_SLOWER = 3.0  # as the steps before, survivors' steps may be
_WHEN = ("at_step", "steps", "timeout_s")

Found = dict[str, Any]


def write_faults(
    plan: Plan,
    fault: Fault,
    output: Path | str,
    materials: Materials,
    *,
    logs: Path,
) -> None:
    """Train once for each entry of `kill`, and write the table and its sidecar.

    materials: none if it cannot be measured at all. Raises DdlbenchError where a training fails before anybody was
    killed.
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
    """Have a sandbox do it, and tell it in times as they would be without dilation."""
    here = placement(plan, fault.run)
    of_case = logs / str(whom)
    settings = plan.settings
    environments, _ = materials.described()
    engines.check(environments)
    job = {
        **{key: fault.run.group[key] for key in ("framework", "strategy", "fabric", "devices")},
        **{key: fault.run.group[key] for key in ("congestion_control", "sites")},
        **{key: dict(settings[key]) for key in ("timeouts", "tolerances", "interfaces")},
        "point": fault.point.as_dict(),
        "placement": asdict(here),
        "members": [asdict(each) for each in members_of(fault.run)],
        "run": fault.run.id,
        "runtime": fault.point.runtime,
        "environments": environments,
        "readable": readable(settings["datasets"], materials.datasets.values()),
        "datasets": {key: str(path.resolve()) for key, path in materials.datasets.items()},
        "inherited": dict(os.environ),
        "logs": str(of_case.resolve()),
        "kill": whom,
        **{key: conditions[key] for key in _WHEN},
    }
    found: Found = answer_of(
        "ddlbench.sweep.faults",
        job,
        what=f"{words(fault.point)}, {in_words(whom)} killed:",
        logs=of_case,
        within=user_namespace(environments),
    )
    of_ranks = [{**fate, "after_s": fate["after_s"] / here.dilation} for fate in found["fates"]]
    return faults.row(
        in_words(whom),
        [of_ranks[rank] for rank in found["killed"]],
        [fate for rank, fate in enumerate(of_ranks) if rank not in found["killed"]],
        tested=found["tested"],
        conditions={**conditions, **found["made"], "dilation": here.dilation},
    )


def in_words(whom: int | str) -> str:
    """Whom a training loses."""
    if whom == SERVER:
        return "the server"
    return {0: "nobody", 1: "1 worker"}.get(int(whom), f"{whom} workers")


def victims(group: Sequence[Member], whom: int | str) -> list[int]:
    """The ranks of whom to kill: of workers the last ones, as the first one tests what is learnt."""
    if whom == SERVER:
        return [rank for rank, member in enumerate(group) if member.role in HOLDING]
    workers = [rank for rank, member in enumerate(group) if member.role == WORKER]
    return workers[len(workers) - int(whom) :]


def run(job: Mapping[str, Any]) -> Found:
    """Train, kill, and see what becomes of the others."""
    timeout_s = job["timeout_s"] * job["placement"]["dilation"]
    told = {"datasets": job["datasets"], "strategy": job["strategy"], "timeout_s": timeout_s}
    rest = job["steps"] - job["at_step"]
    with launched(job, worker_of(job["framework"], job["strategy"]), told) as crew:
        made = _begin(crew, job)
        trained = crew.group.train(job["at_step"], from_fresh=True)
        step_s = max(median(times) for each in trained for times in each["step_times_ms"]) / 1000
        killed = victims(crew.members, job["kill"])
        crew.group.tell({"do": "train", "steps": rest, "from_fresh": False})
        sleep(step_s / 2)
        crew.group.kill(killed)
        fates = crew.group.fates("trained", _SLOWER * rest * step_s + _PATIENCE * timeout_s)
        survivors = [fate for rank, fate in enumerate(fates) if rank not in killed]
        tested: Found = {}
        if all(fate.answer for fate in survivors):
            crew.group.tell({"do": "conclude", "evaluate": True, "save_to": None})
            for fate in crew.group.fates("concluded", job["timeouts"]["prepare_s"]):
                tested |= {
                    key: value for key, value in (fate.answer or {}).items() if key.startswith("test_")
                }
    return {"made": made, "killed": killed, "fates": [asdict(fate) for fate in fates], "tested": tested}


def _begin(crew: Crew, job: Mapping[str, Any]) -> Found:
    """Connect the workers over open links, then make the link and hand them the point; how it was made."""
    point = job["point"]
    crew.group.connect([(point["model"], list(point["image_shape"]))])
    made: Found = {}
    if crew.star and (link := link_of(point)):
        of_star = Links(crew.star, Tolerances(**job["tolerances"]), recheck_s=0.0, clock=Clock())
        measured = of_star.make(link)
        made = {"backend": crew.star.backend.name}
        made |= {f"measured_{name}": value for name, value in measured.items()}
    if not all(answer["fits"] for answer in crew.group.prepare(point, point["seed"])):
        raise DdlbenchError(
            f"{point['model']} with a batch of {point['batch_size']} does not fit into memory"
        )
    return made


if __name__ == "__main__":
    sys.exit(do(run))
