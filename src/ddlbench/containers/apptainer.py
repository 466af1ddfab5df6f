"""The command line of workers in an Apptainer container on an emulated host (Singularity is Apptainer's old name).

A container of Apptainer shares the namespaces of the process that starts it. So it is started in the host's network
namespace, and its processes end with the sandbox. It needs no root, and its processes have no privileges, even if root
starts it.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ddlbench.containers.container import Needs

OF_THE_PROGRAM = ("PATH", "HOME", "TMPDIR", "XDG_RUNTIME_DIR")


def apptainer_argv(
    program: str, image: str, command: Sequence[str], needs: Needs, *, namespace: str | None
) -> list[str]:
    """Make the argv of a container that runs a command.

    Args:
        program: the path of `apptainer` or `singularity`.
        image: a SIF, or the folder of its unpacked files.
        command: the argv inside.
        needs: what the container gets of the machine.
        namespace: the path of the host's network namespace; None: ours.

    Returns:
        The words to execute; they begin with `nsenter` if a namespace is given.
    """
    return [
        *(("nsenter", f"--net={namespace}", "--") if namespace else ()),
        *(program, "--silent", "exec", "--cleanenv", "--contain", "--no-home", "--no-privs"),
        *(("--nv",) if needs.gpus else ()),
        *(word for path, mode in needs.folders.items() for word in ("--bind", f"{path}:{path}:{mode}")),
        *("--pwd", "/tmp", image),  # in the container, which has one of its own  # nosec B108
        *command,
    ]


def program_environment(
    program: str, inherited: Mapping[str, str], variables: Mapping[str, str]
) -> dict[str, str]:
    """Make the environment variables of the program.

    Args:
        program: the path of `apptainer` or `singularity`.
        inherited: our own variables, of which a few are kept.
        variables: those for inside the container; the program takes them under names with a prefix.

    Returns:
        The kept variables, and those for inside under names like `APPTAINERENV_NAME`.
    """
    prefix = f"{Path(program).name.upper()}ENV_"
    kept = {name: value for name, value in inherited.items() if name in OF_THE_PROGRAM}
    return kept | {prefix + name: value for name, value in variables.items()}
