"""What commands read of a configuration's file without making its plan, which takes seconds."""

from pathlib import Path
from typing import Any

from ddlbench.cli.arguments import DEFAULT_CONFIG
from ddlbench.errors import ConfigError


def is_checkout(folder: Path) -> bool:
    """Say whether a folder is a checkout of ddlbench: other projects have a config/config.yaml too.

    Args:
        folder: any.

    Returns:
        Whether it has the default configuration and the schemas of all configurations.
    """
    return (folder / DEFAULT_CONFIG).is_file() and (folder / "workflow/schemas").is_dir()


def checkout() -> Path:
    """Name the checkout that a command works on.

    Returns:
        The working directory.

    Raises:
        ConfigError: it is none.
    """
    if not is_checkout(Path.cwd()):
        raise ConfigError(
            f"{Path.cwd()} has no {DEFAULT_CONFIG} with the workflow/schemas that are ddlbench's. "
            "Start this in a checkout of ddlbench"
        )
    return Path.cwd()


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
