"""How far emulated times may be off: the worst cases that benchmarks found among those that they drew at random."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Literal

from ddlbench.errors import ConfigError
from ddlbench.network.hosts import Placement
from ddlbench.protocol.codec import read_text

FILE = Path("config/emulation_error.json")  # below the repository's root


@dataclass(frozen=True, kw_only=True)
class WorstCase:
    """How far step times were from those of the same hosts with all cores that they stand for.

    Attributes:
        of: what was emulated: hosts that share a core, or the vCPUs of a host that are made of one core.
        on_a_core: how many of them.
        divided_between: what divided the core, as of `Division`; None for vCPUs.
        percent: in the worst case.
        cases: how many were drawn.
        commit: of the code that was judged.
        date: when.
        machine: where.
    """

    of: Literal["hosts", "vcpus"]
    on_a_core: int
    divided_between: str | None = None
    percent: float
    cases: int
    commit: str | None
    date: str
    machine: str


@dataclass(frozen=True)
class Judged:
    """All that was judged, as the file has it."""

    worst_cases: tuple[WorstCase, ...] = ()


def read_judged(file: Path = FILE) -> Judged:
    """Read what benchmarks found.

    Args:
        file: as they write it.

    Returns:
        The worst cases; none if there is no such file.

    Raises:
        ConfigError: the file is damaged.
    """
    try:
        return read_text(Judged, file.read_text())
    except FileNotFoundError:
        return Judged()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{file}: cannot be read ({type(error).__name__}: {error}). Remove it; `python -m benchmarks dilation` and "
            "`... vcpus` write it"
        ) from error


def systematic_error(
    judged: Judged, placement: Placement, divided_between: str | None, vcpus: int = 1
) -> Mapping[str, object] | None:
    """Find the emulation's own error for some hosts.

    Hosts may share a core that stands for several vCPUs of each. Both may be as wrong as in the worst case, the same
    way: their factors are multiplied.

    Args:
        judged: what benchmarks found.
        placement: the hosts.
        divided_between: what divides the cores that they share, as of `Division`.
        vcpus: how many vCPUs of a host are made of one core, whose speed was measured.

    Returns:
        `percent`: how far step times may be off, and the `worst_cases` that say so. None: a core is one vCPU of one
        host, or the hosts compute nothing here, or a part of it was not judged.
    """
    hosts = round(1 / placement.hosts[0].core_share)
    needed = [_of_sharing(judged, hosts, divided_between)] if hosts > 1 and not placement.waits else []
    needed += [_of_vcpus(judged, vcpus)] if vcpus > 1 else []
    found = [each for each in needed if each]
    if not found or len(found) < len(needed):
        return None
    factor = prod(1 + each.percent / 100 for each in found)
    return {"percent": round(100 * (factor - 1), 1), "worst_cases": [asdict(each) for each in found]}


def _of_sharing(judged: Judged, hosts: int, divided_between: str | None) -> WorstCase | None:
    """That of as many hosts on a core, or the next more; the worst of all divisions if this one was never judged."""
    if divided_between == "nothing":
        return None
    of_hosts = [each for each in judged.worst_cases if each.of == "hosts"]
    alike = [each for each in of_hosts if each.divided_between == divided_between] or of_hosts
    enough = (each for each in alike if each.on_a_core >= hosts)
    most_first = sorted(enough, key=lambda each: each.on_a_core, reverse=True)
    nearest = {each.divided_between: each for each in most_first}
    return max(nearest.values(), key=lambda each: each.percent, default=None)


def _of_vcpus(judged: Judged, vcpus: int) -> WorstCase | None:
    """That of as many vCPUs, or the next more, or the most: beyond these the interval of their speed says the rest."""
    known = sorted(
        (each for each in judged.worst_cases if each.of == "vcpus"), key=lambda each: each.on_a_core
    )
    return next((each for each in known if each.on_a_core >= vcpus), known[-1] if known else None)
