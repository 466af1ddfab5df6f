"""The files that `snakemake --configfile` names, checked before Snakemake opens them.

Snakemake opens them before it reads the Snakefile, and takes no care: it ends in a trace where there is no such file,
waits for whoever may write into a pipe, and runs the code in a file that says `__use_yte__: true`. But it reads
`profiles/default/config.yaml` still earlier, which calls `check_files`.
"""

import os
import sys
from argparse import ArgumentError, ArgumentParser
from collections.abc import Sequence
from pathlib import Path

from ddlbench.configuration.yaml_file import read_yaml
from ddlbench.errors import ConfigError

_RUNS_CODE = "__use_yte__"


def check_files() -> None:
    """End this process, with what is wrong, if a file that its command line names is no configuration."""
    try:
        for number, file in enumerate(files_in(sys.argv[1:])):
            if number and not os.path.exists(file):  # the words after --configfile are all files
                raise ConfigError(f"{file}: there is no such file. Targets come before --configfile")
            _check(file)
    except ConfigError as error:
        sys.exit(str(error))


def files_in(words: Sequence[str]) -> list[str]:
    """Find the files of the configuration in a command line of Snakemake.

    Args:
        words: of the command line, without the program.

    Returns:
        Their names, as Snakemake's own parser finds them.
    """
    parser = ArgumentParser(add_help=False, exit_on_error=False)
    parser.add_argument("--configfile", "--configfiles", nargs="+", default=[])
    parser.add_argument("--config", nargs="*")  # else it would be taken for a short form of the other
    try:
        return list(parser.parse_known_args(list(words))[0].configfile)
    except ArgumentError:  # Snakemake says what is wrong
        return []


def _check(file: str) -> None:
    content = read_yaml(Path(file), Path.cwd())
    if isinstance(content, dict) and _RUNS_CODE in content:
        raise ConfigError(f"{file}: {_RUNS_CODE} would have Snakemake run code, and configuration is data")
