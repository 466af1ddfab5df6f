"""What killed calls of Snakemake leave behind, and its removal.

Processes, mounts and namespaces need no removal: they end with the process that started them. Two things remain: the
lock files of a Snakemake that was started without `nolock`, and containers of a container engine's daemon, if what
started them was killed.
"""

from pathlib import Path

import psutil

from ddlbench.containers.engines import remove_abandoned_containers
from ddlbench.runs import file_locks

LOCKS = Path(".snakemake/locks")


def clean_up(root: Path = Path()) -> list[str]:
    """Remove what killed calls of Snakemake have left behind; running calls lose nothing.

    Args:
        root: the repository, which Snakemake was started in.

    Returns:
        What was removed, in words, one entry for each container and one for all lock files.
    """
    removed = [f"container {name}" for name in remove_abandoned_containers()]
    locks = sorted((root / LOCKS).glob("*.lock"))
    if locks and not is_in_use(root):
        for lock in locks:
            lock.unlink(missing_ok=True)
        removed.append(f"{len(locks)} locks of a Snakemake that was killed")
    return removed


def is_in_use(root: Path = Path()) -> bool:
    """Say whether a Snakemake works in a folder.

    Args:
        root: the repository, which Snakemake was started in.

    Returns:
        True if one works there on this machine, or on another node, which its kernel locks show.
    """
    if file_locks.holder(root / file_locks.FILE) is not None:
        return True
    return any(_is_snakemake(process, root.resolve()) for process in psutil.process_iter(["cwd", "cmdline"]))


def _is_snakemake(process: psutil.Process, folder: Path) -> bool:
    program = (process.info["cmdline"] or [])[:3]
    return process.info["cwd"] == str(folder) and any("snakemake" in Path(word).name for word in program)
