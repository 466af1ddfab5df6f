"""This repository, copies of it, and Snakemake in one of them."""

import os
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from tests.support.forked_snakemake import forked

REPOSITORY = Path(__file__).parents[2]
COPIED = ("Snakefile", "config", "containers", "profiles", "src", "workflow")


def copy_of_the_repository(root: Path) -> Path:
    """Copy to `root` what a pipeline needs of the repository, and no result that was made there."""
    root.mkdir()
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, root / name)  # and what is compiled, which no process there does again
        else:
            shutil.copy2(source, root / name)
    return root


def snakemake(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None, timeout: float = 2400
) -> "subprocess.CompletedProcess[str]":
    """Snakemake in `folder`, with that folder's own package, to its end."""
    return forked(folder, list(arguments), env or environment(folder), timeout)


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


def needed_rules(folder: Path, target: str) -> dict[str, dict[str, int]]:
    """How many jobs of each rule every rule below `target` needs, itself too, where there is one job of it."""
    answer = snakemake(folder, target, "--dag", "dot")
    assert answer.returncode == 0, answer.stderr
    rules = dict(re.findall(r'^\s*(\d+)\[label = "(\w+)', answer.stdout, re.MULTILINE))
    needs: dict[str, set[str]] = {job: {job} for job in rules}
    for job, later in re.findall(r"^\s*(\d+) -> (\d+)", answer.stdout, re.MULTILINE):
        needs[later].add(job)
    while grown := {job: all_of for job in needs if (all_of := _all(needs, job)) != needs[job]}:
        needs |= grown
    alone = {rule for rule, count in Counter(rules.values()).items() if count == 1}
    return {
        rules[job]: Counter(rules[each] for each in all_of)
        for job, all_of in needs.items()
        if rules[job] in alone
    }


def _all(needs: dict[str, set[str]], job: str) -> set[str]:
    return set().union(*(needs[each] for each in needs[job]))


def environment(folder: Path) -> dict[str, str]:
    """Environment variables for a process that works in `folder` with the package there."""
    return {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
