"""Damages files below results/ at random, one at a time: is it noticed, used by the next run, mended by --repair?

python -m benchmarks.torture.store [--mutations 500] [--seed 1] [--noticed-only]

A tiny study is measured once. Each mutation is made in a copy of its results; another copy of that is for the next run.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from benchmarks.common import say
from benchmarks.torture.mutations import Mutation, is_plain, mutate
from ddlbench.files import sha256_file
from ddlbench.measurements.whole_results import check_all, files_below
from tests.support.pipeline import Pipeline, new_pipeline

FIGURES = ("tiny2000_fig1", "tiny2000_fig2")
TIMEOUT_S = 300


@dataclass(frozen=True)
class Outcome:
    """What became of one mutation; None: it was not tried."""

    mutation: Mutation
    is_noticed: bool
    is_used: bool | None = None
    is_mended: bool | None = None


def torture_one(pipeline: Pipeline, folder: Path, random: Random, figures: Sequence[str] = ()) -> Outcome:
    """Damage a copy of a pipeline, and see what becomes of it.

    Args:
        pipeline: one whose results are sound.
        folder: an empty folder for the copies.
        random: draws the file and the way.
        figures: what the next run draws, which takes seconds; empty: only `verify` is asked.
    """
    damaged = pipeline.copy(folder / "damaged")
    results = damaged.root / "results"
    mutation = mutate(damaged.root, files_of_results(damaged.root), random)
    is_noticed = bool(check_all(results).damage)
    if not figures:
        return Outcome(mutation, is_noticed)
    again = Pipeline(folder / "again")
    shutil.copytree(damaged.root, again.root, symlinks=True, copy_function=_copied, ignore=_left_out)
    for fifo in (path for path in results.rglob("*") if path.is_fifo()):
        os.mkfifo(again.root / fifo.relative_to(damaged.root))
    command = [*again.command(), "--cores", "all", *figures]
    is_used = not _ended_well(command, again.root) or _uses(again, mutation)
    repair = [sys.executable, "-m", "ddlbench.cli", "verify", "--repair"]
    is_mended = _ended_well(repair, damaged.root) and not check_all(results).damage
    return Outcome(mutation, is_noticed, is_used, is_mended)


def files_of_results(root: Path) -> list[Path]:
    """Every file below the results, except the telemetry between two repetitions, which no result is made from."""
    hashed = check_all(root / "results").comparison.hashes
    files = sorted(files_below(root / "results"))
    return [file for file in files if file.suffix != ".parquet" or str(file.relative_to(root)) in hashed]


def _copied(source: str, target: str) -> None:
    shutil.copy2(source, target, follow_symlinks=False)


def _left_out(folder: str, names: list[str]) -> set[str]:
    return {name for name in names if not (Path(folder) / name).is_dir() and (Path(folder) / name).is_fifo()}


def _ended_well(command: list[str], folder: Path) -> bool:
    environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        answer = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except subprocess.TimeoutExpired:
        return False
    if answer.returncode:
        say(answer.stdout[-1500:] + answer.stderr[-1500:])
    return answer.returncode == 0


def _uses(pipeline: Pipeline, mutation: Mutation) -> bool:
    """Whether results are still made from what was damaged: it is where results are, or they do not match each other.

    Telemetry that was deleted is in no use, and cannot be made again without measuring again.
    """
    results = pipeline.root / "results"
    file = pipeline.root / mutation.file
    is_still_there = is_plain(file) and file.read_bytes() == mutation.wrong
    is_lost = mutation.kind == "delete" and mutation.file.startswith("results/telemetry/")
    return is_still_there or (bool(check_all(results).damage) and not is_lost)


def drawn(root: Path) -> Pipeline:
    """A pipeline with a tiny study whose figures are drawn."""
    pipeline = new_pipeline(root)
    pipeline.run("--cores", "all", *FIGURES)
    assert not check_all(root / "results").damage
    return pipeline


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture.store")
    parser.add_argument("--mutations", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--noticed-only", action="store_true", help="ask `verify` alone, and start no Snakemake"
    )
    given = parser.parse_args(arguments)
    random = Random(given.seed)
    outcomes = []
    with TemporaryDirectory(prefix="ddlbench-torture-") as folder:
        pipeline = drawn(Path(folder) / "drawn")
        before = {file: sha256_file(file) for file in files_below(pipeline.root / "results")}
        for number in range(1, given.mutations + 1):
            place = Path(folder) / str(number)
            place.mkdir()
            outcome = torture_one(pipeline, place, random, () if given.noticed_only else FIGURES)
            outcomes.append(outcome)
            say(f"{number} of {given.mutations}: {outcome.mutation}: {words(outcome)}")
            shutil.rmtree(place)
        assert before == {file: sha256_file(file) for file in files_below(pipeline.root / "results")}
    print(table(outcomes, given.seed))
    return int(any(not good(outcome) for outcome in outcomes))


def good(outcome: Outcome) -> bool:
    return outcome.is_noticed and not outcome.is_used and outcome.is_mended is not False


def words(outcome: Outcome) -> str:
    found = [
        "noticed" if outcome.is_noticed else "NOT NOTICED",
        {None: "", True: "USED", False: "not used"}[outcome.is_used],
        {None: "", True: "mended", False: "NOT MENDED"}[outcome.is_mended],
    ]
    return ", ".join(each for each in found if each)


def table(outcomes: list[Outcome], seed: int) -> str:
    """The outcomes as a Markdown table, a row for each kind of damage."""
    kinds = Counter(outcome.mutation.kind for outcome in outcomes)
    lines = [
        f"| damage below results/ (seed {seed}) | times | unnoticed by verify | used by the next run | not mended |",
        "|---|---|---|---|---|",
    ]
    for kind in [*sorted(kinds), "all"]:
        those = [outcome for outcome in outcomes if kind in (outcome.mutation.kind, "all")]
        tried = any(outcome.is_used is not None for outcome in those)
        used, left = sum(bool(each.is_used) for each in those), sum(each.is_mended is False for each in those)
        unnoticed = sum(not each.is_noticed for each in those)
        cells = [kind, len(those), unnoticed, used if tried else "not tried", left if tried else "not tried"]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
