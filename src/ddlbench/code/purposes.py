"""What code is for: the modules that run a measurement, a probe, a table or a figure, and those that do not matter.

The same code for the same purpose gives the same result. Therefore its hash is in the fingerprint of measurements, in
the parameters of rules (Snakemake makes a result again if the code has changed) and in sidecars (`ddlbench verify`
compares it).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ddlbench.code.closure import Code, Package
from ddlbench.workers.modules import MODULES

PACKAGE = Path(__file__).resolve().parent.parent
ON_NODES = "nodes"

# Modules and folders that are reached and do not affect the result, each with the reason. What is reached only through
# them does not count either.
ALWAYS = {
    "ddlbench.code": "It tells codes apart and measures nothing.",
    "ddlbench.errors": "Errors end what goes wrong; their words are for people.",
    "ddlbench.files": "It writes and hashes files, whatever is in them.",
    "ddlbench.devices.step_division": "It divides the time of a step, and its parts are in the fingerprint.",
    "ddlbench.plan.config": "What it reads is in the fingerprint, or in a rule's parameters.",
    "ddlbench.plan.request": "It says what is asked of a scheduler.",
    "ddlbench.plan.settings": "The values that it holds are in the fingerprint, or in a rule's parameters.",
    "ddlbench.environments": "What an environment holds is in the fingerprint, by its hash.",
    "ddlbench.measurements.facts": "Facts are kept beside a result; those that decide are in the fingerprint.",
    "ddlbench.measurements.provenance": "It says afterwards what a result was made of.",
    "ddlbench.system.refusals": "It words why a machine allows no sandbox.",
    "ddlbench.workers.modules": "It names all workers; the one that runs is a root.",
}
# What a point derives from its keys, as how many hosts it takes, decides: `plan.point`, `plan.run`, `plan.sites` and
# `devices` count. The catalogue does not, as each new model, data set and framework would throw away measurements of
# all others. Strategies have rules, and few are added: they are in `workers.strategies`, which counts.
PLANNING = {
    "ddlbench.plan.catalogue": "What a point takes of its lists is in the fingerprint, or in the purpose (nodes).",
    "ddlbench.plan.plan": "It says what is measured, and at which dilation, which is in the fingerprint.",
    "ddlbench.plan.probe": "It lists probes, which are measured by themselves.",
    "ddlbench.plan.study": "What a study asks for is in the fingerprint, or in a rule's parameters.",
}
MEASURING = {
    "ddlbench.measurements.store": "It keeps records and finds them again; they are made before.",
    "ddlbench.measurements.record": "It checks records, and derives numbers from what was measured.",
    "ddlbench.measurements.statistics": "It says how often to repeat, which is not in the fingerprint either.",
    "ddlbench.runs.inventory": "It says what the store lacks, and computes fingerprints.",
    "ddlbench.shares.systematic_error": "It says how far a time may be off, and changes none.",
    "ddlbench.sweep.attempts": "It notes when a run was tried and why that ended.",
    "ddlbench.sweep.progress": "It prints lines on the terminal.",
    **PLANNING,
}
PROBING = {
    "ddlbench.plan": "What a probe takes of it is in its rule's parameters.",
}
OFF_NODES = {
    "ddlbench.cluster": "It starts workers on the nodes of a SLURM job; none is there.",
    "ddlbench.network.interfaces": "It chooses among a node's interfaces; emulated hosts have one.",
}
CHECKING_ENGINES = {
    "ddlbench.containers.engines": "It checks that container engines are as described; the descriptions are inputs.",
}
DESCRIBING_ENGINES = {
    "ddlbench.containers.image": "It builds images, which have descriptions of their own.",
    "ddlbench.containers.sif": "It builds images, which have descriptions of their own.",
}


@dataclass(frozen=True)
class Purpose:
    """The modules that run something, and modules that they reach which do not affect it, each with the reason."""

    roots: tuple[str, ...]
    without: Mapping[str, str] = field(default_factory=dict)


PURPOSES = {
    "measure": Purpose(
        ("ddlbench.sweep.session", "ddlbench.runs.group_of_run", "ddlbench.runs.vcpus"), MEASURING
    ),
    "threads": Purpose(("ddlbench.probes.thread_scaling",), MEASURING),
    "faults": Purpose(("ddlbench.runs.faults",), {**MEASURING, **CHECKING_ENGINES}),
    "point_to_point": Purpose(
        (
            "ddlbench.probes.link_probe",
            "ddlbench.probes.ucx_probe",
            "ddlbench.probes.collective_probe",
            "ddlbench.measurements.point_to_point",
            MODULES["torch_collectives"],
        ),
        PROBING,
    ),
    "collectives": Purpose(
        (
            "ddlbench.probes.collective_probe",
            "ddlbench.measurements.collectives",
            MODULES["torch_collectives"],
        ),
        PROBING,
    ),
    "runtimes": Purpose(("ddlbench.probes.runtime_probe",), {**PROBING, **CHECKING_ENGINES}),
    "runtime": Purpose(("ddlbench.containers.engines",), DESCRIBING_ENGINES),
    "count_models": Purpose(("ddlbench.probes.model_counts",)),
    "profile": Purpose(("ddlbench.probes.step_profile",)),
    "table": Purpose(("ddlbench.measurements.tables",)),
    "telemetry_table": Purpose(("ddlbench.telemetry.table",)),
    "figures": Purpose(("ddlbench.figures",)),
    "claims": Purpose(("ddlbench.claims.report",)),
    "recommend": Purpose(("ddlbench.recommender.active.measuring", "ddlbench.recommender.active.goal")),
    "page": Purpose(
        ("ddlbench.recommender.screenshot", "ddlbench.recommender.app", "ddlbench.recommender.learner")
    ),
    "report": Purpose(("ddlbench.report.page",)),
    "archive": Purpose(("ddlbench.report.crate",)),
}
OF_WORKERS = ("measure", "threads", "faults")


def purpose_of(words: str) -> Purpose:
    """Find a purpose and its variant.

    Args:
        words: `table`; `measure torch`, with the worker as of `workers.modules`; `measure torch nodes`, if it runs on
            nodes of a SLURM job; `figures zhao2016`, with the study.

    Returns:
        Its roots, and all modules and folders that are left out.

    Raises:
        KeyError: there is no such purpose or worker.
    """
    what, *variant = words.split() or [""]
    which = variant[0] if variant else ""
    purpose = PURPOSES[what]
    roots, without = purpose.roots, {**ALWAYS, **purpose.without}
    if ON_NODES not in variant:
        without |= OFF_NODES
    if what in OF_WORKERS:
        roots += (MODULES[which],)
    if what == "figures":
        roots += tuple(name for name in [f"{roots[0]}.{which}"] if name in _package().files)
    return Purpose(roots, without)


@cache
def code_for(words: str) -> Code:
    """Find the code that decides a result, once for each purpose.

    Args:
        words: as of `purpose_of`.

    Returns:
        The code; its purpose is `words`.

    Raises:
        KeyError: there is no such purpose or worker.
    """
    purpose = purpose_of(words)
    return _package().code(words, purpose.roots, purpose.without.keys())


@cache
def whole_package() -> Code:
    """The code of all modules, for results whose code is not compared."""
    package = _package()
    return package.code("", package.files)


@cache
def _package() -> Package:
    return Package(PACKAGE)
