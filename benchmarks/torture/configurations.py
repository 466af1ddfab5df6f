"""Mutated configurations, links, sites, studies and command lines: are they refused, in words, and soon?

What nobody can have meant must be refused. What may be right (a number times ten, a line deleted) may be accepted, and
must not end in a trace. Each is read by a command of its own: `ddlbench check`, or every fifth time a dry run.
"""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from time import monotonic

import yaml

from benchmarks.torture.tally import Tally
from benchmarks.torture.wrong_commands import change_command
from benchmarks.torture.wrong_configurations import Try, change_text, change_values
from ddlbench.system.processes import die_with_parent
from tests.support.repository import copy_of_the_repository, environment
from tests.support.vanishing import vanishing_folder

FILES = ("config/config.yaml", "config/links.yaml", "config/sites.yaml")
STUDIES = ("zhao2016", "pani2020", "anwar2021", "shi2019", "wang2019", "yuan2022", "cluster2026")
OF_COMMANDS, OF_TEXTS = 0.25, 0.25  # shares; the rest are values
OWN_S, PATIENCE_S = 5.0, 60.0  # of a processor, and until it counts as hanging: other work takes its time too
TRACE = "Traceback (most recent call last)"
TRACES, WRONG, HANGS = "traces", "accepted and wrong", "hangs over 5 s"


def mutations(seed: int, tries: int, keep: Callable[[Tally], None]) -> Tally:
    """The part of the torture that is about what people write."""
    random = Random(f"{seed} configurations")
    tally = Tally(
        f"mutated configurations, links, sites, studies, command lines: {TRACES}; {WRONG}; {HANGS}",
        f"{tries}: 0; 0; 0",
        seed,
        dict.fromkeys((TRACES, WRONG, HANGS), 0),
    )
    wrong = 0
    with vanishing_folder("ddlbench-torture-") as folder:
        root = copy_of_the_repository(folder / "ddlbench")
        prepare(root)
        shutil.copytree(root / "config", root / "sound")
        for number in range(tries):
            tried = one(root, random)
            wrong += tried.is_wrong
            words = tried.argv or (CHECK if number % 5 else DRY_RUN)
            found, said = judged(tried, words, root)
            bad = "; ".join(f"{name.upper()}: {said[-400:]}" for name, count in found.items() if count)
            tally.add(f"{tried.words}{f' ({bad})' if bad else ''}", found)
            tally.notes = [f"{wrong} of {tally.tried} could not be meant, and must be refused"]
            if number % 10 == 9:
                keep(tally)
            restore(root)
    return tally


CHECK = ("ddlbench", "check")
DRY_RUN = ("snakemake", "--dry-run", "--quiet", "all")


def prepare(root: Path) -> None:
    """Have the default configuration read every file that is mutated, and make files that are none."""
    path = root / "config/config.yaml"
    content = yaml.safe_load(path.read_text())
    content["studies"] = list(STUDIES)
    path.write_text(yaml.safe_dump(content, sort_keys=False))
    (root / "torture").mkdir()
    os.mkfifo(root / "torture/pipe")
    (root / "torture/junk").write_bytes(bytes(range(256)) * 100)
    (root / "torture/loop").symlink_to("loop")
    for command in (CHECK, DRY_RUN):
        status, said, _ = run(command, root)
        assert status == 0, said


def one(root: Path, random: Random) -> Try:
    """Draw one mutation and make it."""
    share = random.random()
    if share < OF_COMMANDS:
        return change_command(root, random)
    file = random.choice([*FILES, *(f"config/studies/{study}.yaml" for study in STUDIES)])
    return (change_text if share < OF_COMMANDS + OF_TEXTS else change_values)(root, file, random)


def judged(tried: Try, command: tuple[str, ...], root: Path) -> tuple[dict[str, int], str]:
    """What is wrong with the answer of a command, and what it has said."""
    status, said, own_s = run(command, root)
    hangs = status is None or own_s > OWN_S
    is_silent = status not in (0, None) and not said.strip()
    found = {TRACES: TRACE in said or is_silent, WRONG: tried.is_wrong and status == 0, HANGS: hangs}
    return {name: int(value) for name, value in found.items()}, said or f"status {status}, {own_s:.1f} s"


def run(command: tuple[str, ...], root: Path) -> tuple[int | None, str, float]:
    """Its status (None: it had to be killed), what it said, and the seconds of a processor that it took."""
    module = "ddlbench.cli" if command[0] == "ddlbench" else command[0]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    process = subprocess.Popen(
        [sys.executable, "-m", module, *command[1:]],
        cwd=root,
        env=environment(root),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        preexec_fn=die_with_parent,
    )
    until = monotonic() + PATIENCE_S
    try:
        said, _ = process.communicate(timeout=until - monotonic())
        status: int | None = process.returncode
    except subprocess.TimeoutExpired:
        process.kill()
        said, _ = process.communicate()
        status = None
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return status, said, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def restore(root: Path) -> None:
    shutil.rmtree(root / "config")
    shutil.copytree(root / "sound", root / "config")
    shutil.rmtree(root / ".snakemake", ignore_errors=True)
