"""The telemetry of a session: it starts the sampler, and sends it a message at the begin and end of timed steps."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from ddlbench.errors import DdlbenchError, DiskFull
from ddlbench.files import tail
from ddlbench.launch.fork_starter import namespace_path
from ddlbench.protocol.agent_messages import (
    FROM_SAMPLER,
    BeginSteps,
    Edge,
    Edges,
    EndSteps,
    Sampled,
    SamplerJob,
    Sampling,
    SamplingCosts,
    WatchedHost,
)
from ddlbench.protocol.channel import Closed, LineChannel, Silent
from ddlbench.protocol.codec import written
from ddlbench.system.clock import Clock
from ddlbench.system.processes import describe_exit, die_with_parent

_ANSWER_S = 30.0


@dataclass(frozen=True)
class Watched:
    """A host to be sampled: as `WatchedHost`, but `namespace` is a file descriptor."""

    name: str
    role: str
    namespace: int | None
    pids: Sequence[int]
    has_machine: bool = False
    gpu: str | None = None


class RunTelemetry(Protocol):
    """The telemetry of a worker group, on one machine or on several."""

    def begin(self, point: str, repetition: int) -> None:
        """Note that the timed steps of a repetition begin.

        Args:
            point: the name of the point whose steps are timed; samples are labelled with it.
            repetition: its number.

        Raises:
            DdlbenchError: a sampler has died.
        """

    def end(self, steps: float) -> Sampled:
        """Note that the timed steps have ended.

        Args:
            steps: how many a worker has made on average.

        Returns:
            Where the samples are, and what each host has counted in a step.

        Raises:
            DdlbenchError: a sampler has died.
        """

    @property
    def costs(self) -> Mapping[str, object]:
        """The costs of sampling (`SamplingCosts`); empty until the sampler has ended."""


class Telemetry:
    """A sampler process that samples hosts of this machine, from the construction until `close`.

    Args:
        hosts: what to sample.
        sampling: how, and where the samples go.
        clock: of the session.
    """

    def __init__(self, hosts: Sequence[Watched], sampling: Sampling, clock: Clock) -> None:
        watched = [
            WatchedHost(
                host.name, host.role, namespace_path(host.namespace), host.pids, host.has_machine, host.gpu
            )
            for host in hosts
        ]
        self.costs: Mapping[str, object] = {}
        self._log = Path(sampling.log)
        self._opening = Edge(0.0, {})
        with self._log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "ddlbench.telemetry.sampler",
                    written(SamplerJob(watched, sampling, clock.started)),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                preexec_fn=die_with_parent,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._input = self._process.stdin
        self._channel: LineChannel[Edge | Edges | SamplingCosts] = LineChannel(
            self._process.stdout, self._input, kinds=FROM_SAMPLER
        )

    @property
    def pid(self) -> int:
        """The id of the sampler's process."""
        return self._process.pid

    def begin(self, point: str, repetition: int) -> None:
        """Note that the timed steps of a repetition begin.

        Args:
            point: the name of the point whose steps are timed; samples are labelled with it.
            repetition: its number.

        Raises:
            DdlbenchError: the sampler has died.
        """
        opening = self._ask(BeginSteps(point, repetition))
        assert isinstance(opening, Edge)
        self._opening = opening

    def end(self, steps: float) -> Sampled:
        """Note that the timed steps have ended.

        Args:
            steps: how many a worker has made on average.

        Returns:
            Where the samples are, and what each host has counted in a step.

        Raises:
            DdlbenchError: the sampler has died.
        """
        closing = self._ask(EndSteps(steps))
        assert isinstance(closing, Edges)
        before = self._opening.hosts
        return Sampled(
            closing.files,
            self._opening.time_s,
            closing.end.time_s,
            {
                host: {
                    f"{name}_per_step": (value - before[host][name]) / steps for name, value in after.items()
                }
                for host, after in closing.end.hosts.items()
            },
        )

    def close(self) -> None:
        """Let the sampler write its last samples and end."""
        try:
            self._input.close()
            costs = self._channel.receive(_ANSWER_S)
            assert isinstance(costs, SamplingCosts)
            self.costs = asdict(costs)
        except (Closed, Silent, BrokenPipeError):
            pass
        finally:
            self._process.kill()
            self._process.wait()
            self._channel.close()

    def _ask(self, message: BeginSteps | EndSteps) -> Edge | Edges | SamplingCosts:
        try:
            self._channel.send(message)
            return self._channel.receive(_ANSWER_S)
        except (Closed, Silent) as error:
            self._process.kill()
            status = self._process.wait()
            if status == DiskFull.exit_code:
                raise DiskFull(f"the telemetry's sampler:{tail(self._log)}") from error
            how = describe_exit(status)
            raise DdlbenchError(
                f"the telemetry's sampler (ddlbench.telemetry.sampler) died ({how}) or was silent for "
                f"{_ANSWER_S:.0f} s; `telemetry: {{enabled: false}}` measures without it{tail(self._log)}"
            ) from error


@contextmanager
def sampled(hosts: Sequence[Watched], sampling: Sampling, clock: Clock) -> Iterator[Telemetry]:
    """Sample hosts of this machine inside a `with` block.

    Args:
        hosts: what to sample.
        sampling: how, and where the samples go.
        clock: of the session.

    Yields:
        The telemetry; its costs are known after the `with`.
    """
    telemetry = Telemetry(hosts, sampling, clock)
    try:
        yield telemetry
    finally:
        telemetry.close()
