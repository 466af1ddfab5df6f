"""The supervisor's side of a fork server: one process in a framework's environment, which forks the workers."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Self

from ddlbench.errors import DdlbenchError
from ddlbench.files import tail
from ddlbench.protocol.channel import Closed, LineChannel, Silent
from ddlbench.protocol.codec import Malformed
from ddlbench.protocol.fork_messages import Start, Started, StartFiller, StartMember
from ddlbench.system.processes import Orphan, adopt_orphans, describe_exit, die_with_parent


class ForkServer:
    """A fork server, which starts at once and imports its framework while the caller continues.

    Args:
        argv: its command, as of `launch.bare.workers_argv`, or one that runs this in a container.
        environment: its variables, as of `launch.bare.workers_environment`.
        log: the file for its standard error; workers have logs of their own.

    Raises:
        DdlbenchError: the program is missing or cannot be run.
    """

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], *, log: Path) -> None:
        self._log = log
        adopt_orphans(True)
        log.parent.mkdir(parents=True, exist_ok=True)
        try:
            with log.open("ab") as stderr:
                self._logged_before = stderr.tell()
                self._process = subprocess.Popen(
                    argv,
                    env=environment,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    preexec_fn=die_with_parent,
                )
        except OSError as error:
            adopt_orphans(False)
            raise DdlbenchError(
                f"{argv[0]}, which starts the workers, cannot be run: {error.strerror}. If an environment has lost its "
                "interpreter, remove the environment's folder; the next start makes it again"
            ) from error
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._channel = LineChannel(self._process.stdout, self._process.stdin, kinds=(Started,))

    def start(self, start: Start, deadline: float) -> Orphan:
        """Fork a member, or the filler or a spinner of a host.

        Args:
            start: what to start.
            deadline: when the server must have answered, by `time.monotonic` in seconds.

        Returns:
            Its process, which this process has adopted.

        Raises:
            DdlbenchError: the server has died, has not answered in time, or something else than it has.
        """
        try:
            self._channel.send(start)
            return Orphan(self._channel.receive(max(0.0, deadline - monotonic())).pid)
        except Silent as error:
            raise DdlbenchError(f"the worker group took too long while starting{self._log_tail()}") from error
        except Closed as error:
            how = describe_exit(self._process.wait())
            raise DdlbenchError(f"{_name(start)} could not be started ({how}){self._log_tail()}") from error
        except Malformed as error:
            raise DdlbenchError(
                f"{_name(start)} could not be started: something printed where the fork server answers ({error}). "
                f"Does the environment's interpreter, or its image, print a greeting?{self._log_tail()}"
            ) from error

    def _log_tail(self) -> str:
        """The last lines that it has logged, indented."""
        return tail(self._log, self._logged_before)

    def is_alive(self) -> bool:
        """Whether the server can start more."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the server; its workers continue."""
        self._process.kill()
        self._process.wait()
        self._channel.close()
        adopt_orphans(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def namespace_path(descriptor: int | None) -> str | None:
    """Find the path by which other processes open a namespace of this one.

    Args:
        descriptor: of the namespace here; None for no namespace.

    Returns:
        A path in /proc; None for no namespace.
    """
    return None if descriptor is None else f"/proc/{os.getpid()}/fd/{descriptor}"


def _name(start: Start) -> str:
    if isinstance(start, StartMember):
        return f"rank {start.rank}"
    return f"the {'filler' if isinstance(start, StartFiller) else 'spinner'} of host {start.host}"
