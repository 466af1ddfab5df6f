"""The supervisor's side of a fork server: one process in a framework's environment, from which workers are forked."""

import json
import os
import selectors
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Any, Self

from ddlbench.errors import DdlbenchError
from ddlbench.files import tail
from ddlbench.system.processes import Orphan, adopt_orphans, describe_exit, die_with_parent


class ForkServer:
    """Starts at once, and imports its framework while the caller does something else.

    `argv` and `environment` are those of `ddlbench.launch.bare`; `log` takes what is said before workers are forked.
    """

    def __init__(self, argv: Sequence[str], environment: Mapping[str, str], *, log: Path) -> None:
        self._log = log
        adopt_orphans(True)
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                argv,
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                preexec_fn=die_with_parent,
            )

    def start(self, order: Mapping[str, Any], deadline: float) -> Orphan:
        """Have a worker forked; `order` is what `ddlbench.workers.common.fork_server` reads.

        Raises DdlbenchError where the server has died, or has not answered when the clock (monotonic) says `deadline`.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(order).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # the answer, or that there is none, says the same
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(max(0.0, deadline - monotonic())):
                raise DdlbenchError(f"the worker group took too long while starting{tail(self._log)}")
        answer = self._process.stdout.readline()
        if not answer:
            how = describe_exit(self._process.wait())
            raise DdlbenchError(f"rank {order['rank']} could not be started ({how}){tail(self._log)}")
        return Orphan(int(answer))

    def close(self) -> None:
        """End the server; its workers go on."""
        self._process.kill()
        self._process.communicate()
        adopt_orphans(False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def namespace_path(descriptor: int | None) -> str | None:
    """Where another process finds a namespace that this one holds."""
    return None if descriptor is None else f"/proc/{os.getpid()}/fd/{descriptor}"
