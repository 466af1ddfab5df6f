"""What was found out about one thing that a figure may need: a runtime, a fabric, a framework, ..."""

from dataclasses import asdict, dataclass
from typing import Any

from ddlbench.errors import DdlbenchError

Key = tuple[str, str]  # its kind and its name: ("runtime", "docker")


@dataclass(frozen=True)
class Finding:
    """Whether a thing is here (None: nothing answered), what was found of it, and what to do where it is not."""

    kind: str
    name: str
    is_here: bool | None
    says: str
    to_do: str | None = None

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.kind, self.name

    def as_dict(self) -> dict[str, Any]:
        """As plain data."""
        return asdict(self)


class NoAnswer(DdlbenchError):
    """What was asked is silent; that does not tell whether it is here."""


def here(kind: str, name: str, says: str) -> Finding:
    """It is here."""
    return Finding(kind, name, True, says)


def silent(kind: str, name: str, patience_s: float) -> Finding:
    """It has not answered."""
    wait = f"a machine that is busy may need more: --patience {10 * patience_s:g}"
    return Finding(kind, name, None, f"no answer within {patience_s:g} s", wait)


def lacking(kind: str, name: str, error: object) -> Finding:
    """It is not here, as an error says; its first sentence says why, the others what to do."""
    first, *lines = str(error).strip().splitlines() or ["it gives no reason"]
    why, dot, rest = first.partition(". ")
    to_do = " ".join(" ".join([rest, *lines]).split()) if dot or lines else ""
    return Finding(kind, name, False, why.rstrip(":. "), to_do or None)
