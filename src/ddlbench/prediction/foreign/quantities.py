"""Numbers as people write them in tables: `419`, `64,000`, `20 ms`, `37.5%`, `1.5 min`."""

import math
import re

# Unit -> what it measures, and how many of its base unit (ms, Mbit/s, percent) it is.
UNITS = {
    "us": ("time", 1e-3),
    "ms": ("time", 1.0),
    "s": ("time", 1e3),
    "sec": ("time", 1e3),
    "seconds": ("time", 1e3),
    "min": ("time", 6e4),
    "minutes": ("time", 6e4),
    "h": ("time", 3.6e6),
    "kbit": ("rate", 1e-3),
    "mbit": ("rate", 1.0),
    "mbps": ("rate", 1.0),
    "gbit": ("rate", 1e3),
    "gbps": ("rate", 1e3),
    "percent": ("share", 1.0),
    "fraction": ("share", 100.0),
    "%": ("share", 1.0),
}
_PLAIN = r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?"
_GROUPED = r"[-+]?[1-9][0-9]{0,2}(?:,[0-9]{3})+(?:\.[0-9]+)?"
_QUANTITY = re.compile(rf"(?P<number>{_GROUPED}|{_PLAIN})\s*(?P<unit>%|[A-Za-zµμ]+(?:/s)?)?")
_MAY_BE_GROUPED = re.compile(r"[-+]?[1-9][0-9]{0,2}\.[0-9]{3}(?![0-9.eE])")
MICRO = str.maketrans("µμ", "uu")
MOST_CHARACTERS = 60


def unit_of(text: str) -> str | None:
    """Find a unit by what people call it.

    Args:
        text: as `ms`, `Sec`, `Mbit/s`, `%`.

    Returns:
        A key of UNITS; None: there is no such unit. `MBps` is none: it may be bytes.
    """
    if text.endswith("Bps"):
        return None
    name = text.strip().lower().translate(MICRO).removesuffix("/s")
    return name if name in UNITS else None


def has_decimal_point(text: str) -> bool:
    """Find out whether a number has a point that stands before decimals for sure.

    Args:
        text: of a table's cell.

    Returns:
        Whether it does, as `64.5`; not `64.000`.
    """
    is_number = len(text) <= MOST_CHARACTERS and _QUANTITY.fullmatch(text.strip())
    return bool(is_number) and "." in text and not has_unclear_point(text)


def has_unclear_point(text: str) -> bool:
    """Find out whether a number has a point that may also stand between thousands.

    Args:
        text: of a table's cell.

    Returns:
        Whether it does, as `64.000`.
    """
    return bool(_MAY_BE_GROUPED.match(text.strip()))


def quantity(text: str, unit: str | None) -> float:
    """Read a number.

    Args:
        text: of a table's cell.
        unit: that a number without one is in, a key of UNITS; None: a plain number is expected.

    Returns:
        The value in its base unit: ms, Mbit/s or percent; without a unit the number.

    Raises:
        ValueError: it is no finite number, or its unit measures something else; says which.
    """
    shown = text[:MOST_CHARACTERS]
    if not text.strip():
        raise ValueError("is empty")
    if len(text) > MOST_CHARACTERS or not (match := _QUANTITY.fullmatch(text.strip())):
        raise ValueError(f"is {shown!r}, which is no number")
    value = float(match["number"].replace(",", ""))
    if not math.isfinite(value):
        raise ValueError(f"is {shown!r}, which is no finite number")
    given = unit
    if match["unit"]:
        given = unit_of(match["unit"])
        if given is None or unit is None or UNITS[given][0] != UNITS[unit][0]:
            raise ValueError(f"is {shown!r}, whose unit {match['unit']!r} does not fit")
    return value * (UNITS[given][1] if given else 1.0)
