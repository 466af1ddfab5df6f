"""Where Snakemake keeps copies of its rules: below the home folder, which cannot be written on every machine.

Snakemake makes that folder before it reads the Snakefile, and ends in a trace where it cannot. But it reads
`profiles/default/config.yaml` still earlier, which calls `have_a_cache`.
"""

import os
from pathlib import Path

_VARIABLE = "XDG_CACHE_HOME"
_HERE = Path(".snakemake/cache")


def have_a_cache() -> None:
    """Let this process and those that it starts keep their caches in this folder if they cannot in the user's."""
    users = os.environ.get(_VARIABLE) or os.path.expanduser("~/.cache")
    if not _can_be_written(Path(users) / "snakemake"):
        os.environ[_VARIABLE] = os.path.abspath(_HERE)


def _can_be_written(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(folder, os.W_OK | os.X_OK)
