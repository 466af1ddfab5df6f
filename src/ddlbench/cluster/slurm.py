"""Questions to SLURM, in words where it does not answer; and the job that we are in."""

import os
import re
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from time import monotonic, sleep

from ddlbench.errors import DdlbenchError

_ASK_S = 60.0
_TIDYING_S, _AGAIN_S = 90.0, 1.0  # SLURM gives processes 30 s between SIGTERM and SIGKILL (KillWait)


@dataclass(frozen=True)
class Allocation:
    """A job of SLURM's, and its nodes in SLURM's order."""

    job: str
    nodes: tuple[str, ...]


def ask(*argv: str) -> str:
    """What a command of SLURM's says. Raises DdlbenchError where it fails, is silent, or is not there."""
    try:
        answer = subprocess.run(argv, capture_output=True, text=True, timeout=_ASK_S)
    except FileNotFoundError:
        raise DdlbenchError(
            f"{argv[0]} is not here: this is no machine of a SLURM cluster, or SLURM is not in PATH"
        ) from None
    except subprocess.TimeoutExpired:
        raise DdlbenchError(f"SLURM has not answered {' '.join(argv)!r} for {_ASK_S:.0f} s") from None
    if answer.returncode:
        raise DdlbenchError(
            f"SLURM refuses {' '.join(argv)!r}: {answer.stderr.strip() or answer.stdout.strip()}"
        )
    return answer.stdout.strip()


def allocation(variables: Mapping[str, str] = os.environ) -> Allocation:
    """The job that this process is in. Raises DdlbenchError where it is in none.

    Only the job's number need be known: Snakemake takes SLURM's other variables out of a job's environment.
    """
    job = variables.get("SLURM_JOB_ID")
    if not job:
        raise DdlbenchError("workers on several machines are started inside of a SLURM job, and this is none")
    nodes = variables.get("SLURM_JOB_NODELIST") or ask("squeue", "-h", "-j", job, "-o", "%N")
    return Allocation(job, tuple(ask("scontrol", "show", "hostnames", nodes).splitlines()))


def own_address(variables: Mapping[str, str] = os.environ) -> str:
    """What the other nodes call this machine: the address by which SLURM itself reaches it."""
    if node := variables.get("SLURMD_NODENAME"):
        return fields(ask("scontrol", "show", "node", "--oneliner", node)).get("NodeAddr", node)
    return socket.gethostname()


def how_it_ended(job: str) -> str:
    """What SLURM says of a job: `TIMEOUT (TimeLimit)`, `RUNNING`; `unknown` where it says nothing.

    While it tidies up after a job it does not say how that ended, and is asked again.
    """
    until = monotonic() + _TIDYING_S
    while True:
        try:
            job_fields = fields(ask("scontrol", "show", "job", "--oneliner", job))
        except DdlbenchError:
            return "unknown"
        state, reason = job_fields.get("JobState", "unknown"), job_fields.get("Reason", "None")
        if state != "COMPLETING" or monotonic() > until:
            return state if reason == "None" else f"{state} ({reason})"
        sleep(_AGAIN_S)


def minutes_left(job: str) -> int | None:
    """How long a job may still run, rounded up; None without a limit, and where SLURM does not say."""
    try:
        left = minutes(ask("squeue", "-h", "-j", job, "-o", "%L"))
    except DdlbenchError:
        return None
    return None if left is None else ceil(left)


def minutes(text: str) -> float | None:
    """A time of SLURM's, `1-12:00:00`, `12:00:00` or `10:00`, in minutes; None for `infinite` and other words."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if not found:
        return None
    days, hours, mins, seconds = (int(part or 0) for part in found.groups())
    return 1440 * days + 60 * hours + mins + seconds / 60


def fields(text: str) -> dict[str, str]:
    """`scontrol --oneliner` as a table: `JobState=RUNNING Reason=None ...`."""
    return {key: value for key, _, value in (part.partition("=") for part in text.split())}
