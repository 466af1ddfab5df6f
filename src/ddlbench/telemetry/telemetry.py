"""The telemetry of a session: a sampler beside it, and what it has seen of each repetition's timed steps."""

import json
import selectors
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ddlbench.errors import DdlbenchError
from ddlbench.files import tail
from ddlbench.launch.fork_starter import namespace_path
from ddlbench.system.clock import Clock
from ddlbench.system.processes import describe_exit, die_with_parent
from ddlbench.telemetry.series import About

_ANSWER_S = 30.0


@dataclass(frozen=True)
class Watched:
    """A host to be watched: its name and role, its network namespace (None: it has none of its own), its processes.

    has_machine: the host is this machine, whose network is its own. gpu: the UUID of its GPU (None: it has all).
    """

    name: str
    role: str
    namespace: int | None
    pids: Sequence[int]
    has_machine: bool = False
    gpu: str | None = None


class Telemetry:
    """A sampler that watches hosts from now on, and writes to `folder`; `log` takes what it says."""

    def __init__(
        self, hosts: Sequence[Watched], about: About, *, clock: Clock, on_gpus: bool, folder: str, log: Path
    ) -> None:
        job = {
            "hosts": [{**asdict(host), "namespace": namespace_path(host.namespace)} for host in hosts],
            "about": asdict(about),
            "clock": clock.started,
            "on_gpus": on_gpus,
            "folder": folder,
        }
        self.costs: dict[str, Any] = {}  # what sampling has cost, once it has ended
        self._log = log
        self._opening: dict[str, Any] = {}
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "ddlbench.telemetry.sampler", json.dumps(job)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                text=True,
                preexec_fn=die_with_parent,
            )

    @property
    def pid(self) -> int:
        """The sampler's process."""
        return self._process.pid

    def begin(self, point: str, repetition: int) -> None:
        """The timed steps of a repetition begin now."""
        self._opening = self._told({"do": "begin", "point": point, "repetition": repetition})

    def end(self, steps: int) -> dict[str, Any]:
        """They have ended: where their telemetry lies, and what each host has sent and received in a step.

        Raises DdlbenchError where the sampler has died.
        """
        opening, closing = self._opening, self._told({"do": "end"})
        before = opening["hosts"]
        return {
            "files": closing["parts"],
            "begin_s": opening["time_s"],
            "end_s": closing["time_s"],
            "hosts": {
                host: {
                    f"{name}_per_step": (value - before[host][name]) / steps for name, value in after.items()
                }
                for host, after in closing["hosts"].items()
            },
        }

    def close(self) -> None:
        """Let the sampler write what is left, and end."""
        try:
            answer, _ = self._process.communicate(timeout=_ANSWER_S)
            self.costs = json.loads(answer or "{}")
        except subprocess.TimeoutExpired:
            pass
        finally:
            self._process.kill()
            self._process.wait()

    def _told(self, order: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # that there is no answer says the same
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            answer = self._process.stdout.readline() if selector.select(_ANSWER_S) else ""
        if not answer:
            self._process.kill()
            how = describe_exit(self._process.wait())
            raise DdlbenchError(
                f"the sampler (ddlbench.telemetry.sampler) died ({how}) or was silent for {_ANSWER_S:.0f} s; "
                f"`telemetry: {{enabled: false}}` measures without it{tail(self._log)}"
            )
        told: dict[str, Any] = json.loads(answer)
        return told


@contextmanager
def sampled(job: Mapping[str, Any], hosts: Sequence[Watched], clock: Clock) -> Iterator[Telemetry | None]:
    """Watch the hosts of a session's job, unless its configuration says not to."""
    if not job["telemetry"]["enabled"]:
        yield None
        return
    about = About(
        run=job["run"],
        started=job["telemetry"]["started"],
        hertz=job["telemetry"]["hertz"],
        dilation=job["placement"]["dilation"],
        vcpus=job["points"][0]["point"]["vcpus"],
    )
    telemetry = Telemetry(
        hosts,
        about,
        clock=clock,
        on_gpus=job["devices"] == "gpu",
        folder=job["telemetry"]["folder"],
        log=Path(job["logs"]) / "sampler.log",
    )
    try:
        yield telemetry
    finally:
        telemetry.close()
