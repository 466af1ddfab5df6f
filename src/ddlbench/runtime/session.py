"""One run, inside its sandbox: hosts, links and a worker group, and every repetition that its points still need.

python -m ddlbench.runtime.session JOB.json        (the first process of a sandbox; see `ddlbench.runtime.sweep`)
"""

import json
import random
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from time import monotonic
from typing import Any

from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.measurements.record import step_time_ms
from ddlbench.measurements.statistics import needs_repetition
from ddlbench.measurements.store import Store
from ddlbench.network.hosts import Host
from ddlbench.network.link import Link
from ddlbench.network.probe import Measured, Tolerances, verify
from ddlbench.network.star import Star
from ddlbench.runtime.bare import workers_argv, workers_environment
from ddlbench.runtime.fork_server import ForkServer
from ddlbench.runtime.group import Launch, Message, Timeouts, WorkerGroup
from ddlbench.runtime.progress import Progress

_RENDEZVOUS_PORT = 29500
_PRIVATE = Path("/run/ddlbench")
_TESTED = ("test_loss", "test_accuracy_percent")


@dataclass
class PendingPoint:
    """A point to measure, and the values (step times) that its repetitions gave so far."""

    point: dict[str, Any]
    fingerprint: str
    words: str
    number: int  # among all points of this invocation, from 1
    values: list[float]
    repetitions: int
    settled: bool = False

    @property
    def link(self) -> Link | None:
        """The link that it is measured on, None where no link is used."""
        if self.point["bandwidth_mbit"] is None:
            return None
        return Link(self.point["bandwidth_mbit"], self.point["latency_ms"], self.point["loss_percent"])

    @property
    def dataset(self) -> str:
        """The key of its data set: name and image shape."""
        return f"{self.point['dataset']}-{'x'.join(map(str, self.point['image_shape']))}"


@dataclass
class Clock:
    """Where the wall time of a session went, in seconds."""

    started: float = field(default_factory=monotonic)
    launch_s: float = 0.0
    probe_s: float = 0.0
    steps_s: float = 0.0

    def as_dict(self) -> dict[str, float]:
        """The sums, and the whole session's time."""
        return {
            "wall_s": monotonic() - self.started,
            "launch_s": self.launch_s,
            "probe_s": self.probe_s,
            "steps_s": self.steps_s,
        }


class Session:
    """A living worker group on its hosts, and what has been found out about its links."""

    def __init__(self, job: Mapping[str, Any], group: WorkerGroup, star: Star | None, clock: Clock) -> None:
        self.job = job
        self.group = group
        self.star = star
        self.clock = clock
        self.store = Store(job["store"])
        self.dilation: float = job["placement"]["dilation"]
        self.tolerances = Tolerances(**job["tolerances"])
        self.verified: dict[Link, Measured] = {}
        self.shaped: Link | None = None
        points = [each["point"] for each in job["points"]]
        self.models = [
            (name, list(shape))
            for name, shape in sorted({(point["model"], tuple(point["image_shape"])) for point in points})
        ]

    def connect(self) -> None:
        """Have the workers make connections and models, while the links are open."""
        if self.star and self.shaped:
            self.star.shape(None)
        self.group.connect(self.models)

    def measure(self, pending: PendingPoint) -> dict[str, Any]:
        """Measure one repetition of a point and keep it; returns the record."""
        point = pending.point
        started = datetime.now(UTC)
        link, is_new = self._shape(pending.link)
        prepared = self._prepared(pending)
        record: dict[str, Any] = {
            "schema": 1,
            "fingerprint": pending.fingerprint,
            "point": point,
            "repetition": pending.repetitions,
            "run": self.job["run"],
            "started": started.isoformat(),
            "dilation": self.dilation,
            "threads": self.job["placement"]["hosts"][0]["threads"],
            "warmup_steps": 0,
            "link": None,
            "provenance": {
                "dataset": self.job["datasets"][pending.dataset]["provenance"],
                "environment": self.job["environment"],
                "code": self.job["code"],
                "hosts": [self.job["facts"]] * point["workers"],
                "fabric": point["fabric"],
                "backend": self.star.backend.name if self.star else None,
            },
        }
        if all(answer["fits"] for answer in prepared):
            warmup_steps = self.job["measure"]["warmup_steps"] if is_new else 0
            record |= {"link": link, "warmup_steps": warmup_steps}
            record |= self._trained(pending, warmup_steps)
            record["parameter_count"] = prepared[0]["parameter_count"]
        else:
            record |= self._not_fitting(prepared)
        record["ended"] = datetime.now(UTC).isoformat()
        if self.star:
            self.star.backend.check()
        self.store.add(record)
        return record

    def _prepared(self, pending: PendingPoint) -> list[Message]:
        """Hand the point to the workers, each of which tries a step by itself."""
        began = monotonic()
        prepared = self.group.prepare(pending.point, pending.point["seed"] + pending.repetitions)
        if all(answer["fits"] for answer in prepared):
            self.clock.steps_s += monotonic() - began
        return prepared

    def _trained(self, pending: PendingPoint, warmup_steps: int) -> dict[str, Any]:
        began = monotonic()
        if warmup_steps:
            self.group.train(warmup_steps)
        total = self._training_steps(pending)
        reports = self.group.train(total or 1, from_fresh=True)
        times_ms = [report["step_times_ms"] for report in reports]
        if total is None and (more := self._affordable_steps(max(first for first, *_ in times_ms)) - 1) > 0:
            reports = self.group.train(more)
            times_ms = [
                first + report["step_times_ms"] for first, report in zip(times_ms, reports, strict=True)
            ]
        self.clock.steps_s += monotonic() - began
        ends = self.group.conclude(evaluate=pending.point["epochs"] > 0)
        hashes = [end["parameters_sha256"] for end in ends]
        if len(set(hashes)) > 1:
            raise DdlbenchError(
                f"{pending.words}: the ranks' parameters differ after synchronous training: {hashes}"
            )
        return {
            "status": "measured",
            "reason": None,
            "step_times_ms": times_ms,
            "metrics": self._metrics(reports) | {key: ends[0].get(key) for key in _TESTED},
            "parameters_sha256": hashes,
            "parameters_identical": True,
        }

    def _metrics(self, reports: list[Message]) -> dict[str, float | None]:
        """What the ranks report, averaged over them; times as they would be without dilation."""
        metrics: dict[str, float | None] = {"train_loss": _mean([report["train_loss"] for report in reports])}
        for name in ("forward_ms", "backward_ms", "communication_ms"):
            values = [report[name] for report in reports if report[name] is not None]
            metrics[name] = _mean(values) / self.dilation if values else None
        return metrics

    def _not_fitting(self, prepared: list[Message]) -> dict[str, Any]:
        hosts = [
            host["name"]
            for host, answer in zip(self.job["placement"]["hosts"], prepared, strict=True)
            if not answer["fits"]
        ]
        memory_gb = self.job["placement"]["hosts"][0]["memory_bytes"] / 2**30
        whose = "this machine's share" if self.job["placement"]["memory_reduced"] else "the study's host"
        return {
            "status": "does_not_fit",
            "reason": f"does not fit into {memory_gb:.3g} GB ({whose}) on {', '.join(hosts)}",
            "step_times_ms": [],
            "metrics": {},
            "parameter_count": None,
            "parameters_sha256": [],
            "parameters_identical": None,
        }

    def _shape(self, link: Link | None) -> tuple[dict[str, Any] | None, bool]:
        """Give the hosts their link, and see to it that it is what it should be; tells whether it is new.

        After a lossy link connections are made anew: what packet loss has taught TCP would slow it down for minutes.
        """
        if self.star is None or link is None:
            return None, False
        is_new = link != self.shaped
        if is_new:
            if self.shaped is not None and self.shaped.loss_percent > 0:
                self.connect()
            self.star.shape(link)
            self.shaped = link
        if link not in self.verified:
            began = monotonic()
            self.verified[link] = verify(self.star, link, self.tolerances)
            self.clock.probe_s += monotonic() - began
        return {
            "asked": link.as_dict(),
            "measured": self.verified[link].as_dict(),
            "backend": self.star.backend.name,
            "congestion_control": self.job["congestion_control"],
        }, is_new

    def _training_steps(self, pending: PendingPoint) -> int | None:
        """The steps of a whole training; None where only times are measured."""
        point = pending.point
        if point["epochs"] == 0:
            return None
        images: int = self.job["datasets"][pending.dataset]["train_images"]
        return int(point["epochs"] * (point["steps_per_epoch"] or ceil(images / point["batch_size"])))

    def _affordable_steps(self, step_ms: float) -> int:
        """As many steps as fit into the budget, within the configured bounds."""
        measure = self.job["measure"]
        affordable = int(measure["step_budget_s"] * 1000 / step_ms)
        return int(max(measure["min_steps"], min(measure["max_steps"], affordable)))


def sweep(session: Session, pending: list[PendingPoint], progress: Progress) -> None:
    """Measure the points in rounds until the stop rule is content with every point.

    A round takes the links in random order, and on each its points in random order. As a new link costs warm-up steps,
    it begins with the link on which the last one ended; so a slow drift of the machine favours no link either.
    """
    order = random.Random(session.job["measure"]["seed"])
    last: Link | None = None
    while todo := [each for each in pending if not each.settled]:
        order.shuffle(todo)
        links = list(dict.fromkeys(each.link for each in todo))
        links.sort(key=lambda link: link != last)
        for each in sorted(todo, key=lambda each: links.index(each.link)):
            try:
                record = session.measure(each)
            except DdlbenchError as error:
                raise DdlbenchError(f"{each.words}, repetition {each.repetitions + 1}: {error}") from error
            each.repetitions += 1
            if record["status"] == "measured":
                each.values.append(step_time_ms(record) or 0.0)
            measured = record["status"] == "measured"
            each.settled = not measured or not needs_repetition(each.values, session.job["measure"])
            progress.report(each.number, each.words, record, left_here=_repetitions_left(session, pending))
            last = each.link


def _repetitions_left(session: Session, pending: list[PendingPoint]) -> int:
    """How many more there will be at least: up to the minimum, and one for each point whose interval is too wide."""
    minimum = session.job["measure"]["min_repetitions"]
    return sum(max(1, minimum - each.repetitions) for each in pending if not each.settled)


def run(job: Mapping[str, Any]) -> None:
    """Do what the job says. Raises DdlbenchError; all that was measured before is kept."""
    clock = Clock()
    hosts = [Host(**{**host, "cores": tuple(host["cores"])}) for host in job["placement"]["hosts"]]
    pending = [PendingPoint(**each) for each in job["points"]]
    progress = Progress(**job["progress"])
    logs = Path(job["logs"])
    progress.say(f"starting {len(hosts)} worker{'s' * (len(hosts) > 1)} ({job['run']})")
    emulated = job["fabric"] == "emulated"
    with ExitStack() as stack:
        argv = workers_argv(job["python"], job["framework"])
        environment = workers_environment(
            job["inherited"], threads=hosts[0].threads, interface="eth0" if emulated else "lo"
        )
        server = stack.enter_context(ForkServer(argv, environment, log=logs / "fork_server.log"))
        star = None
        if emulated:
            star = stack.enter_context(_star(job, hosts))
        else:
            _raise_loopback()
        timeouts = Timeouts(**job["timeouts"])
        address = hosts[0].address if star else "127.0.0.1"
        launches = [
            Launch(host, star.namespaces[rank] if star else None, logs / f"rank{rank}.log")
            for rank, host in enumerate(hosts)
        ]
        jobs = [
            {
                "rank": rank,
                "world_size": len(hosts),
                "threads": host.threads,
                "core_share": host.core_share,
                "devices": job["devices"],
                "rendezvous": f"{address}:{_RENDEZVOUS_PORT}",
                "timeout_s": timeouts.prepare_s + timeouts.step_s,
                "datasets": {key: dataset["path"] for key, dataset in job["datasets"].items()},
            }
            for rank, host in enumerate(hosts)
        ]
        check = star.backend.check if star else lambda: None
        group = stack.enter_context(
            WorkerGroup(server, launches, jobs, control=_PRIVATE / "control", timeouts=timeouts, check=check)
        )
        server.close()
        session = Session(job, group, star, clock)
        session.connect()
        clock.launch_s = monotonic() - clock.started
        sweep(session, pending, progress)
    write_atomically(logs / "session.json", json.dumps(clock.as_dict()) + "\n")


def _star(job: Mapping[str, Any], hosts: list[Host]) -> Star:
    return Star(
        [host.address for host in hosts],
        congestion_control=job["congestion_control"],
        dilation=job["placement"]["dilation"],
    )


def _raise_loopback() -> None:
    """Set up the sandbox's own loopback interface, which is down at first."""
    from pyroute2 import IPRoute

    with IPRoute() as network:
        network.link("set", index=1, state="up")


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def main(job_path: str) -> int:
    """Run the job; an error is told in words, and its exit code returned."""
    job = json.loads(Path(job_path).read_text())
    # A file system of our own for sockets, gone with the sandbox.
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
    try:
        run(job)
    except DdlbenchError as error:
        print(f"run {job['run']}: {error}", file=sys.stderr, flush=True)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
