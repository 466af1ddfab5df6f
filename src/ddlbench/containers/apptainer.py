"""The command of workers in an Apptainer container (or Singularity, its former name) on an emulated host.

Apptainer shares the namespaces of who calls it; so it is called in the host's network namespace, and what it starts
dies with the sandbox. It needs no root; the container's processes have no privilege, root's neither.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ddlbench.containers.container import Needs

_OF_THE_PROGRAM = ("PATH", "HOME", "TMPDIR", "XDG_RUNTIME_DIR")


def apptainer_argv(
    program: str, image: str, command: Sequence[str], needs: Needs, *, namespace: str | None
) -> list[str]:
    """The argv of a container that runs `command`.

    image: a SIF, or the folder of its files. namespace: the path of the host's network namespace, None: ours.
    """
    return [
        *(("nsenter", f"--net={namespace}", "--") if namespace else ()),
        *(program, "--silent", "exec", "--cleanenv", "--contain", "--no-home", "--no-privs"),
        *(("--nv",) if needs.gpus else ()),
        *(word for path, mode in needs.folders.items() for word in ("--bind", f"{path}:{path}:{mode}")),
        *("--pwd", "/tmp", image),
        *command,
    ]


def program_environment(
    program: str, inherited: Mapping[str, str], variables: Mapping[str, str]
) -> dict[str, str]:
    """The environment variables of the program, among them those for inside the container."""
    prefix = f"{Path(program).name.upper()}ENV_"
    kept = {name: value for name, value in inherited.items() if name in _OF_THE_PROGRAM}
    return kept | {prefix + name: value for name, value in variables.items()}
