"""What machines cost, from config/prices.yaml."""

import datetime
import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ddlbench.configuration.yaml_file import read_yaml
from ddlbench.errors import ConfigError, nearest

OLD_DAYS = 180
NUMBERS = ("hourly", "gigabyte", "vcpus", "memory_gb")


@dataclass(frozen=True)
class Price:
    """The price of a type of machine.

    Attributes:
        machine: its name.
        hourly: for an hour of one.
        gigabyte: for 10^9 bytes that one sends to another.
        currency: of both.
        vcpus: that it has.
        memory_gb: that it has, in GiB.
        where: the provider, the region and the terms.
        source: a link to the price, or who says it.
        date: for which the source states it, as 2026-06-17.
    """

    machine: str
    hourly: float
    gigabyte: float
    currency: str
    vcpus: float
    memory_gb: float
    where: str
    source: str
    date: str

    def warning(self, today: datetime.date) -> str | None:
        """Say that the price is out of date.

        Args:
            today: the present day.

        Returns:
            A sentence; None: it is recent.
        """
        days = (today - datetime.date.fromisoformat(self.date)).days
        if days <= OLD_DAYS:
            return None
        return (
            f"the price of {self.machine} is from {self.date}, {days} days ago: look it up in {self.source}"
        )


def read_prices(path: Path, root: Path) -> dict[str, Price]:
    """Read all prices.

    Args:
        path: of the file.
        root: the folder that messages show the path relative to.

    Returns:
        The prices by the machine's name.

    Raises:
        ConfigError: a price is written wrong; names machine and key.
    """
    content = read_yaml(path, root)
    name = str(path.relative_to(root) if path.is_relative_to(root) else path)
    if not isinstance(content, dict) or not content:
        raise ConfigError(f"{name}: expected machines by name, found {type(content).__name__}")
    return {
        str(machine): _price(f"{name}: {machine}", str(machine), each) for machine, each in content.items()
    }


def _price(at: str, machine: str, entry: Any) -> Price:
    if not isinstance(entry, Mapping):
        raise ConfigError(f"{at}: expected the keys of a price, found {entry!r}")
    known = [field.name for field in fields(Price) if field.name != "machine"]
    for key in entry:
        if key not in known:
            raise ConfigError(f"{at}: unknown key {key!r}{nearest(key, known)}")
    for key in known:
        if key not in entry:
            raise ConfigError(f"{at}: lacks {key}")
    for key in NUMBERS:
        value = entry[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise ConfigError(f"{at}: {key} is {value!r}, expected a number of at least 0")
    try:
        datetime.date.fromisoformat(str(entry["date"]))
    except ValueError:
        raise ConfigError(f"{at}: date is {entry['date']!r}, expected one like 2026-06-17") from None
    # 20260617 is a date, too, and a number to YAML
    values: dict[str, Any] = {key: entry[key] if key in NUMBERS else str(entry[key]) for key in known}
    return Price(machine, **values)
