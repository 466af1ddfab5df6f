"""`ddlbench profile`: what a step of training takes on this machine, for config/devices.yaml."""

import argparse
import sys
from pathlib import Path

from ddlbench.cli.arguments import add_other_measurements, number, whole_number
from ddlbench.errors import ConfigError
from ddlbench.plan.catalogue import MODELS, PROFILED_IN


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to a parser's sub-commands.

    Args:
        commands: the sub-commands of `ddlbench`, to which `profile` is added.
    """
    parser = commands.add_parser(
        "profile",
        help="measure a step of training here, as a profile that other machines can replay (config/devices.yaml)",
    )
    parser.add_argument("model", choices=MODELS, metavar="MODEL", help="one of %(choices)s")
    parser.add_argument(
        "--batch",
        required=True,
        nargs="+",
        type=whole_number(1, 1_000_000, "a batch size"),
        metavar="IMAGES",
        help="one profile for each",
    )
    parser.add_argument(
        "--image-shape", metavar="SHAPE", help="height x width x channels; default: the model's largest"
    )
    parser.add_argument(
        "--framework",
        choices=PROFILED_IN,
        default=PROFILED_IN[0],
        help="that computes; a GPU is profiled with torch alone; default: %(default)s",
    )
    parser.add_argument("--devices", choices=("cpu", "gpu"), default="cpu", help="default: %(default)s")
    parser.add_argument(
        "--threads",
        type=whole_number(1, 1024, "a number of threads"),
        default=1,
        metavar="N",
        help="on a CPU; more than it has cores are extrapolated; default: 1",
    )
    parser.add_argument(
        "--steps",
        type=whole_number(1, 10_000, "a number of steps"),
        default=10,
        metavar="N",
        help="default: 10",
    )
    parser.add_argument(
        "--timeout-s",
        type=number(1, 86_400, "a time-out"),
        default=3600.0,
        metavar="S",
        help="for each batch; default: an hour",
    )
    parser.add_argument(
        "--environment",
        type=Path,
        metavar="FILE",
        help="the environment.json of an environment with the framework; default: that of this checkout",
    )
    add_other_measurements(parser)
    parser.set_defaults(command=_profile)


def _profile(arguments: argparse.Namespace) -> int:
    import yaml

    from ddlbench.probes.step_profile import Asked, environment_of, profiled
    from ddlbench.runs.machine_lock import alone_on_this_machine

    shapes = MODELS[arguments.model]
    shape = arguments.image_shape or shapes[-1]
    if shape not in shapes:
        raise ConfigError(
            f"{arguments.model} does not take images of {shape} (expected {' or '.join(shapes)})"
        )
    if arguments.devices == "gpu" and arguments.framework != "torch":
        raise ConfigError(f"--devices gpu needs --framework torch, not {arguments.framework}")
    asked = Asked(
        model=arguments.model,
        image_shape=shape,
        batches=arguments.batch,
        devices=arguments.devices,
        threads=arguments.threads,
        steps=arguments.steps,
        framework=arguments.framework,
    )
    with alone_on_this_machine(arguments.other_measurements):
        found = profiled(
            asked, arguments.environment or environment_of(asked.framework), timeout_s=arguments.timeout_s
        )
    print(
        "# Add this to config/devices.yaml, under a name of your choice; a study's hosts name it as their `device`."
    )
    yaml.safe_dump(found, sys.stdout, sort_keys=False, width=120, default_flow_style=None)
    return 0
