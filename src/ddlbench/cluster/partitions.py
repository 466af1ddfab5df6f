"""What the partitions of a SLURM cluster have, according to sinfo, and which requests they can never grant."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ddlbench.cluster.slurm import ask, minutes
from ddlbench.errors import ConfigError, nearest

FORMAT = "%P|%N|%T|%G|%c|%m|%l|%a|%f"  # partition, node, state, gres, processors, MB, time limit, up or down, features
ALONE = "--exclusive"  # asks sbatch for whole nodes
_NOT_THERE = ("down", "drain", "fail", "boot", "power", "maint", "unk")  # beginnings of unusable states


@dataclass(frozen=True)
class ClusterNode:
    """A node according to sinfo: its generic resources (`gpu:a100:4`), its number of processors, its features."""

    name: str
    state: str
    gres: str
    cpus: int
    memory_mb: int
    features: tuple[str, ...] = ()

    @property
    def is_there(self) -> bool:
        """Whether jobs can have it, either at once or when others have ended."""
        return not self.state.startswith(_NOT_THERE)


@dataclass(frozen=True)
class Partition:
    """A partition: its nodes, its time limit in minutes (None: none), and whether jobs are started there."""

    name: str
    is_default: bool
    is_up: bool
    limit_min: float | None
    nodes: tuple[ClusterNode, ...]


@dataclass(frozen=True)
class Request:
    """What a job requests. Processors, memory and gres are of each node.

    partition: one, or several with commas; None: the cluster's default. constraint: as `sbatch --constraint` takes it,
    like `ib&(hdr|edr)` or `[rack1*2&rack2*2]`. extra: further options of sbatch. must_be_alone: it measures, which jobs
    beside it on its nodes would disturb.
    """

    job: str
    partition: str | None
    nodes: int = 1
    cpus: int = 1
    memory_mb: int = 0
    gres: str = ""
    runtime_min: float | None = None
    constraint: str = ""
    extra: str = ""
    must_be_alone: bool = False


def partitions() -> list[Partition]:
    """Return the partitions of the cluster that this machine belongs to.

    Raises:
        DdlbenchError: there is no cluster, or SLURM does not answer.
    """
    return parsed(ask("sinfo", "--all", "--noheader", "--Node", "--format", FORMAT))


def parsed(text: str) -> list[Partition]:
    """Parse what sinfo prints in FORMAT.

    Args:
        text: one line for each pair of partition and node.

    Returns:
        The partitions with their nodes, in the order of the lines.
    """
    nodes: dict[str, list[ClusterNode]] = {}
    of_partition: dict[str, tuple[bool, bool, float | None]] = {}
    for line in text.splitlines():
        partition, node, state, gres, cpus, memory_mb, limit, up, features = line.split("|")
        name = partition.removesuffix("*")
        of_partition[name] = (partition.endswith("*"), up == "up", minutes(limit))
        nodes.setdefault(name, []).append(
            ClusterNode(
                node,
                state,
                gres,
                int(cpus.rstrip("+")),
                int(memory_mb.rstrip("+")),
                tuple(each for each in features.split(",") if each != "(null)"),
            )
        )
    return [Partition(name, *facts, tuple(nodes[name])) for name, facts in of_partition.items()]


def check_requests(requests: Iterable[Request], known: Sequence[Partition]) -> None:
    """Check that the cluster can grant all requests at some time.

    Args:
        requests: what the jobs request; equal ones are reported once.
        known: the cluster's partitions.

    Raises:
        ConfigError: it can never grant some: one line for each of these, then what the cluster has.
    """
    refused = [f"{each.job}: {why}" for each in dict.fromkeys(requests) if (why := refusal(each, known))]
    if refused:
        rows = "\n".join(f"  {described(partition)}" for partition in known)
        raise ConfigError("\n".join([*refused, "What the cluster has (sinfo):", rows]))


def refusal(request: Request, known: Sequence[Partition]) -> str | None:
    """Find out why the cluster can never grant a request.

    Args:
        request: what a job requests.
        known: the cluster's partitions.

    Returns:
        The reason in words; None if the cluster can grant it.
    """
    if request.must_be_alone and ALONE not in request.extra.split():
        return f"its slurm_extra {request.extra!r} lacks {ALONE}: others on its nodes would disturb what it measures"
    names = request.partition.split(",") if request.partition else [None]  # SLURM takes the first that can
    whys = [_refusal_of(name, request, known) for name in names]
    return None if None in whys else "; ".join(filter(None, whys))


def _refusal_of(name: str | None, request: Request, known: Sequence[Partition]) -> str | None:
    """Why a partition can never grant a request; name None: the default one."""
    found = next((each for each in known if (each.is_default if name is None else each.name == name)), None)
    if found is None:
        hint = nearest(name, [each.name for each in known]) if name else ""
        return f"there is no partition {name!r}{hint}" if name else "the cluster has no default partition"
    where = f"partition {found.name!r}"
    if not found.is_up:
        return f"{where} is down"
    if request.runtime_min and found.limit_min and request.runtime_min > found.limit_min:
        return f"{request.runtime_min:g} minutes are more than {where} allows, {found.limit_min:g}"
    there = [node for node in found.nodes if node.is_there]
    gone = len(found.nodes) - len(there)
    without = f" ({gone} of its {len(found.nodes)} nodes are down or drained)" if gone else ""
    for what, fit in (
        (f"nodes with {request.cpus} processors", [node for node in there if node.cpus >= request.cpus]),
        (
            f"nodes with {request.memory_mb} MB",
            [node for node in there if node.memory_mb >= request.memory_mb],
        ),
        (f"nodes with {request.gres}", [node for node in there if has(node.gres, request.gres)]),
    ):
        if len(there) >= request.nodes > len(fit):
            return f"{where} has {len(fit)} {what}, and {request.nodes} are asked for{without}"
    if len(there) < request.nodes:
        return f"{where} has {len(there)} nodes, and {request.nodes} are asked for{without}"
    features = {feature for node in found.nodes for feature in node.features}
    asked = _features(request.constraint)
    missing = [each for each in asked if each not in features]
    if missing and ("|" not in request.constraint or missing == asked):
        return (
            f"no node of {where} has the feature {missing[0]!r} (constraint){nearest(missing[0], features)}"
        )
    return None


def described(partition: Partition) -> str:
    """Describe a partition in one line.

    Args:
        partition: one with at least one node.

    Returns:
        A line like `main (default): 4 nodes, each 2 processors, 8000 MB, gpu:1; no time limit`.
    """
    kinds = dict.fromkeys((node.cpus, node.memory_mb, node.gres) for node in partition.nodes)
    each = " or ".join(
        f"{cpus} processors, {memory} MB" + ("" if gres == "(null)" else f", {gres}")
        for cpus, memory, gres in kinds
    )
    limit = "no time limit" if partition.limit_min is None else f"at most {partition.limit_min:g} minutes"
    default = " (default)" if partition.is_default else ""
    return f"{partition.name}{default}: {len(partition.nodes)} nodes, each {each}; {limit}"


def has(gres: str, asked: str) -> bool:
    """Compare a node's generic resources with those requested.

    Args:
        gres: the node's, as sinfo prints them: `gpu:a100:4(S:0-1),shard:8`.
        asked: those requested: `gpu:2` or `gpu:a100:2`; an empty string requests none.

    Returns:
        Whether the node has at least those requested.
    """
    if not asked:
        return True
    kind, model, count = _gres(asked)
    there = [_gres(each) for each in re.sub(r"\([^)]*\)", "", gres).split(",") if each]
    return sum(n for name, its_model, n in there if name == kind and model in ("", its_model)) >= count


def _features(constraint: str) -> list[str]:
    """The names in a constraint, without its operators and counts."""
    return re.findall(r"[^&|()\[\]*!]+", re.sub(r"\*\d+", "", constraint.strip("'\"")))


def _gres(text: str) -> tuple[str, str, int]:
    kind, *rest = text.split(":")
    count = int(rest.pop()) if rest and rest[-1].isdigit() else 1
    return kind, rest[0] if rest else "", count
