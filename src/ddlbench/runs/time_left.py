"""The time for more repetitions that an invocation's worker groups have left to those that are measured after them."""

import json
from pathlib import Path

from ddlbench.files import read_json, write_atomically
from ddlbench.runs.invocation import Invocation


class TimeLeft:
    """What earlier groups of an invocation did not need; runs of an invocation are measured one after another.

    Args:
        file: where it is kept between the jobs of an invocation.
        invocation: whose; what another one has left does not count.

    Attributes:
        seconds: of wall time.
    """

    def __init__(self, file: Path, invocation: Invocation) -> None:
        self._file = file
        self._whose = [invocation.pid, invocation.began]
        self.seconds = 0.0
        try:
            kept = read_json(file)
            if kept["whose"] == self._whose:
                self.seconds = max(0.0, float(kept["seconds"]))
        except (OSError, ValueError, KeyError, TypeError):
            pass  # nothing was left yet

    def update(self, spent: Path) -> None:
        """Take over what a session has left.

        Args:
            spent: the file in which it says what it spent its time on.
        """
        self.seconds = float(read_json(spent)["left_s"])
        write_atomically(self._file, json.dumps({"whose": self._whose, "seconds": self.seconds}) + "\n")
