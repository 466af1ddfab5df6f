"""The share of a sweep's wall time that is spent in measured or warm-up steps: `snakemake`, the default configuration.

The whole command counts: launches, probes, data sets, tables, figures, Snakemake itself. With --of FOLDER it takes the
sweep that `make run` has made there, in a clone with nothing measured before; otherwise it makes one (a quarter of an
hour). The second share leaves out what is not within sessions (launch, probes and preparing are what is lost there).
"""

import json
import re
from collections.abc import Mapping, Sequence
from math import fsum
from pathlib import Path
from typing import Any

from benchmarks.common import benchmark, in_words, options, repository, row, save, snakemake_s, spread
from benchmarks.sweep import config
from ddlbench.errors import DdlbenchError

AT_LEAST = 85.0
SWEEP_TIMEOUT_S = 3600


def main(arguments: Sequence[str]) -> None:
    asked = options(__doc__, arguments, of="")
    if asked.of:
        swept = sweep_in(Path(asked.of))
    else:
        with repository(config=config()) as folder:
            snakemake_s(folder, "--cores", "all", timeout_s=SWEEP_TIMEOUT_S)
            swept = sweep_in(folder)
    of_command = share_percent(swept["sessions"], swept["wall_s"])
    of_sessions = share_percent(swept["sessions"])
    rows = [
        row(
            "share of a sweep's wall time spent in measured or warm-up steps",
            at_least=f"{AT_LEAST:g} %",
            measured=f"{in_words(spread([of_command]), ' %')}; within sessions {of_sessions:.3g} %",
            peer=f"the wall time of the same command ({swept['wall_s']:.0f} s: the default figures)",
            met=of_command >= AT_LEAST,
        )
    ]
    save("share", rows, {"of_command_percent": of_command, "of_sessions_percent": of_sessions, **swept})


def sweep_in(folder: Path) -> dict[str, Any]:
    """The wall time of the Snakemake command that measured in `folder`, and each run's session.json."""
    logs = [path.read_text() for path in sorted((folder / ".snakemake" / "log").glob("*.log"))]
    times_s = [elapsed_s(log) for log in logs if "Nothing to be done" not in log]
    if len(times_s) != 1:
        raise DdlbenchError(f"{folder}: {len(times_s)} commands have measured here, and it must be one")
    return {"wall_s": times_s[0], "sessions": sessions_in(folder)}


def sessions_in(folder: Path) -> dict[str, Any]:
    """Each run's session.json in `folder`, with its framework."""
    return {
        path.parent.name: {
            **json.loads(path.read_text()),
            "framework": json.loads((path.parent / "job.json").read_text())["points"][0]["point"][
                "framework"
            ],
        }
        for path in (folder / "logs" / "runs").glob("**/session.json")
    }


def elapsed_s(log: str) -> float:
    """What Snakemake says that it took, in the end of its log: `Elapsed time: 0:02:13.4`."""
    found = re.search(r"Elapsed time: (\d+):(\d+):([\d.]+)", log)
    if not found:
        raise DdlbenchError("this command of Snakemake has not ended")
    hours, minutes, seconds = map(float, found.groups())
    return 3600 * hours + 60 * minutes + seconds


def share_percent(sessions: Mapping[str, Mapping[str, Any]], wall_s: float | None = None) -> float:
    """Steps' part of `wall_s`, or of the sessions' own wall time."""
    steps_s, sessions_s = (
        fsum(session[key] for session in sessions.values()) for key in ("steps_s", "wall_s")
    )
    return 100 * steps_s / (wall_s or sessions_s)


if __name__ == "__main__":
    benchmark(main)
