"""How far emulated times may be off: the worst cases that benchmarks found among those that they drew at random."""

from collections.abc import Iterator, Mapping
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
    judged: Judged, placement: Placement, divided_between: str | None
) -> Mapping[str, object] | None:
    """Find the emulation's own error for some hosts.

    Args:
        judged: what benchmarks found.
        placement: the hosts.
        divided_between: what divides the cores that they share, as of `Division`.

    Returns:
        `percent`: how far step times may be off, and the `worst_cases` that say so. None: the hosts share no core or
        compute nothing here, or so many on a core were not judged.
    """
    found = list(_of_sharing(judged, placement, divided_between))
    if not found:
        return None
    factor = prod(1 + each.percent / 100 for each in found)
    return {"percent": round(100 * (factor - 1), 1), "worst_cases": [asdict(each) for each in found]}


def _of_sharing(judged: Judged, placement: Placement, divided_between: str | None) -> Iterator[WorstCase]:
    """That of as many hosts on a core, or the next more; the worst of all divisions where this one was not judged."""
    here = round(1 / placement.hosts[0].core_share)
    if here == 1 or placement.waits:
        return
    enough = [each for each in judged.worst_cases if each.of == "hosts" and each.on_a_core >= here]
    alike = [each for each in enough if each.divided_between == divided_between] or enough
    nearest = {
        each.divided_between: each for each in sorted(alike, key=lambda each: each.on_a_core, reverse=True)
    }
    yield from sorted(nearest.values(), key=lambda each: each.percent)[-1:]
