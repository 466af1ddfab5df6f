"""What killed calls of Snakemake leave behind, and its removal.

Processes, mounts and namespaces need none: they die with whoever started them. Left are the lock files of a Snakemake
that was started without `nolock`, and containers of a container engine's daemon that was killed too.
"""

from pathlib import Path

import psutil

from ddlbench.containers.engines import remove_abandoned_containers
from ddlbench.sweep import file_locks

LOCKS = Path(".snakemake/locks")


def clean_up(root: Path = Path()) -> list[str]:
    """Remove what killed calls of Snakemake in `root` have left behind, and nothing that belongs to a living one.

    Returns:
        What was removed, in words.
    """
    removed = [f"container {name}" for name in remove_abandoned_containers()]
    locks = sorted((root / LOCKS).glob("*.lock"))
    if locks and not is_in_use(root):
        for lock in locks:
            lock.unlink(missing_ok=True)
        removed.append(f"{len(locks)} locks of a Snakemake that was killed")
    return removed


def is_in_use(root: Path = Path()) -> bool:
    """Whether a Snakemake works in `root`: on this machine, or on another node, which its locks show."""
    if file_locks.holder(root / file_locks.FILE) is not None:
        return True
    return any(_is_snakemake(process, root.resolve()) for process in psutil.process_iter(["cwd", "cmdline"]))


def _is_snakemake(process: psutil.Process, folder: Path) -> bool:
    program = (process.info["cmdline"] or [])[:3]
    return process.info["cwd"] == str(folder) and any("snakemake" in Path(word).name for word in program)
