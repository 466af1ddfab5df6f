"""`ddlbench doctor`: what this machine has, and which figures can be made with it, in one screen."""

import argparse
import json
from dataclasses import asdict

from ddlbench.cli.arguments import number
from ddlbench.cli.configuration import add_configuration_options, checkout, configuration_of

_PATIENCE_S = 10.0  # everything answers within two seconds, unless the machine is busy
_SHARE_OF_A_PROGRAM = 0.9  # of the patience; a program must end before the command's own time limit


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's sub-commands.

    Args:
        commands: the sub-commands of `ddlbench`, to which `doctor` is added.
    """
    parser = commands.add_parser(
        "doctor", help="show what this machine has, which figures can be made with it, and why not the others"
    )
    parser.add_argument(
        "figures",
        metavar="FIGURE",
        nargs="*",
        help="exit status 1 if one of them would have gaps; default: show all, judge the default ones",
    )
    add_configuration_options(parser)
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=number(0.1, 3600, "a time in seconds"),
        default=_PATIENCE_S,
        help="how long to wait for answers; default: %(default)s",
    )
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    parser.set_defaults(command=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    """Return 0 if all named figures (by default the default ones) can be made without gaps, else 1."""
    from ddlbench.doctor.answers import findings
    from ddlbench.doctor.judgement import verdict
    from ddlbench.doctor.questions import questions
    from ddlbench.doctor.screen import screen
    from ddlbench.memory.misfits import lacking_here
    from ddlbench.plan import load

    root, patience_s = checkout(), arguments.patience
    # The plan assumes SLURM and a GPU: whether they are here is one of the findings.
    plan = load(configuration_of(arguments), root, scheduler="slurm", gpus=1)
    found = findings(
        questions(plan.settings, root, patience_s=_SHARE_OF_A_PROGRAM * patience_s), patience_s=patience_s
    )
    unfit = lacking_here(plan)
    verdicts = [verdict(plan, name, found, unfit) for name in arguments.figures or plan.figures]
    wanted = arguments.figures or plan.default_figures
    if arguments.json:
        content = {
            "findings": [each.as_dict() for each in found],
            "figures": [asdict(each) | {"is_whole": each.is_whole} for each in verdicts],
        }
        print(json.dumps(content, indent=2))
    else:
        print(screen(found, verdicts))
    return 0 if all(each.is_whole for each in verdicts if each.figure in wanted) else 1
