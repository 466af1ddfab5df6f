"""Kills processes of ours at random: are records lost, is anything left, does the next start go on by itself?

python -m benchmarks.torture kills-bare [--seed 15] [--tries 80]      (kills-docker, kills-apptainer, kills-slurm)

A tiny study is measured for long. At a random moment a random process of it gets a random signal.
"""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from random import Random
from time import monotonic, sleep

from benchmarks.torture.places import Place, place
from benchmarks.torture.tally import Tally
from ddlbench.measurements.record import DamagedRecord, read_record
from tests.support.pipeline import MEASUREMENTS

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
PLANNING_SHARE, PLANNING_S, MEASURING_S = 0.3, 8.0, 3.0  # when: while it plans, or after a new measurement
CHECKED_SHARE = 0.4  # of the next starts; the others may be killed while they plan
END_S = 10.0  # after which nothing may be left of a call that has ended
NEXT_S = 180.0  # until a start must have measured something
LOST, LEFT, BY_HAND = "lost records", "leftovers after 10 s", "starts that need a hand"


@dataclass(frozen=True)
class Kill:
    """One kill and what became of it.

    Attributes:
        signal: its name.
        victim: what the process runs.
        ended: whether the call of Snakemake has ended by it.
        lost: records that were there before and are not any more, or differ.
        left: what is left 10 s after the end.
        by_hand: whether the next start has not gone on by itself; None: that was not looked at.
    """

    signal: str
    victim: str
    ended: bool
    lost: int
    left: tuple[str, ...] = ()
    by_hand: bool | None = None

    @property
    def is_good(self) -> bool:
        return not (self.lost or self.left or self.by_hand)

    def __str__(self) -> str:
        found = [f"{self.signal} to {self.victim!r}: the call {'ends' if self.ended else 'goes on'}"]
        found += [f"LOST {self.lost} RECORDS"] if self.lost else []
        found += [f"LEFT {', '.join(self.left)}"] if self.left else []
        found += {None: [], False: ["the next start measures"], True: ["THE NEXT START NEEDS A HAND"]}[
            self.by_hand
        ]
        return "; ".join(found)


def kills_in(name: str) -> Callable[[int, int, Callable[[Tally], None]], Tally]:
    """The part of the torture that kills processes in one place."""

    def kills(seed: int, tries: int, keep: Callable[[Tally], None]) -> Tally:
        tally = Tally(
            f"random kills (KILL, TERM, INT) of any process of ours, {name}: {LOST}; {LEFT}; {BY_HAND}",
            f"{tries}: 0; 0; 0",
            seed,
            dict.fromkeys((LOST, LEFT, BY_HAND), 0),
        )
        checked = 0
        with place(name) as where:
            for kill in torture(where, tries, Random(f"{seed} {name}")):
                found = {LOST: kill.lost, LEFT: len(kill.left), BY_HAND: int(bool(kill.by_hand))}
                checked += kill.by_hand is not None
                tally.add(str(kill), found)
                tally.notes = [f"{checked} next starts were waited for until they had measured"]
                keep(tally)
            tally.counts[LOST] += unreadable(where)
        return tally

    return kills


def torture(where: Place, kills: int, random: Random) -> Iterator[Kill]:
    """Measure, and kill one process after another.

    Args:
        where: a place whose study is configured to be measured for long.
        kills: how many.
        random: draws moments, victims and signals.

    Yields:
        The kills, in order.
    """
    try:
        going, number = where.start(), 0
        while number < kills:
            kill = kill_one(where, going, random)
            if going.poll() is not None:
                before = measured(where)
                going = where.start()
                if kill and (number + 1 == kills or random.random() < CHECKED_SHARE):
                    kill = replace(kill, by_hand=not goes_on(where, going, before))
            if kill:
                number += 1
                yield kill
    finally:
        where.end()


def kill_one(where: Place, going: "subprocess.Popen[str]", random: Random) -> Kill | None:
    """Kill one process at a random moment; None if the call has ended before, for an earlier kill."""
    if random.random() < PLANNING_SHARE:
        sleep(random.uniform(0.0, PLANNING_S))
    else:
        goes_on(where, going, measured(where))
        sleep(random.uniform(0.0, MEASURING_S))
    running = where.processes()
    if going.poll() is not None or not running:
        return None
    kept = where.pipeline.measurements()
    victim, number = random.choice(sorted(running)), random.choice(SIGNALS)
    with where.held() as held:
        try:
            os.kill(victim, number)
        except ProcessLookupError:
            return None
        until = monotonic() + END_S
        while going.poll() is None and monotonic() < until and measured(where) <= len(kept) + 1:
            sleep(0.1)
        ended, left = going.poll() is not None, where.left(held)
        until = monotonic() + END_S
        while ended and left and monotonic() < until:
            sleep(0.1)
            left = where.left(held)
    now = where.pipeline.measurements()
    return Kill(
        number.name,
        running[victim][:70],
        ended,
        lost=sum(now.get(name) != content for name, content in kept.items()),
        left=tuple(left) if ended else (),
    )


def goes_on(where: Place, going: "subprocess.Popen[str]", before: int) -> bool:
    """Whether a call measures something."""
    until = monotonic() + NEXT_S
    while measured(where) <= before and going.poll() is None and monotonic() < until:
        sleep(0.2)
    return measured(where) > before


def measured(where: Place) -> int:
    """How many measurements there are."""
    return sum(1 for _ in (where.pipeline.root / "results/store").glob(MEASUREMENTS))


def unreadable(where: Place) -> int:
    """How many measurements are not whole."""
    found = 0
    for name in where.pipeline.measurements():
        try:
            read_record(where.pipeline.root / "results/store" / name)
        except DamagedRecord:
            found += 1
    return found
