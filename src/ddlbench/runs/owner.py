"""The configuration that a folder of results belongs to, so that another one of the same name does not write there."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from ddlbench.errors import ConfigError
from ddlbench.files import read_json, write_atomically
from ddlbench.measurements.provenance import relative_name
from ddlbench.plan.config_files import Configuration

NOTE = ".configuration.json"  # in the folder of a configuration's own results


@dataclass(frozen=True)
class Owner:
    """Where a configuration comes from.

    Attributes:
        files: as `Configuration.files`, as paths below the repository.
        changes: as `Configuration.changes`.
        place: as `Configuration.place`; results of the same configuration elsewhere are no other's.
    """

    files: tuple[str, ...]
    changes: Mapping[str, Any]
    place: Mapping[str, Any] = field(default_factory=dict, compare=False)

    def options(self) -> str:
        """Write the options by which Snakemake reads this configuration.

        Returns:
            Words for a shell; empty for the default configuration.
        """
        words = ["--configfile", *self.files[1:]] if self.files[1:] else []
        if given := {**self.changes, **self.place}:
            words += ["--config", *(f"{key}={_as_value(value)}" for key, value in given.items())]
        return shlex.join(words)


def _as_value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def owner(configuration: Configuration, root: Path) -> Owner:
    """Describe a configuration.

    Args:
        configuration: as it was read.
        root: the repository.

    Returns:
        Where it comes from.
    """
    files = tuple(relative_name(file, root) for file in configuration.files)
    return Owner(files, configuration.changes, configuration.place)


def owner_of(own_results: Path) -> Owner | None:
    """Tell which configuration a folder holds the results of.

    Args:
        own_results: the folder, as `Settings.own_results`.

    Returns:
        The configuration; None if that is not known.
    """
    try:
        content = read_json(own_results / NOTE)
        place = dict(content.get("place", {}))
        return Owner(tuple(map(str, content["files"])), dict(content["changes"]), place)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def claim(own_results: Path, configuration: Owner) -> None:
    """Write down which configuration a folder holds the results of.

    Args:
        own_results: the folder, which is made if it is missing.
        configuration: whose results they are.
    """
    write_atomically(own_results / NOTE, json.dumps(asdict(configuration)))


def check_owner(own_results: Path, configuration: Owner, root: Path) -> None:
    """Check that a folder of results is not that of another configuration, which happens to have the same name.

    Args:
        own_results: the folder.
        configuration: whose results are to be there.
        root: the repository.

    Raises:
        ConfigError: they are those of another configuration, whose files still exist.
    """
    other = owner_of(own_results)
    if other is None or other == configuration or not all((root / file).is_file() for file in other.files):
        return
    raise ConfigError(
        f"{own_results} holds the results of another configuration ({other.options() or 'the default one'}). Give this "
        "one a name of its own (`name: ...` in its file, or `--config name=...`), or move that folder away."
    )
