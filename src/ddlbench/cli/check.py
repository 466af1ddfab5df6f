"""`ddlbench check`: check a configuration and count what it plans."""

import argparse
from pathlib import Path

from ddlbench.cli.arguments import DEFAULT_CONFIG, counted
from ddlbench.cli.configuration import add_configuration_options, checkout, configuration_of


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's sub-commands.

    Args:
        commands: the sub-commands of `ddlbench`, to which `check` is added.
    """
    parser = commands.add_parser(
        "check", help="validate a configuration and count what it plans; starts nothing"
    )
    parser.add_argument(
        "files",
        metavar="CONFIG",
        type=Path,
        nargs="*",
        help=f"as those of --configfile; default: {DEFAULT_CONFIG}",
    )
    add_configuration_options(parser)
    parser.set_defaults(command=_check)


def _check(arguments: argparse.Namespace) -> int:
    from ddlbench.launch.gpus import gpus_here
    from ddlbench.memory.misfits import too_large
    from ddlbench.plan import load

    root = checkout()
    arguments.configfile = [*arguments.files, *arguments.configfile]
    config = configuration_of(arguments)
    plan = load(config, root, gpus=len(gpus_here()))
    points = {point for run in plan.runs for point in run.points}
    counts = [
        counted(len(plan.figures), "figure"),
        counted(len(points), "point"),
        counted(len(plan.runs), "run"),
    ]
    print(f"{config.source(root)}: {', '.join(counts)}")
    for name in sorted(plan.figures_without_points):
        print(f"  {plan.no_figure(name)}")
    for reason in sorted({status.reason for point in points if (status := plan.status(point)).reason}):
        print(f"  {reason}")
    for line in too_large(plan):
        print(f"  {line}")
    return 0
