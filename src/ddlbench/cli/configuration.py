"""Which configuration a command works with: the options that name it, and what is read of it without a plan of it."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ddlbench.cli.arguments import DEFAULT_CONFIG
from ddlbench.errors import ConfigError

if TYPE_CHECKING:
    from ddlbench.plan.config_files import Configuration


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


def add_configuration_options(parser: argparse.ArgumentParser) -> None:
    """Let a command take the options by which Snakemake reads another configuration than the default one.

    Args:
        parser: of the command.
    """
    parser.add_argument(
        "--configfile",
        metavar="FILE",
        type=Path,
        nargs="+",
        action="extend",
        default=[],
        help=f"as Snakemake's: its values replace those of {DEFAULT_CONFIG}",
    )
    parser.add_argument(
        "--config",
        metavar="KEY=VALUE",
        nargs="+",
        action="extend",
        default=[],
        help="as Snakemake's: values that replace those of all files",
    )


def configuration_of(arguments: argparse.Namespace) -> "Configuration":
    """Read the configuration that a command line names.

    Args:
        arguments: of a command with these options.

    Returns:
        The configuration; not checked.

    Raises:
        ConfigError: a file cannot be read, or a value has no key.
    """
    from ddlbench.plan.config_files import configuration

    for file in arguments.configfile[1:]:  # the words after --configfile are all files
        if not file.exists():
            raise ConfigError(
                f"{file}: there is no such file. Names of figures or studies come before --configfile"
            )
    return configuration(arguments.configfile, dict(map(_value, arguments.config)), root=Path.cwd())


def configuration_words(arguments: argparse.Namespace) -> list[str]:
    """Repeat the options that name a configuration, for another command.

    Args:
        arguments: of a command with these options.

    Returns:
        Words of a command line; none for the default configuration.
    """
    files = ["--configfile", *map(str, arguments.configfile)] if arguments.configfile else []
    return [*files, *(["--config", *arguments.config] if arguments.config else [])]


def _value(text: str) -> tuple[str, Any]:
    """Read KEY=VALUE."""
    from ddlbench.configuration.yaml_file import parse_yaml

    key, is_one, value = text.partition("=")
    if not key or not is_one:
        raise ConfigError(f"--config {text}: expected KEY=VALUE; files are named by --configfile")
    return key, parse_yaml(value, f"--config {key}")


def settings_of(config: "Configuration") -> dict[str, Any]:
    """Take the settings of a configuration.

    Args:
        config: as it was read.

    Returns:
        Its settings; not checked.

    Raises:
        ConfigError: a file holds something else.
    """
    if not isinstance(config.settings, dict):
        raise ConfigError(f"{config.files[-1]}: expected keys and values")
    return config.settings


def results_of(settings: dict[str, Any]) -> Path:
    """Name the folder of a configuration's own results.

    Args:
        settings: as of `settings_of`.

    Returns:
        The folder, which need not exist.
    """
    return Path(str(settings.get("results", "results"))) / str(settings.get("name", ""))
