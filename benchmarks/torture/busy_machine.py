"""`make test` again and again beside a busy loop on each core: does a test fail that passes on a quiet machine?

The loops are one session, as those of another terminal are: where the kernel shares its cores between sessions, each
loop gets half of its core.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from benchmarks.common import ROOT
from benchmarks.torture.tally import Tally
from tests.support.vanishing import at_the_end

RED = "red"
TIMEOUT_S = 3600.0
LOOPS = """
import os
for core in os.sched_getaffinity(0):
    if not os.fork():
        os.sched_setaffinity(0, [core])
        while True:
            pass
os.wait()
"""


def tests(seed: int, tries: int, keep: Callable[[Tally], None]) -> Tally:
    """The part of the torture that runs the tests beside other work. Nothing of it is drawn by the seed."""
    tally = Tally(f"`make test` in a row beside a busy loop on each core: {RED}", "10: 0", seed, {RED: 0})
    with busy_cores():
        for number in range(1, tries + 1):
            began = monotonic()
            failed = failed_tests(ROOT / f"logs/torture/tests-{number}.log")
            tally.add(
                f"{failed or 'green'} after {(monotonic() - began) / 60:.1f} minutes", {RED: bool(failed)}
            )
            tally.notes = ["; ".join(tally.tries)]
            keep(tally)
    return tally


@contextmanager
def busy_cores() -> Iterator[None]:
    """A loop on each core that this process may use, until the end of the block."""
    with (
        subprocess.Popen([sys.executable, "-c", LOOPS], start_new_session=True) as loops,
        at_the_end("kill", "--", f"-{loops.pid}"),
    ):
        yield


def failed_tests(log: Path) -> str:
    """Run `make test` once, and keep what it says; the tests that have failed, or the last words if it names none."""
    command = ["make", "test"]
    with (
        subprocess.Popen(
            command,
            cwd=ROOT,
            text=True,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as run,
        at_the_end("kill", "--", f"-{run.pid}"),  # what `make` has started does not end with it
    ):
        said, _ = run.communicate(timeout=TIMEOUT_S)
    log.parent.mkdir(parents=True, exist_ok=True)
    log.write_text(said)
    lines = said.splitlines()
    named = [line for line in lines if line.startswith(("FAILED ", "ERROR "))]
    return "; ".join(named or lines[-1:]) if run.returncode else ""
