"""`ddlbench sign`: sign all results with an SSH key, for those who will verify them."""

import argparse

from ddlbench.cli.arguments import counted, existing_file
from ddlbench.errors import DdlbenchError


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's sub-commands.

    Args:
        commands: the sub-commands of `ddlbench`, to which `sign` is added.
    """
    parser = commands.add_parser(
        "sign", help="sign all results with an SSH key; `ddlbench verify --signers FILE` checks it"
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
    from ddlbench.measurements.provenance import repository_root
    from ddlbench.measurements.signature import sign
    from ddlbench.measurements.whole_results import check_all

    root = repository_root("results")
    results = root / "results"
    if damage := [each for each in check_all(results).damage if (root / each.path).is_relative_to(results)]:
        raise DdlbenchError(
            f"{damage[0].path}: {damage[0].why}; {counted(len(damage), 'file')} in all, so nothing is signed.\n"
            "  To mend them:  ddlbench verify --repair"
        )
    print(f"signed: {counted(sign(results, arguments.key), 'file')} below {results}")
    return 0
