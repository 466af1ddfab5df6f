"""One run, inside its sandbox: hosts, links and a worker group, and every repetition that its points still need.

python -m ddlbench.sweep.session JOB.json        (the first process of a sandbox; for nodes of SLURM's, in no sandbox)
"""

import json
import sys
from contextlib import ExitStack
from dataclasses import asdict
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic

from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.hosts.group_on_hosts import GroupOnHosts, launched
from ddlbench.launch.group_member import LackedMemory, WorkerStalled
from ddlbench.measurements.record import Record
from ddlbench.measurements.store import Store
from ddlbench.network.sites import HostLinks
from ddlbench.plan import Point, point_id
from ddlbench.plan.catalogue import BETWEEN_MACHINES
from ddlbench.protocol.codec import read_text
from ddlbench.protocol.messages import Prepared
from ddlbench.sweep.attempts import keep, tell_failure
from ddlbench.sweep.conditions import conditions
from ddlbench.sweep.core_use import NOT_KNOWN, CoreUse, check_shares, shares_of
from ddlbench.sweep.held_models import HeldModels
from ddlbench.sweep.host_sampling import HostSampling
from ddlbench.sweep.link_monitor import Drifted, Links
from ddlbench.sweep.measured_dilation import dilated, slowest_replay_ms
from ddlbench.sweep.own_work import own_work_percent
from ddlbench.sweep.progress import Progress
from ddlbench.sweep.repetition import lacked_memory, not_fitting, stalled_at_once, trained, training_point
from ddlbench.sweep.rounds import KeptRepetition, PendingPoint, measure_in_rounds
from ddlbench.sweep.session_job import SPENT, SessionJob
from ddlbench.sweep.stagger import Stagger
from ddlbench.sweep.steps import is_cold_for, parts_of_test, planned_steps, steps_of_training, train, warm_up
from ddlbench.sweep.undisturbed import despite_crash, dilated_enough, in_fresh_memory, patience_s, undisturbed
from ddlbench.system.clock import Clock


class Session:
    """A living worker group on its hosts, and the state of its links."""

    def __init__(self, job: SessionJob, group: GroupOnHosts, clock: Clock, stack: ExitStack) -> None:
        self.job = job
        self.group = group
        self.clock = clock
        self.runtime = group.runtime  # what the group runs in now
        self.is_connected = False
        self.is_cold = True  # nothing was trained yet over these connections
        self.is_stalled = False  # the group makes no steps any more
        self.launched = datetime.now(UTC).isoformat()  # the name of this launch in records
        self.used_launch: str | None = None  # the launch of which something was measured last
        self.sampling = HostSampling(job, group, clock, stack)
        self._sample(job.group.placement.dilation)
        self.store = Store(job.store)
        patience, recheck_s = patience_s(job.other_measurements), job.measure.recheck_s
        self.links: Links | None = None
        if star := group.hosts.star:
            self.links = Links(star, job.tolerances, recheck_s=recheck_s, clock=clock, patience_s=patience)
        self.trained_s = 0.0  # when the last repetition ended, in seconds of the session
        self.kept: list[KeptRepetition] = []
        self.models = HeldModels([Point.from_dict(each.point) for each in job.points])

    def connect(self, runtime: str | None = None, *, restart: bool = False) -> None:
        """Make the workers connect to each other and build their models, while the links are open.

        Models that their hosts lack memory for are given up, the largest first.

        Args:
            runtime: the group to connect is in this one; None: in the present one.
            restart: start a new group, as after a worker has died. Else this is done if the runtime differs, or if the
                workers cannot make new connections.
        """
        runtime = runtime or self.runtime
        restart = restart or runtime != self.runtime
        if self.links:
            self.links.open()
        if self.is_connected and (restart or not all(each.reconnects for each in self.group.group.ready)):
            self._renew(runtime)
        self.is_connected = self.is_cold = True
        self.is_stalled = False
        self.models.made_to_fit(self._build, partial(self._renew, runtime))

    def _build(self) -> None:
        if self.models.shapes:
            self.group.group.connect(self.models.shapes, self.dilation)

    def _renew(self, runtime: str) -> None:
        self.sampling.end()
        self.group.renew(runtime)
        self.runtime = runtime
        self.launched = datetime.now(UTC).isoformat()
        self._sample(self.dilation)

    def choose_dilation(self) -> None:
        """Choose each point's time dilation, where that was left to measurement, by steps that may lack memory, too."""
        again = partial(self.connect, restart=True)
        self.job = self.models.made_to_fit(lambda: dilated(self.job, self.group, self.models.points), again)
        if chosen := sorted(set(self.job.dilations.values())):
            factors = ", ".join(f"{each:g}" for each in chosen)
            print(f"time dilation {factors}, by what moving bytes costs here", file=sys.stderr, flush=True)
            self._sample(self.job.group.placement.dilation)

    def dilate(self, dilation: float) -> None:
        """Let time run at another rate from now on, with new connections: after loss, or where workers can make them.

        Args:
            dilation: the factor.
        """
        if dilation == self.dilation:
            return
        was_lossy = self.links is not None and self.links.is_lossy
        if self.links:
            self.links.open()
        self.group.dilate(dilation, slowest_replay_ms(self.job))
        self._sample(dilation)
        if was_lossy or all(each.reconnects for each in self.group.group.ready):
            self.connect()

    def relaunch(self) -> None:
        """Start a new group in the same runtime; if a worker crashes meanwhile, start once more."""
        began, start = monotonic(), partial(self.connect, restart=True)
        despite_crash(start, lambda: None)
        self.clock.relaunch_s += monotonic() - began

    def _sample(self, dilation: float) -> None:
        """Sample the hosts of the current group, where time is dilated so much."""
        self.dilation = dilation
        self.sampling.begin(dilation)

    def measure(self, pending: PendingPoint) -> Record:
        once = partial(despite_crash, partial(self._record, pending), self.relaunch)
        enough = partial(dilated_enough, once, pending, self.job.group.placement)
        quiet = partial(undisturbed, enough, self.job.other_measurements, self.job.tolerances)
        is_held = self.models.why_not(pending.point) is None  # new workers could not hold it either
        record = in_fresh_memory(quiet, self.used_launch, self.relaunch) if is_held else quiet()
        self.used_launch = record["launch"] if is_held else self.used_launch
        path = keep(record, self.store, Path(self.job.group.logs), self.job.attempt)
        self.kept.append(KeptRepetition(pending, record, path, self.trained_s))
        return record

    def _record(self, pending: PendingPoint) -> Record:
        """Measure a repetition once; the record is not kept yet."""
        started = datetime.now(UTC).isoformat()
        if self.is_stalled or pending.point.runtime != self.runtime:
            self.connect(pending.point.runtime, restart=self.is_stalled)
        self.dilate(pending.dilation)
        link, is_new = self._make(pending.link)
        record: Record = {
            "schema": 1,
            **conditions(self.job, self.group, pending),
            "launch": self.launched,
            "started": started,
            "warmup_steps": 0,
            "link": None,
            "telemetry": None,
        }
        try:
            record |= self._repetition(pending, link, is_new)
        except LackedMemory as error:
            record |= not_fitting(str(error))
            self.connect(restart=True)
        except WorkerStalled as error:
            record |= stalled_at_once(pending.point, link, error, self.job.group.timeouts)
        self.is_stalled = record.get("stalled_s") is not None
        if self.is_stalled:  # what waits in its connections would disturb the check of the link
            self.group.group.kill(range(len(self.group.members)))
        record["ended"] = datetime.now(UTC).isoformat()
        self.trained_s = self.clock.now_s()  # before the link is checked, which then holds for this one, too
        self._confirm(record)
        return record

    def _repetition(
        self, pending: PendingPoint, link: dict[str, object] | None, is_new: bool
    ) -> dict[str, object]:
        """Train, if the point fits into the hosts' memory; return this part of the record."""
        if why_not := self.models.why_not(pending.point):
            return not_fitting(why_not)
        prepared = self._prepared(pending)
        if not all(reply.fits for reply in prepared):
            return not_fitting(lacked_memory(self.job.group, self.group, prepared))
        is_cold = is_cold_for(pending.point, new_link=is_new, new_connections=self.is_cold)
        self.is_cold = False
        counts = (each.parameter_count for each in prepared if each.parameter_count is not None)
        with self.group.fillers.running():
            of_training = self._trained(pending, is_cold=is_cold)
        return {"link": link, **of_training, "parameter_count": next(counts)}

    def _prepared(self, pending: PendingPoint) -> list[Prepared]:
        """Send the point to the workers; each tries one step alone."""
        began = monotonic()
        point = training_point(pending.point, pending.dilation, repetition=pending.repetition)
        prepared = self.group.group.prepare(point, pending.point.seed + pending.repetition)
        if all(reply.fits for reply in prepared):
            self.clock.steps_s += monotonic() - began
        return prepared

    def _trained(self, pending: PendingPoint, *, is_cold: bool) -> dict[str, object]:
        """Train as many steps as each repetition of the point has; the first time, find out how many that is."""
        group, measure, began = self.group.group, self.job.measure, monotonic()
        warmup_steps = warm_up(group, measure) if is_cold else 0
        dataset = self.job.datasets[pending.point.dataset_key]
        whole = steps_of_training(pending.point, dataset.train_images)
        if whole is None and pending.steps is None:
            pending.steps, pilot_steps = planned_steps(group, measure, pending.point, pending.dilation)
            warmup_steps += pilot_steps
        steps = whole or pending.steps or 1
        if telemetry := self.sampling.telemetry:
            telemetry.begin(point_id(pending.point), pending.repetition)
        use = CoreUse(self.group) if self.job.group.fabric not in BETWEEN_MACHINES else None
        stagger = Stagger.of(pending.point, pending.dilation)
        made = train(group, steps, budget_s=None if whole else measure.step_budget_s, stagger=stagger)
        used = use.since_start() if use else NOT_KNOWN
        sampled = telemetry.end(made.steps_of_a_worker) if telemetry else None
        self.clock.steps_s += monotonic() - began
        parts = parts_of_test(pending.point, dataset.test_images)
        is_tested = pending.point.epochs > 0
        ends = group.conclude(evaluate=is_tested, parts=parts) if made.stalled_s is None else []
        return {
            **trained(made, ends, pending.dilation, self.group.startup_s, synchronous=self.job.synchronous),
            "own_work_percent": own_work_percent(self.job, pending, made, used),
            "warmup_steps": warmup_steps + made.uncounted_steps,
            "planned_steps": steps,
            **used,
            **shares_of(self.group, self.job.tolerances),
            "telemetry": sampled and asdict(sampled),
        }

    def _make(self, link: HostLinks | None) -> tuple[dict[str, object] | None, bool]:
        """Shape and check the hosts' link; return its part of the record (None: not emulated) and whether it is new."""
        if self.links is None or link is None:
            return None, False
        is_new = link != self.links.made
        if is_new and self.links.is_lossy:
            self.connect()  # TCP remembers the loss, and old connections would be slow for minutes
        return {**self.links.record_of(link), "congestion_control": self.job.group.congestion_control}, is_new

    def _confirm(self, record: Record) -> None:
        """Raise Drifted if the link has changed, after withdrawing the records since the last good check."""
        if self.links is None or record["link"] is None:
            return
        try:
            record["link"]["rechecked"] = self.links.check()
        except Drifted:
            while self.kept and self.kept[-1].ended_s > self.links.right_at_s:
                self.kept.pop().withdraw(self.store, "a link has drifted before it was checked again")
            raise  # the check waited for a busy moment to pass: more dilation may help, or a person finds the cause


def run(job: SessionJob) -> None:
    """Measure the points of a job.

    Args:
        job: the worker group, its hosts and at least one point.

    Raises:
        DdlbenchError: a repetition failed; earlier ones are kept.
    """
    clock = Clock()
    progress = Progress(job.progress.points, job.progress.elsewhere)
    count = Point.from_dict(job.points[0].point).workers
    progress.print_line(f"starting {count} worker{'s' * (count > 1)} ({job.group.run})")
    with launched(job.group) as group, ExitStack() as stack:
        check_shares(job, group, progress)
        session = Session(job, group, clock, stack)
        session.connect()
        session.choose_dilation()
        pending = [PendingPoint.of(each, session.job.dilation_of(each.fingerprint)) for each in job.points]
        clock.launch_s = monotonic() - clock.started
        left_s = measure_in_rounds(session, pending, job.measure, progress, job.carried_s)
    spent = {**clock.as_dict(), "left_s": left_s, "telemetry": session.sampling.costs}
    write_atomically(Path(job.group.logs) / SPENT, json.dumps(spent) + "\n")


def main(job_path: str) -> int:
    """Run a job. If it fails, print the error's text, and write it into the run's folder of logs too.

    Args:
        job_path: the job's file, as JSON.

    Returns:
        The process's exit code: 0, or that of the error.
    """
    job = read_text(SessionJob, Path(job_path).read_text())
    try:
        run(job)
    except DdlbenchError as error:
        tell_failure(error, job.group.run, Path(job.group.logs))
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
