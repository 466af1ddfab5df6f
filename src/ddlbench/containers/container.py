"""What a container of workers gets of the machine, whichever runtime makes it: as little as its work needs."""

from collections.abc import Mapping
from dataclasses import dataclass

from ddlbench.system.package import package_root


@dataclass(frozen=True)
class Needs:
    """Folders by their own paths, environment variables, and whether the GPUs.

    readable, writable: absolute paths; our package is always readable.
    """

    readable: tuple[str, ...]
    writable: tuple[str, ...]
    variables: Mapping[str, str]
    gpus: bool = False

    @property
    def folders(self) -> dict[str, str]:
        """Each folder, and `ro` or `rw`."""
        readable = dict.fromkeys((package_root(), *self.readable), "ro")
        return readable | dict.fromkeys(self.writable, "rw")


def variables_inside(variables: Mapping[str, str]) -> dict[str, str]:
    """The variables of workers without those that name what the machine has and a container has not."""
    of_the_machine = ("PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH")
    return {name: value for name, value in variables.items() if name not in of_the_machine}
