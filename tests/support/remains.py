"""What a pipeline has running: its processes, by the folder that they work in, and the namespaces that they hold."""

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

KINDS = ("net", "mnt", "pid", "user")
PATIENCE_S = 800.0


def processes(folder: Path) -> dict[int, str]:
    """The processes, with their command lines, whose working directory is `folder`; this one is not among them."""
    return {
        process: command
        for process in _all_processes()
        if process != os.getpid() and _link(process, "cwd") == str(folder)
        if (command := _command(process))
    }


def the(folder: Path, words: str) -> int:
    """The first process in `folder` whose command line has these words."""
    return min(process for process, command in processes(folder).items() if words in command)


def namespaces(folder: Path) -> set[str]:
    """The namespaces in which the processes of `folder` are, or which they hold open, and which are not our own."""
    own = set(_namespaces(os.getpid()))
    return {name for process in processes(folder) for name in _namespaces(process)} - own


@contextmanager
def pinned(folder: Path) -> Iterator[set[str]]:
    """As `namespaces`; until the block ends this process holds them, so that no new ones get their numbers."""
    own = set(_namespaces(os.getpid()))
    held: dict[str, int] = {}
    try:
        for process in processes(folder):
            for path in _files_of_namespaces(process):
                name = _target(path)
                if name.partition(":")[0] in KINDS and name not in own and name not in held:
                    with suppress(OSError):
                        held[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        yield set(held)
    finally:
        for descriptor in held.values():
            os.close(descriptor)


def _files_of_namespaces(process: int) -> list[str]:
    """What may be opened to hold a namespace that a process is in, or has open."""
    try:
        descriptors = os.listdir(f"/proc/{process}/fd")
    except OSError:
        descriptors = []
    return [f"/proc/{process}/ns/{kind}" for kind in KINDS] + [
        f"/proc/{process}/fd/{each}" for each in descriptors
    ]


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def alive(names: set[str]) -> set[str]:
    """Those of the namespaces that any process on this machine but this one is in, holds open, or has mounted."""
    others = (process for process in _all_processes() if process != os.getpid())
    return names & {name for process in others for name in _namespaces(process)}


def eventually(true: Callable[[], object]) -> bool:
    """Whether something comes true; that takes as long as it takes, within reason."""
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def _all_processes() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _namespaces(process: int) -> Iterator[str]:
    for kind in KINDS:
        yield _link(process, f"ns/{kind}")
    try:
        descriptors = os.listdir(f"/proc/{process}/fd")
        mounts = Path(f"/proc/{process}/mountinfo").read_text()
    except OSError:
        return
    for descriptor in descriptors:
        target = _link(process, f"fd/{descriptor}")
        if target.partition(":")[0] in KINDS:
            yield target
    yield from (line.split()[3] for line in mounts.splitlines() if " - nsfs " in line)


def _link(process: int, name: str) -> str:
    try:
        return os.readlink(f"/proc/{process}/{name}")
    except OSError:
        return ""


def _command(process: int) -> str:
    """Its name, which workers choose, and its command line."""
    try:
        name, arguments = (Path(f"/proc/{process}/{part}").read_bytes() for part in ("comm", "cmdline"))
    except OSError:
        return ""
    return (
        f"{name.decode().strip()} {arguments.replace(bytes(1), b' ').decode().strip()}" if arguments else ""
    )
