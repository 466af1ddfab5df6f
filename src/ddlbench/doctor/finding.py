"""A finding: whether this machine has one thing that figures may need, such as a runtime or a fabric."""

from dataclasses import asdict, dataclass
from typing import Any

from ddlbench.errors import DdlbenchError

Key = tuple[str, str]  # kind and name: ("runtime", "docker")


@dataclass(frozen=True)
class Finding:
    """Whether this machine has a thing.

    Attributes:
        kind: of the thing: runtime, fabric, framework, ...
        name: of the thing.
        is_here: None if the question was not answered in time.
        says: what was found, or why it is not here.
        to_do: how to install it or set it up, if that is known.
    """

    kind: str
    name: str
    is_here: bool | None
    says: str
    to_do: str | None = None

    @property
    def key(self) -> Key:
        """Its kind and name."""
        return self.kind, self.name

    def as_dict(self) -> dict[str, Any]:
        """Return its attributes as plain data."""
        return asdict(self)


class NoAnswer(DdlbenchError):
    """A program gave no answer in time, so it is not known whether the thing is here."""


def here(kind: str, name: str, says: str) -> Finding:
    """Make the finding that a thing is here.

    Args:
        kind: of the thing: runtime, fabric, framework, ...
        name: of the thing.
        says: what was found.

    Returns:
        A finding with `is_here` True.
    """
    return Finding(kind, name, True, says)


def silent(kind: str, name: str, patience_s: float) -> Finding:
    """Make the finding that there was no answer in time.

    Args:
        kind: of the thing: runtime, fabric, framework, ...
        name: of the thing.
        patience_s: how long we waited.

    Returns:
        A finding with `is_here` None; it proposes to wait ten times as long.
    """
    wait = f"a machine that is busy may need more: --patience {10 * patience_s:g}"
    return Finding(kind, name, None, f"no answer within {patience_s:g} s", wait)


def lacking(kind: str, name: str, error: object) -> Finding:
    """Make the finding that a thing is not here.

    Args:
        kind: of the thing: runtime, fabric, framework, ...
        name: of the thing.
        error: an exception or a text; its first sentence says why, the others what to do.

    Returns:
        A finding with `is_here` False.
    """
    first, *lines = str(error).strip().splitlines() or ["it gives no reason"]
    why, dot, rest = first.partition(". ")
    to_do = " ".join(" ".join([rest, *lines]).split()) if dot or lines else ""
    return Finding(kind, name, False, why.rstrip(":. "), to_do or None)
