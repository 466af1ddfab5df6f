"""A benchmark of two programs: one waits on a host, the other comes to it from another, measures and reports."""

import os
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from tempfile import TemporaryFile
from time import monotonic, sleep
from typing import IO

from ddlbench.errors import DdlbenchError
from ddlbench.system.namespaces import enter
from ddlbench.system.processes import describe_exit, die_with_parent

_START_S = 10.0  # until the server must listen
_POLL_S = 0.02
_NOT_YET = (
    "refused",
    "Couldn't connect",
    "has closed the connection",
)  # what clients say of a server that does not listen yet


@dataclass(frozen=True)
class Side:
    """One of the two programs: its argv and variables, its network namespace and its cores (None: ours)."""

    argv: Sequence[str]
    variables: Mapping[str, str]
    namespace: int | None = None
    cores: tuple[int, ...] | None = None


class ExchangeFailed(DdlbenchError):
    """A program that failed, fell silent or is not installed."""


def exchange(server: Side, client: Side, *, timeout_s: float) -> str:
    """What the client reports on its standard output. Raises ExchangeFailed; nothing is left running."""
    with TemporaryFile("w+") as output:
        waiting = _start(server, stdout=output, stderr=subprocess.STDOUT)

        def look_after_server(complaint: str) -> None:
            if waiting.poll() is not None:
                output.seek(0)
                ended = describe_exit(waiting.returncode)
                raise ExchangeFailed(
                    f"{_called(server)} ended ({ended}): {_last(output.read())}; {complaint}"
                )

        try:
            return ask(client, timeout_s=timeout_s, meanwhile=look_after_server)
        finally:
            waiting.kill()
            waiting.wait()


def ask(client: Side, *, timeout_s: float, meanwhile: Callable[[str], None] = lambda complaint: None) -> str:
    """What the client reports; it comes again while its server does not listen yet, and `meanwhile` may raise.

    Raises ExchangeFailed; nothing is left running.
    """
    until = monotonic() + min(_START_S, timeout_s)
    while True:
        report, complaint = _ask(client, timeout_s)
        if complaint is None:
            return report
        meanwhile(complaint)
        if monotonic() > until or not any(sign in complaint for sign in _NOT_YET):
            raise ExchangeFailed(complaint)
        sleep(_POLL_S)


def serve(servers: Iterable[Side], *, timeout_s: float) -> None:
    """Have one server after another wait for its client, until one has waited for `timeout_s`.

    Raises ExchangeFailed where one fails; nothing is left running.
    """
    for server in servers:
        with TemporaryFile("w+") as output:
            waiting = _start(server, stdout=output, stderr=subprocess.STDOUT)
            try:
                if waiting.wait(timeout_s):
                    output.seek(0)
                    ended = describe_exit(waiting.returncode)
                    raise ExchangeFailed(f"{_called(server)} failed ({ended}): {_last(output.read())}")
            except subprocess.TimeoutExpired:
                return
            finally:
                waiting.kill()
                waiting.wait()


def _ask(client: Side, timeout_s: float) -> tuple[str, str | None]:
    """The client's report, and what is wrong with it."""
    asking = _start(client, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        report, errors = asking.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise ExchangeFailed(f"{_called(client)} has been silent for {timeout_s:g} s") from None
    finally:
        asking.kill()
        asking.wait()
    if asking.returncode == 0:
        return report, None
    return report, f"{_called(client)} failed ({describe_exit(asking.returncode)}): {_last(errors or report)}"


def _start(side: Side, *, stdout: IO[str] | int, stderr: int) -> "subprocess.Popen[str]":
    def become() -> None:
        die_with_parent()
        if side.namespace is not None:
            enter(side.namespace)
        if side.cores is not None:
            os.sched_setaffinity(0, side.cores)

    try:
        return subprocess.Popen(
            side.argv,
            env={**os.environ, **side.variables},
            preexec_fn=become,
            stdin=subprocess.DEVNULL,
            stdout=stdout,
            stderr=stderr,
            text=True,
        )
    except FileNotFoundError:
        raise ExchangeFailed(f"{side.argv[0]} is not installed") from None


def _called(side: Side) -> str:
    return side.argv[0]


def _last(text: str) -> str:
    """The last two lines that say something: the very last is often advice."""
    output = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(output[-2:]) or "it printed nothing"
