"""Two measurements asked for at the same time, in every way that Snakemake and a shell offer: how many run at once?

It is counted by the records: each says when its repetition began and ended.
"""

import shutil
import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import datetime
from random import Random

import psutil

from benchmarks.torture.places import DATA
from benchmarks.torture.tally import Tally
from tests.support.pipeline import Pipeline, new_pipeline
from tests.support.repository import environment
from tests.support.vanishing import vanishing_folder

AT_ONCE = "most at once"
PATIENCE_S = 900.0
BOTH, ONE, OTHER = ("tiny2000_fig1", "tiny2000_fig2"), ("tiny2000_fig1",), ("tiny2000_fig2",)
Calls = Sequence[tuple[str, Sequence[str]]]  # in which checkout, and with which words
WAYS: dict[str, Calls] = {
    "--cores 4096": [("one", [*BOTH, "--cores", "4096"])],
    "--set-threads measure=1": [("one", [*BOTH, "--cores", "8", "--set-threads", "measure=1"])],
    "no profile, --jobs 8": [("one", [*BOTH, "--workflow-profile", "none", "--cores", "8", "--jobs", "8"])],
    "two terminals": [("one", ONE), ("one", OTHER)],
    "two terminals, one measures afresh": [("one", ONE), ("one", [*OTHER, "--config", "fresh=true"])],
    "two terminals, two configurations": [("one", ONE), ("one", [*OTHER, "--config", "name=other"])],
    "two checkouts": [("one", ONE), ("two", ONE)],
}


def asked_for(seed: int, tries: int, keep: Callable[[Tally], None]) -> Tally:
    """The part of the torture that asks for several measurements at once."""
    tally = Tally(
        "measuring processes at once on one machine, however asked for", "1", seed, {AT_ONCE: 0}, most=1
    )
    ways = list(WAYS)
    Random(f"{seed} at once").shuffle(ways)
    with vanishing_folder("ddlbench-torture-") as folder:
        first = new_pipeline(folder / "first")
        first.run(DATA)
        first.configure({"other_measurements": "wait"})
        for way in ways[:tries]:
            checkouts = {name: first.copy(folder / name) for name in {name for name, _ in WAYS[way]}}
            statuses = _together([(checkouts[name], words) for name, words in WAYS[way]])
            records = [record for each in checkouts.values() for record in each.records()]
            most = most_at_once(records)
            tally.tried += 1
            tally.counts[AT_ONCE] = max(tally.counts[AT_ONCE], most)
            tally.tries.append(f"{way}: {len(records)} repetitions, {most} at once, statuses {statuses}")
            keep(tally)
            for each in checkouts.values():
                shutil.rmtree(each.root)
    tally.notes = ["; ".join(tally.tries)]
    return tally


def most_at_once(records: Sequence[dict[str, str]]) -> int:
    """How many of some repetitions were under way at the same moment, at most."""
    moments = []
    for record in records:
        began, ended = (datetime.fromisoformat(record[key]) for key in ("started", "ended"))
        moments += [(began, 1), (ended, -1)]
    most = now = 0
    for _, change in sorted(moments):
        now += change
        most = max(most, now)
    return most


def _together(calls: Sequence[tuple[Pipeline, Sequence[str]]]) -> list[int | None]:
    """Start Snakemake several times, and wait for all; their statuses."""
    going = []
    for number, (checkout, words) in enumerate(calls):
        with (checkout.root / f"said-{number}.txt").open("w") as said:
            command, variables = checkout.command(*words), environment(checkout.root)
            going.append(
                subprocess.Popen(command, cwd=checkout.root, env=variables, stdout=said, stderr=said)
            )
    for each in going:
        with suppress(subprocess.TimeoutExpired):
            each.wait(PATIENCE_S)
        if each.poll() is None:
            for child in psutil.Process(each.pid).children(recursive=True):
                child.kill()
            each.kill()
            each.wait()
    return [each.returncode for each in going]
