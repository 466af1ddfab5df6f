"""One run, inside its sandbox: hosts, links and a worker group, and every repetition that its points still need.

python -m ddlbench.sweep.session JOB.json        (the first process of a sandbox, or of a SLURM job; see `sweep`)
"""

import json
import sys
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from time import monotonic

from ddlbench.environments.runtime_environment import OF_A_RECORD
from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.hosts.group_on_hosts import GroupOnHosts, launched
from ddlbench.launch.group_member import LackedMemory
from ddlbench.measurements.record import Record
from ddlbench.measurements.store import Store
from ddlbench.network.link import Link
from ddlbench.network.sites import Sites
from ddlbench.plan import Point, point_id
from ddlbench.protocol.agent_messages import Sampling
from ddlbench.protocol.codec import read_text
from ddlbench.protocol.messages import ModelShape, Prepared, TrainingPoint
from ddlbench.sweep.attempts import FAILURE, keep
from ddlbench.sweep.link_monitor import Drifted, Links
from ddlbench.sweep.progress import Progress
from ddlbench.sweep.repetition import metrics, not_fitting, step_times_ms
from ddlbench.sweep.rounds import PendingPoint, measure_in_rounds
from ddlbench.sweep.session_job import SessionJob
from ddlbench.system.clock import Clock
from ddlbench.telemetry.telemetry import RunTelemetry, Watched


class Session:
    """A living worker group on its hosts, and what has been found out about its links."""

    def __init__(self, job: SessionJob, group: GroupOnHosts, clock: Clock, stack: ExitStack) -> None:
        self.job = job
        self.group = group
        self.star = group.hosts.star
        self.clock = clock
        self.is_connected = False
        self.is_cold = True  # nothing was trained yet by this group
        self._of_telemetry = stack.enter_context(ExitStack())
        self.telemetry = self._watch()
        self.store = Store(job.store)
        self.dilation = job.group.placement.dilation
        self.links: Links | None = None
        if self.star:
            recheck_s = job.measure.recheck_s
            self.links = Links(self.star, job.tolerances, recheck_s=recheck_s, clock=clock)
        self.kept: list[tuple[float, Path]] = []  # when, in seconds of the session
        points = [Point.from_dict(each.point) for each in job.points]
        models = sorted({(point.model, point.image_shape) for point in points})
        self.models = [ModelShape(model, _shape(shape)) for model, shape in models]

    @property
    def runtime(self) -> str:
        """What the group runs in now."""
        return self.group.runtime

    def connect(self, runtime: str | None = None, *, anew: bool = False) -> None:
        """Have the workers make connections and models, while the links are open.

        New workers replace those that cannot make new connections, are in another runtime, or have died (`anew`).
        """
        runtime = runtime or self.runtime
        anew = anew or runtime != self.runtime
        if self.links:
            self.links.open()
        if self.is_connected and (anew or not all(each.reconnects for each in self.group.group.ready)):
            self._of_telemetry.close()
            self.group.renew(runtime)
            self.is_cold = True
            self.telemetry = self._watch()
        self.group.group.connect(self.models)
        self.is_connected = True

    def _watch(self) -> RunTelemetry | None:
        """Have the hosts watched that the group is on now; the role of a host is that of its first process."""
        settings, of_group = self.job.telemetry, self.job.group
        if not settings.enabled:
            return None
        pids: dict[int, list[int]] = {}
        roles: dict[int, str] = {}
        for member, pid in zip(self.group.members, self.group.group.pids(), strict=True):
            pids.setdefault(member.host, []).append(pid)
            roles.setdefault(member.host, member.role)
        gpus = dict(enumerate(share.uuid for share in self.group.gpus))
        hosts = self.group.hosts
        watched = [
            Watched(
                hosts.hosts[host].name, roles[host], hosts.namespaces[host], pids[host], gpu=gpus.get(host)
            )
            for host in sorted(pids)
        ]
        sampling = Sampling(
            run=of_group.run,
            started=settings.started,
            hertz=settings.hertz,
            dilation=of_group.placement.dilation,
            vcpus=Point.from_dict(self.job.points[0].point).vcpus,
            on_gpus=of_group.devices == "gpu",
            folder=settings.folder,
            log=str(Path(of_group.logs) / "sampler.log"),
        )
        return self._of_telemetry.enter_context(hosts.sampled(watched, sampling, self.clock))

    def measure(self, pending: PendingPoint) -> Record:
        """Measure one repetition of a point and keep it; returns the record."""
        started = datetime.now(UTC)
        if pending.point.runtime != self.runtime:
            self.connect(pending.point.runtime)
        link, is_new = self._make(pending.link)
        record: Record = {
            "schema": 1,
            "fingerprint": pending.fingerprint,
            "point": pending.point.as_dict(),
            "repetition": pending.repetitions,
            "run": self.job.group.run,
            "started": started.isoformat(),
            "dilation": self.dilation,
            "threads": self.job.group.placement.hosts[0].threads,
            "slice_ms": self.group.group.ready[0].slice_ms,
            "warmup_steps": 0,
            "link": None,
            "telemetry": None,
            "provenance": self._provenance(pending.point),
        }
        try:
            record |= self._repetition(pending, link, is_new)
        except LackedMemory as error:
            record |= not_fitting(str(error))
            self.connect(anew=True)
        record["ended"] = datetime.now(UTC).isoformat()
        self._confirm(record)
        path = keep(record, self.store, Path(self.job.group.logs), self.job.attempt)
        self.kept.append((self.clock.now_s(), path))
        return record

    def _provenance(self, point: Point) -> dict[str, object]:
        """What the repetition is made from, and where."""
        dataset = self.job.datasets[point.dataset_key]
        environment = asdict(self.job.group.environments[point.runtime])
        return {
            "dataset": {"name": dataset.name, "sha256": dataset.sha256},
            "environment": {key: environment[key] for key in OF_A_RECORD if environment[key] is not None},
            "code": self.job.code,
            "hosts": list(self.group.hosts.facts),
            **self.group.hosts.provenance,
            **({"gpus": self._gpus()} if self.job.group.devices == "gpu" else {}),
            "fabric": point.fabric,
            "backend": self.star.backend.name if self.star else None,
        }

    def _repetition(
        self, pending: PendingPoint, link: dict[str, object] | None, is_new: bool
    ) -> dict[str, object]:
        """Train, if the point fits into the hosts' memory; what the record says of it."""
        prepared = self._prepared(pending)
        if not all(reply.fits for reply in prepared):
            return self._not_fitting(prepared)
        warmup_steps = self.job.measure.warmup_steps if is_new or self.is_cold else 0
        self.is_cold = False
        counts = (each.parameter_count for each in prepared if each.parameter_count is not None)
        return {
            "link": link,
            "warmup_steps": warmup_steps,
            **self._trained(pending, warmup_steps),
            "parameter_count": next(counts),
        }

    def _prepared(self, pending: PendingPoint) -> list[Prepared]:
        """Hand the point to the workers, each of which tries a step by itself."""
        began = monotonic()
        seed = pending.point.seed + pending.repetitions
        prepared = self.group.group.prepare(training_point(pending.point), seed)
        if all(reply.fits for reply in prepared):
            self.clock.steps_s += monotonic() - began
        return prepared

    def _trained(self, pending: PendingPoint, warmup_steps: int) -> dict[str, object]:
        group = self.group.group
        began = monotonic()
        if warmup_steps:
            group.train(warmup_steps)
        total = self._training_steps(pending.point)
        if self.telemetry:
            self.telemetry.begin(point_id(pending.point), pending.repetitions)
        reports = group.train(total or 1, from_fresh=True)
        times_ms = step_times_ms(reports)
        if total is None and (more := self._affordable_steps(max(first for first, *_ in times_ms)) - 1) > 0:
            reports = group.train(more)
            times_ms = [first + later for first, later in zip(times_ms, step_times_ms(reports), strict=True)]
        sampled = self.telemetry.end(len(times_ms[0])) if self.telemetry else None
        self.clock.steps_s += monotonic() - began
        ends = group.conclude(evaluate=pending.point.epochs > 0)
        hashes = [end.parameters_sha256 for end in ends if end.parameters_sha256]
        if len(set(hashes)) > 1 and self.job.synchronous:
            raise DdlbenchError(
                f"{pending.words}: the ranks' parameters differ after synchronous training: {hashes}"
            )
        return {
            "status": "measured",
            "reason": None,
            "synchronous": self.job.synchronous,
            "step_times_ms": times_ms,
            "telemetry": sampled and asdict(sampled),
            "metrics": metrics(reports, ends, dilation=self.dilation, startup_s=self.group.startup_s),
            "parameters_sha256": hashes,
            "parameters_identical": len(set(hashes)) == 1,
        }

    def _gpus(self) -> dict[str, object]:
        """Each worker's GPU, where it is this machine's; how many workers are on one; the libraries there."""
        return {
            "of_workers": [asdict(share) for share in self.group.gpus],
            "workers_per_gpu": max((share.workers for share in self.group.gpus), default=1),
            "versions": dict(self.group.group.ready[0].versions),
        }

    def _not_fitting(self, prepared: list[Prepared]) -> dict[str, object]:
        members = zip(self.group.members, prepared, strict=True)
        hosts = [self.group.hosts.hosts[member.host].name for member, reply in members if not reply.fits]
        placement = self.job.group.placement
        whose = "this machine's share" if placement.memory_reduced else "the study's host"
        what = f"{placement.hosts[0].memory_bytes / 2**30:.3g} GB ({whose})"
        if self.job.group.devices == "gpu":
            least = min((share.memory_bytes for share in self.group.gpus), default=None)
            what = f"{'its GPU' if least is None else f'{least / 2**30:.3g} GB of its GPU'} or {what}"
        return not_fitting(f"does not fit into {what} on {', '.join(hosts)}")

    def _make(self, link: Link | Sites | None) -> tuple[dict[str, object] | None, bool]:
        """Give the hosts their link, and see to it that it is what it should be; tells whether it is new.

        After a lossy link connections are made anew: what packet loss has taught TCP would slow it down for minutes.
        """
        if self.star is None or self.links is None or link is None:
            return None, False
        is_new = link != self.links.made
        if is_new and self.links.made is not None and self.links.made.is_lossy:
            self.connect()
        return {
            "asked": link.as_dict(),
            "measured": self.links.make(link),
            "rechecked": None,
            "backend": self.star.backend.name,
            "congestion_control": self.job.group.congestion_control,
        }, is_new

    def _confirm(self, record: Record) -> None:
        """See to it that the link is still what it was; what cannot be sure of its link does not count.

        Such a repetition is not simply measured again: what has changed a link, and is not a busy moment, which the
        check has waited for, will do so again, and must be found by a person.
        """
        if self.links is None or record["link"] is None:
            return
        try:
            record["link"]["rechecked"] = self.links.check()
        except Drifted:
            for when_s, path in self.kept:
                if when_s > self.links.right_at_s:
                    self.store.withdraw(path, "a link has drifted before it was checked again")
            raise

    def _training_steps(self, point: Point) -> int | None:
        """The steps of a whole training; None where only times are measured."""
        if point.epochs == 0:
            return None
        images = self.job.datasets[point.dataset_key].train_images
        return point.epochs * (point.steps_per_epoch or ceil(images / point.batch_size))

    def _affordable_steps(self, step_ms: float) -> int:
        """As many steps as fit into the budget, within the configured bounds."""
        measure = self.job.measure
        return max(measure.min_steps, min(measure.max_steps, int(measure.step_budget_s * 1000 / step_ms)))


def training_point(point: Point) -> TrainingPoint:
    """What workers must know of a point."""
    return TrainingPoint(
        point.model,
        _shape(point.image_shape),
        point.dataset,
        point.batch_size,
        point.learning_rate,
        point.momentum,
    )


def run(job: SessionJob) -> None:
    """Do what the job says. Raises DdlbenchError; all that was measured before is kept."""
    clock = Clock()
    pending = [PendingPoint.of(each) for each in job.points]
    progress = Progress(job.progress.points, job.progress.elsewhere)
    workers = pending[0].point.workers
    progress.say(f"starting {workers} worker{'s' * (workers > 1)} ({job.group.run})")
    with launched(job.group) as group, ExitStack() as stack:
        session = Session(job, group, clock, stack)
        session.connect()
        clock.launch_s = monotonic() - clock.started
        measure_in_rounds(session, pending, job.measure, progress)
    costs = session.telemetry.costs if session.telemetry else None
    where_time_went = {**clock.as_dict(), "telemetry": costs}
    write_atomically(Path(job.group.logs) / "session.json", json.dumps(where_time_went) + "\n")


def _shape(shape: tuple[int, ...]) -> tuple[int, int, int]:
    height, width, channels = shape
    return height, width, channels


def main(job_path: str) -> int:
    """Run the job; an error is told in words, and its exit code returned."""
    job = read_text(SessionJob, Path(job_path).read_text())
    try:
        run(job)
    except DdlbenchError as error:
        print(f"run {job.group.run}: {error}", file=sys.stderr, flush=True)
        write_atomically(Path(job.group.logs) / FAILURE, f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
