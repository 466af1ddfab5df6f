"""What a container of workers gets of the machine, in every runtime: as little as its work needs."""

from collections.abc import Mapping
from dataclasses import dataclass

from ddlbench.system.package import package_root


@dataclass(frozen=True)
class Needs:
    """What a container needs of the machine.

    Attributes:
        readable: absolute paths of folders, which have the same paths inside; our package is always readable.
        writable: the same, for folders that it may write to.
        variables: environment variables inside of the container.
        gpus: whether it needs the GPUs.
    """

    readable: tuple[str, ...]
    writable: tuple[str, ...]
    variables: Mapping[str, str]
    gpus: bool = False

    @property
    def folders(self) -> dict[str, str]:
        """{path of a folder: `ro` or `rw`}."""
        readable = dict.fromkeys((package_root(), *self.readable), "ro")
        return readable | dict.fromkeys(self.writable, "rw")


def variables_inside(variables: Mapping[str, str]) -> dict[str, str]:
    """Leave out the environment variables that name folders of the machine.

    Args:
        variables: those of workers outside of a container.

    Returns:
        The others: {name: value}.
    """
    of_the_machine = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
    return {name: value for name, value in variables.items() if name not in of_the_machine}
