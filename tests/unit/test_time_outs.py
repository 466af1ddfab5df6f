"""The time-outs of a run's workers."""

from dataclasses import replace

from ddlbench.devices.uneven import Odd, Uneven
from ddlbench.network.hosts import place
from ddlbench.plan import load
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.runs.group_of_run import timeouts_of
from tests.support.repository import REPOSITORY

PLAN = load(REPOSITORY / "config/config.yaml", REPOSITORY)
GIVEN = Timeouts(launch_s=60, prepare_s=100, step_s=10, heartbeat_s=30)


def run_of(workers, is_replayed):
    return next(
        run
        for run in PLAN.runs
        if run.points[0].workers == workers
        and run.points[0].strategy == "ring_allreduce"
        and (run.points[0].replay is not None) == is_replayed
    )


def on_cores(count, cores):
    return place(
        count, vcpus=1, memory_gb=1, host_count=count, cores=[*range(cores)], available_memory_bytes=2**34
    )


def test_workers_that_share_a_core_have_more_time_to_build_their_models():
    run = run_of(4, is_replayed=False)
    assert timeouts_of(run, on_cores(4, cores=4), GIVEN) == GIVEN
    assert timeouts_of(run, on_cores(4, cores=2), GIVEN).prepare_s == 200


def test_a_replayed_step_may_take_longer_than_the_device_takes():
    run, here = run_of(4, is_replayed=True), on_cores(4, cores=4)
    slowest_ms = max(point.replay.step_ms for point in run.points)
    assert timeouts_of(run, here, GIVEN).step_s == 10 + 2 * slowest_ms * here.dilation / 1000


def test_a_replayed_step_may_take_as_long_as_its_slowest_host():
    run, here = run_of(4, is_replayed=True), on_cores(4, cores=4)
    usual_ms = max(point.replay.step_ms for point in run.points)
    points = [replace(point, uneven=Uneven("", (Odd(2, slowdown=50.0),), None)) for point in run.points]
    slow = timeouts_of(replace(run, points=tuple(points)), here, GIVEN)
    assert slow.step_s == 10 + 2 * 50 * usual_ms * here.dilation / 1000
