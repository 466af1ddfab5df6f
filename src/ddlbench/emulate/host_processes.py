"""The processes of an emulated host: all that are in its network namespace, whoever their parent is."""

import os
from contextlib import suppress
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class HostProcesses:
    """The processes of one host.

    Args:
        namespace: the host's network namespace, a file descriptor.
    """

    def __init__(self, namespace: int) -> None:
        self._inode = os.fstat(namespace).st_ino

    def find(self) -> list[int]:
        """List the ids of the processes that run now."""
        found = []
        for name in os.listdir("/proc"):
            with suppress(OSError):  # it has ended
                if name.isdigit() and os.stat(f"/proc/{name}/ns/net").st_ino == self._inode:
                    found.append(int(name))
        return found

    def signal(self, number: int) -> list[int]:
        """Send a signal to each process.

        Args:
            number: of the signal.

        Returns:
            The ids of those that it was sent to.
        """
        found = self.find()
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, number)
        return found


def name_of(process: int) -> str | None:
    """Read the name of a process.

    Args:
        process: its id.

    Returns:
        Its name; None if it has ended.
    """
    try:
        return Path(f"/proc/{process}/comm").read_text().strip()
    except OSError:
        return None


def cpu_s(process: int) -> float:
    """Read how much CPU time a process and those that it has waited for have had.

    Args:
        process: its id.

    Returns:
        In s; 0 if it has ended.
    """
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS_PER_S
