"""`ddlbench sign`: sign all results, or an archive of them, with an SSH key, for those who will verify them."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ddlbench.cli.arguments import counted, existing_file
from ddlbench.errors import DdlbenchError

if TYPE_CHECKING:
    from ddlbench.measurements.mismatches import Mismatch


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's sub-commands.

    Args:
        commands: the sub-commands of `ddlbench`, to which `sign` is added.
    """
    parser = commands.add_parser(
        "sign", help="sign all results with an SSH key; `ddlbench verify --signers FILE` checks it"
    )
    parser.add_argument(
        "archive",
        metavar="ARCHIVE",
        type=existing_file,
        nargs="?",
        help="of `make report`, which gets a signature beside it; default: everything below results/",
    )
    parser.add_argument(
        "--key",
        metavar="FILE",
        type=existing_file,
        required=True,
        help="an SSH key, as ~/.ssh/id_ed25519; a public one if an agent has it",
    )
    parser.set_defaults(command=_sign)


def _sign(arguments: argparse.Namespace) -> int:
    """Return 0; what is damaged is not signed."""
    if arguments.archive:
        return _sign_archive(arguments.archive, arguments.key)
    from ddlbench.measurements.provenance import repository_root
    from ddlbench.measurements.signature import sign
    from ddlbench.measurements.whole_results import check_all

    root = repository_root("results")
    results = root / "results"
    _refuse_damage([each for each in check_all(results).damage if (root / each.path).is_relative_to(results)])
    print(f"signed: {counted(sign(results, arguments.key), 'file')} below {results}")
    return 0


def _sign_archive(archive: Path, key: Path) -> int:
    from ddlbench.measurements.signature import sign_file
    from ddlbench.report.archive import check_archive

    _refuse_damage(check_archive(archive).damage)
    print(f"signed: {sign_file(archive, key)}")
    return 0


def _refuse_damage(damage: "Sequence[Mismatch]") -> None:
    if damage:
        raise DdlbenchError(
            f"{damage[0].path}: {damage[0].why}; {counted(len(damage), 'file')} in all, so nothing is signed.\n"
            "  To mend results:  ddlbench verify --repair"
        )
