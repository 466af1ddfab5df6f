"""One run, inside its sandbox: hosts, links and a worker group, and every repetition that its points still need.

python -m ddlbench.sweep.session JOB.json        (the first process of a sandbox, or of a SLURM job; see `sweep`)
"""

import json
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from math import ceil
from pathlib import Path
from time import monotonic
from typing import Any

from ddlbench.cluster.agent_client import NodesTelemetry
from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.hosts.launch import Crew, launched
from ddlbench.launch.roles import worker_of
from ddlbench.launch.worker_group import LackedMemory, Message
from ddlbench.measurements.store import Store
from ddlbench.network.link import Link
from ddlbench.network.sites import Sites
from ddlbench.network.verify import Tolerances
from ddlbench.plan import point_id
from ddlbench.sweep.attempts import FAILURE, keep
from ddlbench.sweep.link_monitor import Drifted, Links
from ddlbench.sweep.progress import Progress
from ddlbench.sweep.rounds import PendingPoint, measure_in_rounds
from ddlbench.system.clock import Clock
from ddlbench.telemetry.telemetry import Telemetry, Watched, sampled

_TESTED = ("test_loss", "test_accuracy_percent")
_REPORTED = {  # what members report of their training, and whether it is a time on their host
    "train_loss": False,
    "forward_ms": True,
    "backward_ms": True,
    "communication_ms": True,
}
_OF_AN_ENVIRONMENT = (
    *("name", "runtime", "sha256", "python_version", "packages"),
    *("image", "image_id", "sif_sha256", "engine"),
)


class Session:
    """A living worker group on its hosts, and what has been found out about its links."""

    def __init__(self, job: Mapping[str, Any], crew: Crew, clock: Clock, stack: ExitStack) -> None:
        self.job = job
        self.crew = crew
        self.star = star = crew.star
        self.clock = clock
        self.is_connected = False
        self.is_cold = True  # nothing was trained yet by this group
        self._of_telemetry = stack.enter_context(ExitStack())
        self.telemetry = self._watch()
        self.store = Store(job["store"])
        self.dilation: float = job["placement"]["dilation"]
        self.links: Links | None = None
        if star:
            tolerances, recheck_s = Tolerances(**job["tolerances"]), job["measure"]["recheck_s"]
            self.links = Links(star, tolerances, recheck_s=recheck_s, clock=clock)
        self.kept: list[tuple[float, Path]] = []  # when, in seconds of the session
        points = [each["point"] for each in job["points"]]
        self.models = [
            (name, list(shape))
            for name, shape in sorted({(point["model"], tuple(point["image_shape"])) for point in points})
        ]

    def connect(self, runtime: str | None = None, *, anew: bool = False) -> None:
        """Have the workers make connections and models, while the links are open.

        New workers replace those that cannot make new connections, are in another runtime, or have died (`anew`).
        """
        runtime = runtime or self.crew.runtime
        anew = anew or runtime != self.crew.runtime
        if self.links:
            self.links.open()
        if self.is_connected and (anew or not all(each["reconnects"] for each in self.crew.group.ready)):
            self._of_telemetry.close()
            self.crew.renew(runtime)
            self.is_cold = True
            self.telemetry = self._watch()
        self.crew.group.connect(self.models)
        self.is_connected = True

    def _watch(self) -> Telemetry | NodesTelemetry | None:
        """Have the hosts watched that the group is on now; the role of a host is that of its first process."""
        namespaces = self.star.namespaces if self.star else [None] * len(self.crew.hosts)
        pids: dict[int, list[int]] = {}
        roles: dict[int, str] = {}
        for member, pid in zip(self.crew.members, self.crew.group.pids(), strict=True):
            pids.setdefault(member.host, []).append(pid)
            roles.setdefault(member.host, member.role)
        gpus = dict(enumerate(share.uuid for share in self.crew.gpus))
        watched = [
            Watched(self.crew.hosts[host].name, roles[host], namespaces[host], pids[host], gpu=gpus.get(host))
            for host in sorted(pids)
        ]
        watch = self.crew.nodes.sampled if self.crew.nodes else sampled
        return self._of_telemetry.enter_context(watch(self.job, watched, self.clock))

    def measure(self, pending: PendingPoint) -> dict[str, Any]:
        """Measure one repetition of a point and keep it; returns the record."""
        point = pending.point
        started = datetime.now(UTC)
        if point["runtime"] != self.crew.runtime:
            self.connect(point["runtime"])
        link, is_new = self._shape(pending.link)
        record: dict[str, Any] = {
            "schema": 1,
            "fingerprint": pending.fingerprint,
            "point": point,
            "repetition": pending.repetitions,
            "run": self.job["run"],
            "started": started.isoformat(),
            "dilation": self.dilation,
            "threads": self.job["placement"]["hosts"][0]["threads"],
            "slice_ms": self.crew.group.ready[0]["slice_ms"],
            "warmup_steps": 0,
            "link": None,
            "telemetry": None,
            "provenance": {
                "dataset": self.job["datasets"][pending.dataset]["provenance"],
                "environment": {
                    key: value
                    for key, value in self.job["environments"][point["runtime"]].items()
                    if key in _OF_AN_ENVIRONMENT
                },
                "code": self.job["code"],
                "hosts": self.crew.facts,
                **({"slurm": self.crew.nodes.provenance} if self.crew.nodes else {}),
                **({"gpus": self._gpus()} if self.job["devices"] == "gpu" else {}),
                "fabric": point["fabric"],
                "backend": self.star.backend.name if self.star else None,
            },
        }
        try:
            record |= self._repetition(pending, link, is_new)
        except LackedMemory as error:
            record |= _gap(str(error))
            self.connect(anew=True)
        record["ended"] = datetime.now(UTC).isoformat()
        self._confirm(record)
        path = keep(record, self.store, Path(self.job["logs"]), self.job["attempt"])
        self.kept.append((self.clock.now_s(), path))
        return record

    def _repetition(self, pending: PendingPoint, link: dict[str, Any] | None, is_new: bool) -> dict[str, Any]:
        """Train, if the point fits into the hosts' memory; what the record says of it."""
        prepared = self._prepared(pending)
        if not all(answer["fits"] for answer in prepared):
            return self._not_fitting(prepared)
        warmup_steps = self.job["measure"]["warmup_steps"] if is_new or self.is_cold else 0
        self.is_cold = False
        counts = (each["parameter_count"] for each in prepared if "parameter_count" in each)
        return {
            "link": link,
            "warmup_steps": warmup_steps,
            **self._trained(pending, warmup_steps),
            "parameter_count": next(counts),
        }

    def _prepared(self, pending: PendingPoint) -> list[Message]:
        """Hand the point to the workers, each of which tries a step by itself."""
        began = monotonic()
        prepared = self.crew.group.prepare(pending.point, pending.point["seed"] + pending.repetitions)
        if all(answer["fits"] for answer in prepared):
            self.clock.steps_s += monotonic() - began
        return prepared

    def _trained(self, pending: PendingPoint, warmup_steps: int) -> dict[str, Any]:
        began = monotonic()
        if warmup_steps:
            self.crew.group.train(warmup_steps)
        total = self._training_steps(pending)
        if self.telemetry:
            self.telemetry.begin(point_id(pending.point), pending.repetitions)
        reports = self.crew.group.train(total or 1, from_fresh=True)
        times_ms = _by_worker(reports)
        if total is None and (more := self._affordable_steps(max(first for first, *_ in times_ms)) - 1) > 0:
            reports = self.crew.group.train(more)
            times_ms = [first + later for first, later in zip(times_ms, _by_worker(reports), strict=True)]
        telemetry = self.telemetry.end(len(times_ms[0])) if self.telemetry else None
        self.clock.steps_s += monotonic() - began
        ends = self.crew.group.conclude(evaluate=pending.point["epochs"] > 0)
        hashes = [end["parameters_sha256"] for end in ends if "parameters_sha256" in end]
        if len(set(hashes)) > 1 and self.job["synchronous"]:
            raise DdlbenchError(
                f"{pending.words}: the ranks' parameters differ after synchronous training: {hashes}"
            )
        return {
            "status": "measured",
            "reason": None,
            "synchronous": self.job["synchronous"],
            "step_times_ms": times_ms,
            "telemetry": telemetry,
            "metrics": self._metrics(reports)
            | {key: _first(ends, key) for key in _TESTED}
            | {"startup_s": self.crew.startup_s},
            "parameters_sha256": hashes,
            "parameters_identical": len(set(hashes)) == 1,
        }

    def _metrics(self, reports: list[Message]) -> dict[str, float | None]:
        """What the ranks report, averaged over them; times as they would be without dilation."""
        metrics: dict[str, float | None] = {}
        for name, per_host_time in _REPORTED.items():
            values = [report[name] for report in reports if report.get(name) is not None]
            metrics[name] = _mean(values) / (self.dilation if per_host_time else 1) if values else None
        return metrics

    def _gpus(self) -> dict[str, Any]:
        """Each worker's GPU, where it is this machine's; how many workers are on one; the libraries there."""
        return {
            "of_workers": [asdict(share) for share in self.crew.gpus],
            "workers_per_gpu": max((share.workers for share in self.crew.gpus), default=1),
            "versions": self.crew.group.ready[0]["versions"],
        }

    def _not_fitting(self, prepared: list[Message]) -> dict[str, Any]:
        members = zip(self.crew.members, prepared, strict=True)
        hosts = [self.crew.hosts[member.host].name for member, answer in members if not answer["fits"]]
        memory_gb = self.job["placement"]["hosts"][0]["memory_bytes"] / 2**30
        whose = "this machine's share" if self.job["placement"]["memory_reduced"] else "the study's host"
        what = f"{memory_gb:.3g} GB ({whose})"
        if self.job["devices"] == "gpu":
            least = min((share.memory_bytes for share in self.crew.gpus), default=None)
            what = f"{'its GPU' if least is None else f'{least / 2**30:.3g} GB of its GPU'} or {what}"
        return _gap(f"does not fit into {what} on {', '.join(hosts)}")

    def _shape(self, link: Link | Sites | None) -> tuple[dict[str, Any] | None, bool]:
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
            "congestion_control": self.job["congestion_control"],
        }, is_new

    def _confirm(self, record: dict[str, Any]) -> None:
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


def _gap(reason: str) -> dict[str, Any]:
    """What the record of a point says that its hosts' memory is too small for."""
    return {
        "status": "does_not_fit",
        "reason": reason,
        "step_times_ms": [],
        "metrics": {},
        "parameter_count": None,
        "parameters_sha256": [],
        "parameters_identical": None,
    }


def run(job: Mapping[str, Any]) -> None:
    """Do what the job says. Raises DdlbenchError; all that was measured before is kept."""
    clock = Clock()
    pending = [PendingPoint(**each) for each in job["points"]]
    progress = Progress(**job["progress"])
    progress.say(f"starting {job['workers']} worker{'s' * (job['workers'] > 1)} ({job['run']})")
    datasets = {key: dataset["path"] for key, dataset in job["datasets"].items()}
    told = {"datasets": datasets, "strategy": job["strategy"]}
    with launched(job, worker_of(job["framework"], job["strategy"]), told) as crew, ExitStack() as stack:
        session = Session(job, crew, clock, stack)
        session.connect()
        clock.launch_s = monotonic() - clock.started
        measure_in_rounds(session, pending, progress)
    watched = session.telemetry
    where_time_went = {**clock.as_dict(), "telemetry": watched and watched.costs}
    write_atomically(Path(job["logs"]) / "session.json", json.dumps(where_time_went) + "\n")


def _by_worker(reports: list[Message]) -> list[list[float]]:
    """The step times of each worker; a member reports those of one, of several or of none."""
    return [times for report in reports for times in report["step_times_ms"]]


def _first(answers: list[Message], key: str) -> Any:
    return next((each[key] for each in answers if key in each), None)


def _mean(values: list[float]) -> float:
    return sum(values) / len(values)


def main(job_path: str) -> int:
    """Run the job; an error is told in words, and its exit code returned."""
    job = json.loads(Path(job_path).read_text())
    try:
        run(job)
    except DdlbenchError as error:
        print(f"run {job['run']}: {error}", file=sys.stderr, flush=True)
        write_atomically(Path(job["logs"]) / FAILURE, f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
