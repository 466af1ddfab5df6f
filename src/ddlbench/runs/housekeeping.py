"""What killed calls of Snakemake leave behind, and its removal.

Processes, mounts and namespaces need no removal: they end with the process that started them. So do our own locks. What
remains are containers of a container engine's daemon, the scripts that Snakemake has written for its jobs, and its lock
files, if it was started without our Snakefile's settings. None of our calls uses those.
"""

from pathlib import Path

import psutil

from ddlbench.containers.engines import remove_abandoned_containers
from ddlbench.runs import file_locks

LOCKS = Path(".snakemake/locks")
SCRIPTS = Path(".snakemake/scripts")


def clean_up(root: Path = Path()) -> list[str]:
    """Remove what killed calls of Snakemake have left behind; running calls lose nothing.

    Args:
        root: the repository, which Snakemake was started in.

    Returns:
        What was removed, in words: one entry for each container, one for all lock files, one for all scripts.
    """
    removed = [f"container {name}" for name in remove_abandoned_containers()]
    scripts = [] if is_in_use(root) else sorted((root / SCRIPTS).glob("tmp*"))
    for what, files in (("locks", sorted((root / LOCKS).glob("*.lock"))), ("scripts", scripts)):
        for file in files:
            file.unlink(missing_ok=True)
        removed += [f"{len(files)} {what} of a Snakemake that was killed"] if files else []
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
