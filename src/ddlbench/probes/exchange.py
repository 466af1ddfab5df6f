"""A benchmark of two programs: a server on one host, and a client on another that connects, measures and reports."""

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

_START_S = 10.0  # that a server may take until it listens, on a machine that does little else
_POLL_S = 0.02
_NOT_YET = (
    "refused",
    "Couldn't connect",
    "has closed the connection",
)  # parts of the errors that clients print when the server does not listen yet


@dataclass(frozen=True)
class Side:
    """One of the two programs: its argv and variables, its network namespace and its cores (None: the caller's)."""

    argv: Sequence[str]
    variables: Mapping[str, str]
    namespace: int | None = None
    cores: tuple[int, ...] | None = None


class ExchangeFailed(DdlbenchError):
    """A program failed, exceeded its time or is not installed."""


def exchange(server: Side, client: Side, *, timeout_s: float, start_s: float = _START_S) -> str:
    """Run a server and a client that measures; neither is left running.

    Args:
        server: the program that waits.
        client: the program that connects, measures and ends.
        timeout_s: how long the client may run, in s.
        start_s: how long the server may take until it listens.

    Returns:
        What the client prints on its standard output.

    Raises:
        ExchangeFailed: either of them fails, the client takes too long, or a program is not installed.
    """
    with TemporaryFile("w+") as output:
        waiting = _start(server, stdout=output, stderr=subprocess.STDOUT)

        def look_after_server(failure: str) -> None:
            if waiting.poll() is not None:
                output.seek(0)
                ended = describe_exit(waiting.returncode)
                raise ExchangeFailed(f"{_called(server)} ended ({ended}): {_last(output.read())}; {failure}")

        try:
            return ask(client, timeout_s=timeout_s, start_s=start_s, meanwhile=look_after_server)
        finally:
            waiting.kill()
            waiting.wait()


def ask(
    client: Side,
    *,
    timeout_s: float,
    start_s: float = _START_S,
    meanwhile: Callable[[str], None] = lambda failure: None,
) -> str:
    """Run a client, and run it again while its server does not listen yet; it is not left running.

    Args:
        client: the program that connects, measures and ends.
        timeout_s: how long it may run, in s.
        start_s: how long its server may take until it listens.
        meanwhile: called with the failure of each attempt that fails; an error of its ends the attempts.

    Returns:
        What the client prints on its standard output.

    Raises:
        ExchangeFailed: the client fails, takes too long or is not installed.
    """
    until = monotonic() + min(start_s, timeout_s)
    while True:
        report, failure = _ask(client, timeout_s)
        if failure is None:
            return report
        meanwhile(failure)
        if monotonic() > until or not any(sign in failure for sign in _NOT_YET):
            raise ExchangeFailed(failure)
        sleep(_POLL_S)


def serve(servers: Iterable[Side], *, timeout_s: float) -> None:
    """Run one server after another until one has waited for too long; none is left running.

    Args:
        servers: programs that each wait for one client and end.
        timeout_s: how long a server may wait and run, in s.

    Raises:
        ExchangeFailed: a server fails or is not installed, or no client comes to the first one.
    """
    for number, server in enumerate(servers):
        with TemporaryFile("w+") as output:
            waiting = _start(server, stdout=output, stderr=subprocess.STDOUT)
            try:
                if waiting.wait(timeout_s):
                    output.seek(0)
                    ended = describe_exit(waiting.returncode)
                    raise ExchangeFailed(f"{_called(server)} failed ({ended}): {_last(output.read())}")
            except subprocess.TimeoutExpired:
                if number == 0:
                    raise ExchangeFailed(f"no probe has come within {timeout_s:g} s") from None
                return
            finally:
                waiting.kill()
                waiting.wait()


def _ask(client: Side, timeout_s: float) -> tuple[str, str | None]:
    """Return the client's report and its failure (None: it succeeded)."""
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
    """Return the last two lines that are not empty: the very last is often advice."""
    output = [line.strip() for line in text.splitlines() if line.strip()]
    return "; ".join(output[-2:]) or "it printed nothing"
