"""Damages files below results/ at random: is it noticed by verify, used by the next run, mended by --repair?

A tiny study is measured once. Each mutation is made in a sound copy of its results, and `verify` is asked. Then twenty
of them together are given to the next run, and to `verify --repair`, in copies of their own; if anything is wrong
there, each of them is tried again by itself.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random

from benchmarks.common import say
from benchmarks.torture.mutations import Mutation, is_plain, mutate
from benchmarks.torture.tally import Tally
from ddlbench.measurements.whole_results import check_all, files_below
from tests.support.pipeline import Pipeline, new_pipeline
from tests.support.vanishing import vanishing_folder

FIGURES = ("tiny2000_fig1", "tiny2000_fig2")
TOGETHER = 20
TIMEOUT_S = 900
UNNOTICED, USED, LEFT = "unnoticed by verify", "used by the next run", "not mended by --repair"
OF_MEASUREMENTS = ("results/store/", "results/telemetry/")


@dataclass(frozen=True)
class Outcome:
    """What became of one mutation; None: it was not tried."""

    mutation: Mutation
    is_noticed: bool
    is_used: bool | None = None
    is_mended: bool | None = None

    @property
    def is_good(self) -> bool:
        return self.is_noticed and not self.is_used and self.is_mended is not False

    def __str__(self) -> str:
        found = [
            "noticed" if self.is_noticed else "NOT NOTICED",
            {None: "", True: "USED", False: "not used"}[self.is_used],
            {None: "", True: "mended", False: "NOT MENDED"}[self.is_mended],
        ]
        return f"{self.mutation}: {', '.join(each for each in found if each)}"


def mutations(seed: int, tries: int, keep: Callable[[Tally], None]) -> Tally:
    """The part of the torture that damages results."""
    tally = Tally(
        f"mutations of every file below results/: {UNNOTICED}; {USED}; {LEFT}",
        f"{tries}: 0; 0; 0",
        seed,
        dict.fromkeys((UNNOTICED, USED, LEFT), 0),
        notes=[
            f"the next run and --repair get {TOGETHER} of them together, each by itself if anything is wrong"
        ],
    )
    random = Random(f"{seed} store")
    with vanishing_folder("ddlbench-torture-") as folder:
        pipeline = drawn(folder / "drawn")
        while tally.tried < tries:
            place = folder / "batch"
            place.mkdir()
            for outcome in together(pipeline, place, random, min(TOGETHER, tries - tally.tried), FIGURES):
                found = (not outcome.is_noticed, bool(outcome.is_used), outcome.is_mended is False)
                tally.add(str(outcome), dict(zip((UNNOTICED, USED, LEFT), map(int, found), strict=True)))
            keep(tally)
            shutil.rmtree(place)
    return tally


def together(
    pipeline: Pipeline, folder: Path, random: Random, count: int, figures: Sequence[str] = ()
) -> list[Outcome]:
    """Damage copies of a pipeline in several ways, and see what becomes of it.

    Args:
        pipeline: one whose results are sound.
        folder: an empty folder for the copies.
        random: draws the files and the ways.
        count: how many mutations. Either all of them are of measurements and their telemetry, or none is: what says how
            a measurement was is sound then.
        figures: what the next run draws, which takes seconds; empty: only `verify` is asked.
    """
    sound = pipeline.copy(folder / "sound")
    results = sound.root / "results"
    files = files_of_results(sound.root)
    of_measurements = _is_of_measurements(random.choice(files), sound.root)
    files = [file for file in files if _is_of_measurements(file, sound.root) == of_measurements]
    outcomes: list[Outcome] = []
    for number in range(count):
        mutation = mutate(sound.root, files, random)
        outcomes.append(Outcome(mutation, bool(check_all(results).damage)))
        for name in mutation.changed:
            _move(sound.root / name, folder / "wrong" / str(number) / name)
            shutil.copy2(pipeline.root / name, sound.root / name)
        files = [file for file in files if str(file.relative_to(sound.root)) not in mutation.changed]
        for file in results.rglob(".*.elsewhere"):
            file.unlink()
        if len(files) < 2:
            break
    if not figures:
        return outcomes
    numbers = range(len(outcomes))
    judged = _judged(pipeline, folder, numbers, outcomes, figures)
    if all(each.is_good for each in judged) or len(judged) == 1:
        return judged
    return [_judged(pipeline, folder, [number], outcomes, figures)[0] for number in numbers]


def _judged(
    pipeline: Pipeline,
    folder: Path,
    numbers: Sequence[int],
    outcomes: Sequence[Outcome],
    figures: Sequence[str],
) -> list[Outcome]:
    """Give the mutations of these numbers to the next run, and to `verify --repair`."""
    again, damaged = (_damaged(pipeline, folder, name, numbers, outcomes) for name in ("again", "damaged"))
    ran = _ended_well([*again.command(), "--cores", "all", *figures], again.root)
    left = {each.path for each in check_all(again.root / "results").damage}
    repair = [sys.executable, "-m", "ddlbench.cli", "verify", "--repair"]
    mended = _ended_well(repair, damaged.root) and not check_all(damaged.root / "results").damage
    found = [outcomes[number] for number in numbers]
    left -= {each.mutation.file for each in found if _is_lost_telemetry(each.mutation)}
    return [
        replace(
            each, is_used=not ran or bool(left) or _is_still_there(again, each.mutation), is_mended=mended
        )
        for each in found
    ]


def _damaged(
    pipeline: Pipeline, folder: Path, name: str, numbers: Sequence[int], outcomes: Sequence[Outcome]
) -> Pipeline:
    """A copy of a pipeline with the mutations of these numbers."""
    shutil.rmtree(folder / name, ignore_errors=True)
    made = pipeline.copy(folder / name)
    for number in numbers:
        for file in outcomes[number].mutation.changed:
            wrong = folder / "wrong" / str(number) / file
            (made.root / file).unlink()
            if wrong.is_fifo():
                os.mkfifo(made.root / file)
            elif wrong.is_symlink() or wrong.exists():
                shutil.copy2(wrong, made.root / file, follow_symlinks=False)
            if wrong.is_symlink():
                shutil.copy2(pipeline.root / file, (made.root / file).parent / wrong.readlink())
    return made


def _move(file: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(file):
        os.replace(file, to)


def _is_of_measurements(file: Path, root: Path) -> bool:
    return str(file.relative_to(root)).startswith(OF_MEASUREMENTS)


def files_of_results(root: Path) -> list[Path]:
    """Every file below the results, except the telemetry between two repetitions, which no result is made from."""
    hashed = check_all(root / "results").comparison.hashes
    files = sorted(files_below(root / "results"))
    return [file for file in files if file.suffix != ".parquet" or str(file.relative_to(root)) in hashed]


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


def _is_still_there(pipeline: Pipeline, mutation: Mutation) -> bool:
    """Whether what was damaged is where results are. What was deleted is nowhere."""
    file = pipeline.root / mutation.file
    return is_plain(file) and file.read_bytes() == mutation.wrong


def _is_lost_telemetry(mutation: Mutation) -> bool:
    """Telemetry that was deleted is in no use, and cannot be made again without measuring again."""
    return mutation.kind == "delete" and mutation.file.startswith("results/telemetry/")


def drawn(root: Path) -> Pipeline:
    """A pipeline with a tiny study whose figures are drawn."""
    pipeline = new_pipeline(root)
    pipeline.run("--cores", "all", *FIGURES)
    assert not check_all(root / "results").damage
    return pipeline
