"""The share of a sweep's wall time that is spent in measured or warm-up steps.

It takes the sweeps of benchmarks.sweep where there are any, and measures the same grid once otherwise. Two shares: of
the sessions (launch, probes and preparing are what is lost), and of the whole command, Snakemake included.
"""

import json
from collections.abc import Mapping, Sequence
from math import fsum
from typing import Any

from benchmarks.common import RESULTS, benchmark, in_words, options, repository, row, save, say, spread
from benchmarks.sweep import config, sweep

AT_LEAST = 80.0


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, fresh=0, min_repetitions=0)
    known = RESULTS / "sweep.json"
    if known.is_file() and not asked.fresh:
        say(f"share: of the sweeps in {known.name}")
        sweeps = json.loads(known.read_text())["rounds"]
    else:
        with repository(config=config(asked.min_repetitions)) as folder:
            sweeps = [sweep(folder)]
    sweeps = [{"wall_s": each["wall_s"], "sessions": each["sessions"]} for each in sweeps]
    of_command = spread([share_percent(each["sessions"], each["wall_s"]) for each in sweeps])
    of_sessions = spread([share_percent(each["sessions"]) for each in sweeps])
    rows = [
        row(
            "share of a sweep's wall time spent in measured or warm-up steps",
            at_least=f"{AT_LEAST:g} %",
            measured=f"{in_words(of_command, ' %')}; without Snakemake {in_words(of_sessions, ' %')}",
            peer="the wall time of the same sweep (anwar2021 default grid)",
            met=of_command["median"] >= AT_LEAST,
        )
    ]
    save(
        "share",
        rows,
        {"of_command_percent": of_command, "of_sessions_percent": of_sessions, "sweeps": sweeps},
    )


def share_percent(sessions: Mapping[str, Mapping[str, Any]], wall_s: float | None = None) -> float:
    """Steps' part of `wall_s`, or of the sessions' own wall time."""
    steps_s, sessions_s = (
        fsum(session[key] for session in sessions.values()) for key in ("steps_s", "wall_s")
    )
    return 100 * steps_s / (wall_s or sessions_s)


if __name__ == "__main__":
    benchmark(main)
