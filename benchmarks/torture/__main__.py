"""The torture: all its parts, or those named, drawn by a seed; then the table of all that has been tried.

python -m benchmarks.torture [PART ...] [--seed 15] [--short] [--tries N]
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from time import monotonic

from benchmarks.common import ROOT, say
from benchmarks.torture import at_once, audit, busy_machine, cluster_faults, configurations, kills, store
from benchmarks.torture.places import PLACES
from benchmarks.torture.tally import Tally, saved, table
from tests.support.pipeline import ENVIRONMENT

SEED = 15


@dataclass(frozen=True)
class Part:
    """A part of the torture: what runs it, how often it tries in full and in the short form (0: it is not in it).

    What measures needs PyTorch's environment.
    """

    run: Callable[[int, int, Callable[[Tally], None]], Tally]
    tries: int
    short: int
    measures: bool = True


PARTS: Mapping[str, Part] = {
    **{f"kills-{name}": Part(kills.kills_in(name), 50, 3) for name in PLACES},
    "store": Part(store.mutations, 500, 20),
    "configurations": Part(configurations.mutations, 500, 50),
    "cluster": Part(cluster_faults.faults, 30, 2),
    "at-once": Part(at_once.asked_for, 7, 7),
    "tests": Part(busy_machine.tests, 10, 0, measures=False),
    "bandit": Part(audit.bandit, 1, 1, measures=False),
    "pip-audit": Part(audit.pip_audit, 1, 1, measures=False),
}


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.torture", description=__doc__.split("\n")[0])
    parser.add_argument("parts", metavar="PART", nargs="*", help=f"default: all of {', '.join(PARTS)}")
    parser.add_argument("--seed", type=int, default=SEED, help="default: %(default)s")
    parser.add_argument("--short", action="store_true", help="some tries of each, in minutes")
    parser.add_argument("--tries", type=int, help="of each part; default: as many as the table asks for")
    given = parser.parse_args(arguments)
    if unknown := [name for name in given.parts if name not in PARTS]:
        parser.error(f"{', '.join(unknown)}: not among {', '.join(PARTS)}")
    os.chdir(ROOT)
    measuring = [name for name in given.parts or PARTS if PARTS[name].measures]
    if measuring and not ENVIRONMENT.is_file():
        parser.error(
            f"{', '.join(measuring)}: need PyTorch; to install it:  snakemake --cores all {ENVIRONMENT}"
        )
    signal.signal(
        signal.SIGINT, signal.default_int_handler
    )  # a shell's background jobs, and their children, ignore it
    tallies = []
    for name in given.parts or PARTS:
        part, began = PARTS[name], monotonic()
        if not (tries := given.tries or (part.short if given.short else part.tries)):
            continue
        say(f"--- {name}: {tries}")
        keep = no_file if given.short else partial(Tally.save, name=name)
        tallies.append(part.run(given.seed, tries, keep))
        keep(tallies[-1])
        say(f"--- {name}: {'good' if tallies[-1].is_good else 'BAD'} after {monotonic() - began:.0f} s")
    print(table(tallies if given.short else saved(PARTS)))
    return int(not all(tally.is_good for tally in tallies))


def no_file(tally: Tally) -> None:
    """Keep nothing: the numbers of the whole torture are not overwritten by small ones."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
