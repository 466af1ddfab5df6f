"""How jobs that were submitted to SLURM have ended: by what they left behind, and by what SLURM says of them.

A job writes down its own end as the last thing that it does. So its success is seen although slurmctld is away, or has
forgotten the job (MinJobAge). What was killed leaves nothing; of that SLURM knows the end.
"""

import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic
from typing import IO

from ddlbench.system.processes import die_with_parent

LOOK_S = 2.0  # between looks at what jobs have left
_ASK_S, _ANSWER_S = (
    6.0,
    60.0,
)  # between questions to SLURM, which are for all jobs together; until one is given up
_GRACE_S = 20.0  # SLURM may not know a new job at once, and may still start one again whose node has failed
_DONE, _FAILED = "done", "failed"
_ENDED_BADLY = ("FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE")
_STARTED_AGAIN = ("NODE_FAIL", "PREEMPTED")  # by SLURM itself, most often
_UNKNOWN = "unknown"  # SLURM answers, and does not know the job


@dataclass(frozen=True)
class End:
    """The end of a job: whether it did what it was to do, and if not, why not."""

    is_success: bool
    why: str = ""


@dataclass
class JobEnds:
    """Looks for the ends of jobs.

    Attributes:
        folder: what jobs write into; all nodes have it.
        name: the name of all jobs in SLURM.
    """

    folder: Path
    name: str
    _bad_since: dict[str, float] = field(default_factory=dict)  # jobs that look as if they had ended badly
    _states: dict[str, str] | None = None  # by number; None: SLURM does not answer
    _asked: float = float("-inf")
    _question: "subprocess.Popen[bytes] | None" = None
    _answer: IO[str] = field(init=False)  # what it prints

    def command(self, token: str, command: str) -> str:
        """Have a command write down how it has ended.

        Args:
            token: names what it writes.
            command: of a shell. SLURM may start it more than once.

        Returns:
            The command of a shell, whose status is 0 or 1. It has neither `"` nor `$` that `command` has not.
        """
        done, failed = (shlex.quote(str(self.folder / f"{token}.{end}")) for end in (_DONE, _FAILED))
        return f"rm -f {done} {failed}; ( {command} ) && touch {done} || {{ touch {failed}; false; }}"

    def ended(self, jobs: Mapping[str, str]) -> dict[str, End]:
        """Find the jobs that have ended.

        Args:
            jobs: the token of each job, by SLURM's number.

        Returns:
            The ends by number; jobs that still wait or run are not among them.
        """
        left = self._left()
        self._ask(at_once=any(f"{token}.{_FAILED}" in left for token in jobs.values()))
        found = {job: self._end(job, token, left, monotonic()) for job, token in jobs.items()}
        return {job: end for job, end in found.items() if end}

    def _left(self) -> set[str]:
        """The names of what jobs have written; listing a folder shows what other nodes have written, too."""
        try:
            return set(os.listdir(self.folder))
        except FileNotFoundError:
            return set()

    def _ask(self, *, at_once: bool) -> None:
        """Take SLURM's answer, if it has come, and ask again. Nobody waits for an answer."""
        since_s = monotonic() - self._asked
        if self._question is None:
            if at_once or since_s >= _ASK_S:
                self._asked = monotonic()
                # A pipe would be full of the states of some thousand jobs.
                self._answer = TemporaryFile("w+")  # noqa: SIM115
                self._question = subprocess.Popen(
                    ["squeue", "--noheader", "--states=all", "--format=%i|%T", "--name", self.name],
                    stdin=subprocess.DEVNULL,
                    stdout=self._answer,
                    stderr=subprocess.DEVNULL,
                    preexec_fn=die_with_parent,
                )
        elif (status := self._question.poll()) is not None:
            with self._answer as answer:
                answer.seek(0)
                self._states = None if status else dict(line.rstrip().split("|", 1) for line in answer)
            self._question = None
        elif since_s >= _ASK_S:
            self._states = None
            if since_s >= _ANSWER_S:
                self._question.kill()

    def _end(self, job: str, token: str, left: set[str], now: float) -> End | None:
        if f"{token}.{_DONE}" in left:
            return End(True)
        state = None if self._states is None else self._states.get(job, _UNKNOWN)
        if state == "COMPLETED":
            return End(True)
        if state in _ENDED_BADLY:
            return End(False, f"SLURM's job {job} has ended: {state}")
        has_failed = f"{token}.{_FAILED}" in left
        if state == _UNKNOWN and has_failed:
            return End(False, f"SLURM's job {job} has failed")
        looks_bad = has_failed if state is None else state in (*_STARTED_AGAIN, _UNKNOWN)
        if not looks_bad:
            self._bad_since.pop(job, None)
            return None
        if now - self._bad_since.setdefault(job, now) < _GRACE_S:
            return None
        if has_failed:
            return End(False, f"SLURM's job {job} has failed, and SLURM does not answer")
        if state == _UNKNOWN:
            return End(
                False, f"SLURM does not know its job {job} any more, and it has not written down its end"
            )
        return End(False, f"SLURM's job {job} has ended: {state}, and was not started again")
