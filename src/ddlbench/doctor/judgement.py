"""Which figures can be made with what is here: pure functions from a plan and findings to verdicts."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ddlbench.doctor.finding import Finding, Key
from ddlbench.errors import ConfigError
from ddlbench.plan import Plan, Point
from ddlbench.plan.catalogue import BETWEEN_MACHINES, MEASURABLE
from ddlbench.plan.study import Figure

Unfit = Mapping[tuple[str, Point], str]  # run and point -> why it does not fit into memory
NOTHING: Unfit = {}
PROBING = "torch"  # its environment counts models, and probes collectives and runtimes


@dataclass(frozen=True)
class Part:
    """A part of a figure, which can be made or is a gap.

    Attributes:
        needs: all things that must be here.
        left_out: why the plan leaves it out; None if it does not.
    """

    needs: frozenset[Key]
    left_out: str | None = None


@dataclass(frozen=True)
class Verdict:
    """How much of a figure can be made.

    Attributes:
        figure: its name.
        parts: how many it has.
        possible: how many can be made.
        lacks: reason -> how many parts are gaps because of it.
    """

    figure: str
    parts: int
    possible: int
    lacks: Mapping[str, int]

    @property
    def is_whole(self) -> bool:
        """Whether it can be made without a gap."""
        return self.possible == self.parts


def needs(point: Point) -> frozenset[Key]:
    """List all things that must be here to measure a point.

    Args:
        point: of the plan.

    Returns:
        Their kinds and names.
    """
    if point.fabric in BETWEEN_MACHINES:
        found = {("scheduler", "slurm")}
        of_devices = ("scheduler", "gpu nodes") if point.devices == "gpu" else ("devices", point.devices)
    else:
        found, of_devices = {("fabric", point.fabric)}, ("devices", point.devices)
    found |= {("runtime", point.runtime), of_devices}
    # In a container the framework comes with the image.
    return frozenset(found | ({("framework", point.environment)} if point.runtime == "bare" else set()))


def parts(plan: Plan, figure: Figure, unfit: Unfit = NOTHING) -> Iterator[Part]:
    """List all parts of a figure: points of its grids, trainings with faults, probes, runtimes, or counted models.

    Args:
        plan: of the configuration.
        figure: of the plan.
        unfit: points that do not fit into memory.

    Yields:
        Each part. All counted models are one part.
    """
    for run in plan.runs_of(figure.name):
        for point in filter(figure.shows, run.points):
            yield Part(needs(point), plan.status(point).reason or unfit.get((run.id, point)))
    for fault in figure.faults:
        yield Part(needs(fault.point), plan.status(fault.point).reason)
    for probe in figure.probes:
        with_gloo = {("framework", PROBING)} if probe.transport == "gloo" else set()
        yield Part(frozenset({("fabric", "emulated")} | with_gloo))
    if figure.kind == "runtimes":
        for runtime in MEASURABLE["runtime"]:
            framework = {("framework", PROBING)} if runtime == "bare" else set()
            yield Part(frozenset({("runtime", runtime), ("fabric", "emulated")} | framework))
    if figure.published:
        yield Part(frozenset({("framework", PROBING)}))


def verdict(plan: Plan, name: str, findings: Iterable[Finding], unfit: Unfit = NOTHING) -> Verdict:
    """Judge how much of a figure can be made.

    Args:
        plan: of the configuration.
        name: of the figure.
        findings: about this machine; a thing without a finding counts as being here.
        unfit: points that do not fit into memory.

    Returns:
        The numbers of parts, and the reasons for gaps.

    Raises:
        ConfigError: there is no such figure, or it has no point; names the nearest.
    """
    by_key = {each.key: each for each in findings}
    if name not in plan.figures:
        raise ConfigError(plan.no_figure(name))
    all_parts = list(parts(plan, plan.figures[name], unfit))
    lacks: Counter[str] = Counter()
    possible = 0
    for part in all_parts:
        reasons = _lacking(part, by_key)
        lacks.update(reasons)
        possible += not reasons
    return Verdict(name, len(all_parts), possible, dict(lacks))


def _lacking(part: Part, findings: Mapping[Key, Finding]) -> Sequence[str]:
    if part.left_out:
        return [part.left_out]
    needed = (findings[key] for key in sorted(part.needs) if key in findings)
    return [
        f"{each.kind} {each.name} {'is lacking' if each.is_here is False else 'has not answered'}"
        for each in needed
        if not each.is_here
    ]
