"""`ddlbench claims`: which of the papers' claims hold, by what has been measured here."""

import argparse
import shlex
from pathlib import Path

from ddlbench.cli.configuration import (
    add_configuration_options,
    configuration_of,
    configuration_words,
    results_of,
    settings_of,
)
from ddlbench.errors import ConfigError, nearest

CLAIMS = Path("config/claims")


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's sub-commands.

    Args:
        commands: the sub-commands of `ddlbench`, to which `claims` is added.
    """
    parser = commands.add_parser(
        "claims", help="which of the papers' claims hold, by the tables of figures that were measured here"
    )
    parser.add_argument(
        "studies",
        metavar="STUDY",
        nargs="*",
        help="show each claim of these with its reason; default: count all",
    )
    add_configuration_options(parser)
    parser.set_defaults(command=_claims)


def _claims(arguments: argparse.Namespace) -> int:
    from ddlbench.claims.report import verdicts
    from ddlbench.claims.screen import by_claim, overview

    files = {file.stem: file for file in sorted(CLAIMS.glob("*.yaml"))}
    for study in arguments.studies:
        if study not in files:
            raise ConfigError(f"{CLAIMS}: no claims of {study!r}{nearest(study, files)}")
    tables = sorted((results_of(settings_of(configuration_of(arguments))) / "tables").glob("*.csv"))
    asked = [files[study] for study in arguments.studies or files]
    found = verdicts(asked, tables, shlex.join(configuration_words(arguments)))
    print("\n".join((*overview(found), *(by_claim(found) if arguments.studies else ()))))
    return 0
