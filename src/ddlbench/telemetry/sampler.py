"""The sampler: one process that reads the counters of all hosts of a run, in one pass, at regular moments.

    python -m ddlbench.telemetry.sampler JOB       (JSON: `SamplerJob`)

It receives a message at the begin and at the end of a repetition's timed steps, and answers each with what the hosts
have counted until then. What was read is parsed and written when a repetition has ended, and once a minute in a long
one. The sampler is not pinned to a core: the kernel runs it on any idle core, and hosts that wait for each other
leave some idle.
"""

import gc
import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from ddlbench.errors import exit_on_error
from ddlbench.files import write_atomically
from ddlbench.launch.gpus import GpuLoad, Gpus
from ddlbench.protocol.agent_messages import (
    TO_SAMPLER,
    BeginSteps,
    Edge,
    Edges,
    EndSteps,
    SamplerJob,
    SamplingCosts,
    TelemetryFile,
    WatchedHost,
)
from ddlbench.protocol.channel import Closed, LineChannel
from ddlbench.protocol.codec import read_text
from ddlbench.telemetry.counters import Counted, Counters, Raw, parse
from ddlbench.telemetry.load import Load
from ddlbench.telemetry.series import About, as_parquet

Row = dict[str, Any]  # of the table
_PART_S = 60.0  # of wall time: what a killed run loses at most


class Sample(NamedTuple):
    """What was read of one host at one moment.

    Attributes:
        number: of the pass over all hosts.
        time_s: since the session started, in the time of the hosts (wall time divided by the time dilation).
        counted: the counters of its network namespace; None if hosts share one.
        cpu_ns: the CPU time of its processes since they were started.
        memory_bytes: their resident memory.
        gpus: the load of its GPUs.
        point: the point whose steps are timed; None between repetitions.
        repetition: the repetition whose steps are timed; None between repetitions.
    """

    number: int
    time_s: float
    host: "Host"
    counted: Raw | None
    cpu_ns: int
    memory_bytes: int
    gpus: list[GpuLoad]
    point: str | None
    repetition: int | None


class Host:
    """A host: its processes, and the counters of its network namespace, if it has one of its own."""

    def __init__(self, watched: WatchedHost) -> None:
        self.name, self.role, self.gpu = watched.name, watched.role, watched.gpu
        self.load = Load(watched.pids)
        self.counters: Counters | None = None
        if watched.has_machine:
            self.counters = Counters(None)
        elif watched.namespace is not None:
            namespace = os.open(watched.namespace, os.O_RDONLY | os.O_CLOEXEC)
            self.counters = Counters(namespace)
            os.close(namespace)


class Sampler:
    """The hosts of a run, and the samples that are not written yet."""

    def __init__(self, job: SamplerJob) -> None:
        sampling = job.sampling
        self.clock_s, self.folder = job.clock_s, Path(sampling.folder)
        self.about = About(sampling.run, sampling.started, sampling.hertz, sampling.dilation, sampling.vcpus)
        self.hosts = [Host(watched) for watched in job.hosts]
        self.gpus = Gpus() if sampling.on_gpus else None
        self.dilation = sampling.dilation
        self.interval_s = self.dilation / sampling.hertz
        self.began = self.due = self.written = time.monotonic()
        self.imported_s = time.process_time()
        self.passes = 0
        self.lasted_s: list[float] = []  # each pass
        self.samples: list[Sample] = []
        self.parts: list[TelemetryFile] = []
        self.before = len(list(self.folder.glob("*.parquet")))  # parts of an earlier sampler
        self.of_this: list[TelemetryFile] = []  # the parts with this repetition's samples
        self.label: tuple[str | None, int | None] = (None, None)

    def sample(self) -> list[Sample]:
        """Read all hosts once."""
        gpus = self.gpus.read() if self.gpus else {}
        taken = []
        for host in self.hosts:
            counted = host.counters.read() if host.counters else None
            cpu_ns, memory_bytes = host.load.read()
            time_s = self._host_time_s(time.monotonic())
            own = [load for uuid, load in gpus.items() if host.gpu in (None, uuid)]
            taken.append(Sample(self.passes, time_s, host, counted, cpu_ns, memory_bytes, own, *self.label))
        self.passes += 1
        self.lasted_s.append((taken[-1].time_s - taken[0].time_s) * self.dilation)
        self.samples += taken
        return taken

    def tick(self) -> None:
        """Sample at a regular moment, and set the next one."""
        self.sample()
        now = time.monotonic()
        self.due += self.interval_s * max(1, -((self.due - now) // self.interval_s))
        if now - self.written > _PART_S:
            self.write()

    def reply(self, message: BeginSteps | EndSteps) -> Edge | Edges:
        """Sample at the begin or end of a repetition's timed steps.

        Args:
            message: which of the two it is.

        Returns:
            The hosts' counters at that moment; at the end also the parts of this repetition.
        """
        if isinstance(message, BeginSteps):
            for host in self.hosts:
                host.load.find_children()
            self.label, self.of_this = (message.point, message.repetition), []
            self.due = time.monotonic() + self.interval_s
            return self._edge(self.sample())
        taken = self.sample()
        self.label = (None, None)
        self.write()
        return Edges(self._edge(taken), self.of_this)

    def write(self) -> None:
        """Write the samples as the next part."""
        if self.samples:
            path = self.folder / f"{self.before + len(self.parts):05}.parquet"
            rows = [row for sample in self.samples for row in _rows(sample)]
            content = as_parquet(rows, {**asdict(self.about), **asdict(self.costs())})
            write_atomically(path, content)
            self.parts.append(TelemetryFile(str(path), sha256(content).hexdigest()))
            self.of_this.append(self.parts[-1])
            self.samples = []
        self.written = time.monotonic()

    def costs(self) -> SamplingCosts:
        """Return the CPU time of sampling so far, and how long a pass over the hosts takes, in wall time."""
        busy_s, lasted_s = time.process_time() - self.imported_s, time.monotonic() - self.began
        return SamplingCosts(
            sampler_start_s=round(self.imported_s, 6),
            sampler_cpu_s=round(busy_s, 6),
            sampler_core_percent=round(100 * busy_s / lasted_s, 4),
            passes=self.passes,
            pass_median_ms=round(1e3 * median(self.lasted_s), 4),
            pass_longest_ms=round(1e3 * max(self.lasted_s), 4),
        )

    def _host_time_s(self, moment: float) -> float:
        return (moment - self.clock_s) / self.dilation

    def _edge(self, taken: list[Sample]) -> Edge:
        """Return the counters of the hosts at the begin or end of a repetition's timed steps."""
        counted = {each.host.name: _in_all(parse(each.counted)) for each in taken if each.counted}
        return Edge(taken[0].time_s, counted)


def _rows(sample: Sample) -> Iterator[Row]:
    """Yield a row for each interface of the host; one row without an interface if hosts share theirs."""
    counted = parse(sample.counted) if sample.counted else None
    shared = {
        "pass": sample.number,
        "time_s": sample.time_s,
        "host": sample.host.name,
        "role": sample.host.role,
        "point": sample.point,
        "repetition": sample.repetition,
        "cpu_s": sample.cpu_ns / 1e9,
        "memory_bytes": sample.memory_bytes,
        "gpu_percent": [gpu.percent for gpu in sample.gpus] or None,
        "gpu_memory_bytes": [gpu.memory_bytes for gpu in sample.gpus] or None,
    }
    if counted is None:
        yield shared
        return
    for interface, traffic in counted.interfaces.items():
        yield {**shared, **_in_all(counted), "interface": interface, **traffic._asdict()}


def _in_all(counted: Counted) -> Row:
    return {name: value for name, value in counted._asdict().items() if name != "interfaces"}


def main(job: SamplerJob) -> None:
    """Sample until the supervisor closes the standard input, then write the last samples.

    Args:
        job: which hosts are sampled, how often, and where the parts go.
    """
    sampler = Sampler(job)
    gc.freeze()  # the collector need not search what was imported, which takes milliseconds each time
    channel: LineChannel[BeginSteps | EndSteps] = LineChannel(
        sys.stdin.buffer, sys.stdout.buffer, kinds=TO_SAMPLER
    )
    with suppress(Closed):
        while True:
            if not select.select([channel], [], [], max(0.0, sampler.due - time.monotonic()))[0]:
                sampler.tick()
            for message in channel.arrived():
                channel.send(sampler.reply(message))
    sampler.sample()
    sampler.write()
    with suppress(Closed):
        channel.send(sampler.costs())


if __name__ == "__main__":
    with exit_on_error():  # a full disk by its own status
        main(read_text(SamplerJob, sys.argv[1]))
