"""What commands read of a configuration's file without making its plan, which takes seconds."""

from pathlib import Path
from typing import Any

from ddlbench.errors import ConfigError


def settings_of(file: Path) -> dict[str, Any]:
    """Read a configuration.

    Args:
        file: the configuration's.

    Returns:
        Its settings over those of the default one; not checked.

    Raises:
        ConfigError: there is no such file, or it holds something else.
    """
    from ddlbench.plan.config_files import configuration

    settings = configuration([file], root=Path()).settings
    if not isinstance(settings, dict):
        raise ConfigError(f"{file}: expected keys and values")
    return settings


def results_of(settings: dict[str, Any]) -> Path:
    """Name the folder of a configuration's own results.

    Args:
        settings: as of `settings_of`.

    Returns:
        The folder, which need not exist.
    """
    return Path(str(settings.get("results", "results"))) / str(settings.get("name", ""))
