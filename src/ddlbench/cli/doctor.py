"""`ddlbench doctor`: what this machine has, and which figures can therefore be made, in one screen."""

import argparse
import json
from dataclasses import asdict
from functools import reduce
from pathlib import Path
from typing import Any

_CONFIG = Path("config/config.yaml")
_PATIENCE_S = 10.0  # all answer within two seconds, unless the machine is busy
_OF_A_PROGRAM = 0.9  # of that a program gets so much, and is ended before we are


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's sub-commands."""
    parser = commands.add_parser(
        "doctor", help="tell what this machine has, which figures can be made with it, and why not the others"
    )
    parser.add_argument(
        "figures",
        metavar="FIGURE",
        nargs="*",
        help="the exit status is 1 if one of them cannot be made whole; default: all are shown, the default ones count",
    )
    parser.add_argument(
        "--configfile",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="as Snakemake's: what it says counts, and else what config/config.yaml says",
    )
    parser.add_argument(
        "--patience",
        metavar="SECONDS",
        type=float,
        default=_PATIENCE_S,
        help="for an answer; default: %(default)s",
    )
    parser.add_argument("--json", action="store_true", help="the same as JSON")
    parser.set_defaults(command=_doctor)


def _doctor(arguments: argparse.Namespace) -> int:
    """Returns 0 where every figure asked for, or by default, can be made whole, else 1."""
    from ddlbench.doctor.judgement import verdict
    from ddlbench.doctor.questions import questions
    from ddlbench.doctor.rounds import findings
    from ddlbench.doctor.screen import screen
    from ddlbench.plan import load
    from ddlbench.plan.yaml_file import read_yaml

    root, patience_s = Path.cwd(), arguments.patience
    files = [_CONFIG, *arguments.configfile]
    config = reduce(_merged, (read_yaml(file, root) for file in files))
    # As if jobs went to SLURM, and there were a GPU: whether these are here is among the findings.
    plan = load(config, root, source=" with ".join(map(str, files)), scheduler="slurm", gpus=1)
    found = findings(
        questions(plan.settings, root, patience_s=_OF_A_PROGRAM * patience_s), patience_s=patience_s
    )
    verdicts = [verdict(plan, name, found) for name in arguments.figures or plan.figures]
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


def _merged(below: Any, above: Any) -> Any:
    """What Snakemake makes of two configuration files: `above` counts, key by key."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    return below | {key: _merged(below.get(key), value) for key, value in above.items()}
