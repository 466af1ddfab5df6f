"""This repository, copies of it, and Snakemake in one of them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).parents[2]
COPIED = ("Snakefile", "config", "containers", "profiles", "src", "workflow")


def copy_of_the_repository(root: Path) -> Path:
    """Copy to `root` what a pipeline needs of the repository, and nothing that was made there."""
    root.mkdir()
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, root / name)
    return root


def snakemake(folder: Path, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Snakemake in `folder`, with that folder's own package."""
    return subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments],
        **{
            "cwd": folder,
            "env": environment(folder),
            "capture_output": True,
            "text": True,
            "timeout": 800,
            **options,
        },
    )


def dry_run(folder: Path, *arguments: str) -> dict[str, int]:
    """How many jobs of each rule Snakemake would run in `folder`."""
    answer = snakemake(folder, *arguments, "--dry-run", "--cores", "2", "--quiet", "rules")
    assert answer.returncode == 0, answer.stderr
    lines = (answer.stdout + answer.stderr).splitlines()
    if any(line.startswith("Nothing to be done") for line in lines):
        return {}
    table = lines[lines.index("Job stats:") + 3 :]
    counts = dict(line.split() for line in table[: table.index("")])
    return {rule: int(count) for rule, count in counts.items() if rule != "total"}


def environment(folder: Path) -> dict[str, str]:
    """Environment variables for a process that works in `folder` with the package there."""
    return {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
