"""Queries to SLURM, with a clear error where it does not answer; and the job that this process is in."""

import os
import re
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from time import monotonic, sleep

from ddlbench.errors import DdlbenchError

UNKNOWN = "unknown"  # the state of a job of which SLURM says nothing
_ASK_S = 60.0
_TIDYING_S, _AGAIN_S = 90.0, 1.0  # SLURM gives processes 30 s between SIGTERM and SIGKILL (KillWait)


@dataclass(frozen=True)
class Allocation:
    """A job of SLURM's, and the names of its nodes in SLURM's order."""

    job: str
    nodes: tuple[str, ...]


def ask(*argv: str) -> str:
    """Run one of SLURM's commands.

    Args:
        *argv: the command and its arguments.

    Returns:
        Its standard output, without white space at the ends.

    Raises:
        DdlbenchError: the command is not installed, fails, or does not end within a minute.
    """
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
    """Find the job that this process is in.

    Only the job's number must be known: Snakemake removes SLURM's other variables from a job's environment.

    Args:
        variables: the environment variables.

    Returns:
        The job's number and nodes.

    Raises:
        DdlbenchError: this process is in no job, or SLURM does not answer.
    """
    job = variables.get("SLURM_JOB_ID")
    if not job:
        raise DdlbenchError("workers on several machines are started inside of a SLURM job, and this is none")
    nodes = variables.get("SLURM_JOB_NODELIST") or ask("squeue", "-h", "-j", job, "-o", "%N")
    return Allocation(job, tuple(ask("scontrol", "show", "hostnames", nodes).splitlines()))


def own_address(variables: Mapping[str, str] = os.environ) -> str:
    """Find the address by which other nodes reach this machine.

    Args:
        variables: the environment variables; within a job SLURM's name of the node is among them.

    Returns:
        The address that SLURM itself uses for this node; outside of a job the host name.

    Raises:
        DdlbenchError: SLURM does not answer.
    """
    if node := variables.get("SLURMD_NODENAME"):
        return fields(ask("scontrol", "show", "node", "--oneliner", node)).get("NodeAddr", node)
    return socket.gethostname()


def is_exclusive(job: str) -> bool | None:
    """Ask SLURM whether a job has its nodes for itself.

    Args:
        job: its number.

    Returns:
        Whether no other job may run on them; None if SLURM does not answer.
    """
    try:
        shared = fields(ask("scontrol", "show", "job", "--oneliner", job)).get("OverSubscribe")
    except DdlbenchError:
        return None
    return None if shared is None else shared == "NO"


def how_it_ended(job: str) -> str:
    """Ask SLURM for the state of a job; repeat the question while SLURM cleans up after the job (COMPLETING).

    Args:
        job: SLURM's number of the job.

    Returns:
        State and reason: `TIMEOUT (TimeLimit)`, `RUNNING`; `unknown` if SLURM does not answer.
    """
    until = monotonic() + _TIDYING_S
    while True:
        try:
            job_fields = fields(ask("scontrol", "show", "job", "--oneliner", job))
        except DdlbenchError:
            return UNKNOWN
        state, reason = job_fields.get("JobState", UNKNOWN), job_fields.get("Reason", "None")
        if state != "COMPLETING" or monotonic() > until:
            return state if reason == "None" else f"{state} ({reason})"
        sleep(_AGAIN_S)


def limit_minutes(job: str) -> int | None:
    """Ask SLURM for the time limit of a job.

    Args:
        job: SLURM's number of the job.

    Returns:
        The time in minutes, rounded up; None without a limit, or if SLURM does not answer.
    """
    try:
        limit = minutes(ask("squeue", "-h", "-j", job, "-o", "%l"))
    except DdlbenchError:
        return None
    return None if limit is None else ceil(limit)


def minutes(text: str) -> float | None:
    """Convert a time in SLURM's format to minutes.

    Args:
        text: like `1-12:00:00`, `12:00:00` or `10:00` (minutes and seconds).

    Returns:
        Minutes; None for `infinite` and other words.
    """
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if not found:
        return None
    days, hours, mins, seconds = (int(part or 0) for part in found.groups())
    return 1440 * days + 60 * hours + mins + seconds / 60


def fields(text: str) -> dict[str, str]:
    """Parse one line of `scontrol --oneliner`.

    Args:
        text: like `JobState=RUNNING Reason=None ...`.

    Returns:
        The values by key.
    """
    return {key: value for key, _, value in (part.partition("=") for part in text.split())}
