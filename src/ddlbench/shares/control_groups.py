"""CPU control groups for emulated hosts, where the kernel does not divide a core between sessions.

Below the control group that we are in, each host has one of its own, and all weigh the same. As a user that needs a
part of the second version's tree that is ours (`systemd-run --user --scope -p Delegate=yes -p CPUWeight=100`), as root
nothing. There the groups are threaded, so that processes of ours may stay beside them.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from types import TracebackType
from typing import Self

_PREFIX = "ddlbench-"
_END_S, _POLL_S = 2.0, 0.01


class ControlGroups:
    """Makes a control group for each host that is asked for, and removes all in the end.

    Args:
        parent: the folder of the control group that we are in, as of `own_group`.
        owner: the id of the process that owns them, outside of its sandbox.
    """

    def __init__(self, parent: Path, owner: int) -> None:
        self._parent = parent
        self._owner = owner
        self._made: dict[str, Path] = {}

    def of(self, host: str) -> Path:
        """Find the group of a host; the first time it is made.

        Args:
            host: its name.

        Returns:
            The group's folder; a process that writes 0 into its `cgroup.procs` joins it.

        Raises:
            OSError: this user may not make it, or the kernel does not divide time between groups here.
        """
        if host not in self._made:
            group = self._parent / f"{_PREFIX}{self._owner}-{host}"
            group.mkdir(exist_ok=True)  # another runtime's hosts of this owner have the same names
            self._made[host] = group
            if (kind := group / "cgroup.type").exists():  # the second version
                kind.write_text("threaded")
                (self._parent / "cgroup.subtree_control").write_text("+cpu")
        return self._made[host]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        deadline = monotonic() + _END_S
        for group in self._made.values():
            while not _removed(group) and monotonic() < deadline:
                sleep(_POLL_S)  # its processes are ending
        self._made.clear()


def own_group(membership: str, mounts: str) -> Path | None:
    """Find the folder of the control group that divides this process's time of the cores.

    Args:
        membership: the content of /proc/self/cgroup.
        mounts: the content of /proc/self/mountinfo.

    Returns:
        Of the first version's hierarchy that has the controller `cpu`; else of the second version's. None: neither is
        mounted.
    """
    paths = {}
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        paths.update(dict.fromkeys(controllers.split(","), path))
    for kind, controller in (("cgroup", "cpu"), ("cgroup2", "")):
        for root, at in _mounted(mounts, kind, controller):
            if controller in paths:
                inside = os.path.relpath(paths[controller], root)
                return Path(at) if inside.startswith("..") else Path(at, inside)
    return None


def own_group_here() -> Path | None:
    """Find the folder of the control group that this process is in, as of `own_group`."""
    with suppress(OSError):
        return own_group(Path("/proc/self/cgroup").read_text(), Path("/proc/self/mountinfo").read_text())
    return None


def remove_abandoned(parent: Path, processes: Path) -> None:
    """Remove the groups of owners that have ended without removing them, as after SIGKILL.

    Args:
        parent: the folder in which they are.
        processes: a folder like /proc, with the ids that the groups' names hold.
    """
    for group in parent.glob(f"{_PREFIX}*-*"):
        owner = group.name.removeprefix(_PREFIX).partition("-")[0]
        if not (processes / owner).exists():
            _removed(group)


def _removed(group: Path) -> bool:
    with suppress(OSError):  # a process is in it
        group.rmdir()
    return not group.exists()


def _mounted(mounts: str, kind: str, controller: str) -> Iterator[tuple[str, str]]:
    """Where a hierarchy is mounted: the group that is its root there, and the folder."""
    for line in mounts.splitlines():
        place, _, about = line.partition(" - ")
        name, _, options = about.split(" ", 2)
        if name == kind and (not controller or controller in options.split(",")):
            root, at = place.split(" ")[3:5]
            yield root, at
