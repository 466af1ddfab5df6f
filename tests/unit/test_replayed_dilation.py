"""What a replayed step takes at least, and what workers do while they wait: by these its time dilation is chosen."""

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from ddlbench.configuration.yaml_file import read_yaml
from ddlbench.devices.devices_file import devices_from
from ddlbench.network.hosts import Placement
from ddlbench.network.link import Link
from ddlbench.plan import Point, load
from ddlbench.sweep import measured_dilation
from ddlbench.sweep.measured_dilation import (
    dilated,
    dilation_of_bytes,
    dilation_of_waiting,
    least_dilation,
    least_step_ms,
    rounded_up,
    with_few_factors,
)
from tests.support.small_study import REPOSITORY, small_repository, write_study

DEVICES = devices_from(read_yaml(REPOSITORY / "config/devices.yaml", REPOSITORY))
MEGABYTES = 1_000_000


@pytest.fixture
def point(tmp_path) -> Point:
    settings, study = small_repository(tmp_path)
    write_study(tmp_path, study)
    of_two = next(
        each for each in load(settings, tmp_path).grid("small2000", "latency").points if each.bandwidth_mbit
    )
    alexnet = DEVICES["k80"].replay("alexnet", (224, 224, 3), 32)  # 79 ms
    return replace(of_two, compute="replay", replay=alexnet, bandwidth_mbit=2000.0)


def test_a_step_takes_at_least_as_long_as_its_bytes_on_the_busiest_link(point):
    assert least_step_ms(point, 244 * MEGABYTES) == pytest.approx(976)


def test_a_step_takes_at_least_as_long_as_its_compute(point):
    assert least_step_ms(point, MEGABYTES) == pytest.approx(1000 * 32 / 406.08)
    assert least_step_ms(replace(point, bandwidth_mbit=None), 0) == pytest.approx(1000 * 32 / 406.08)


def test_of_hosts_of_several_workers_only_compute_counts(point):
    shared = replace(point, workers_per_host=2)
    assert least_step_ms(shared, 244 * MEGABYTES) == pytest.approx(1000 * 32 / 406.08)


class Moving:
    """A star of two links, and two workers on it that move a megabyte in each step."""

    def __init__(self, delay_process: tuple[int, ...]) -> None:
        self.hosts = SimpleNamespace(star=self)
        self.group = SimpleNamespace(pids=lambda: [1, 2], prepare=lambda *_: None, train=self.train)
        self.backend = SimpleNamespace(pids=delay_process)
        self.dilation = 4.0
        self.bytes = 0
        self.shaped: list[Any] = []

    def train(self, steps: int, **_: Any) -> None:
        self.bytes += steps * MEGABYTES
        self.steps = steps

    def passed_bytes(self) -> tuple[list[int], list[int]]:
        return [self.bytes] * 2, [self.bytes] * 2

    def links(self, link: Link) -> list[Link]:
        return [link] * 2

    def shape(self, link: Any) -> None:
        self.shaped.append(link)


class TenEach:
    """In place of `Waiting`: each process has run for 10 ms."""

    def __init__(self, pids: Sequence[int]) -> None:
        self.pids = pids

    def since_start(self) -> list[dict[str, float]]:
        return [{"ran_ms": 10.0}] * len(self.pids)


def test_what_delays_packets_counts_on_links_with_the_points_latency(point, monkeypatch):
    monkeypatch.setattr(measured_dilation, "Waiting", TenEach)
    points = [replace(point, latency_ms=20.0)]
    without: Any = Moving(delay_process=())
    delaying: Any = Moving(delay_process=(3,))
    assert dilation_of_bytes(delaying, points, 0.1) == pytest.approx(
        1.5 * dilation_of_bytes(without, points, 0.1)
    )
    shaped, opened = delaying.shaped
    assert [each.latency_ms for each in shaped] == [20.0, 20.0]
    assert opened is None


def test_what_a_repetition_moves_once_counts_for_all_steps_that_it_has_at_least(point, monkeypatch):
    monkeypatch.setattr(measured_dilation, "Waiting", TenEach)
    factors = {}
    for strategy, steps in (
        ("ring_allreduce", 1),
        ("parameter_server_sync", 2),
        ("parameter_server_async", 7),
    ):
        group: Any = Moving(delay_process=())
        factors[steps] = dilation_of_bytes(group, [replace(point, strategy=strategy)], 0.1)
        assert group.steps == steps
    assert factors == {1: factors[1], 2: pytest.approx(factors[1] / 2), 7: pytest.approx(factors[1] / 7)}


@pytest.mark.parametrize(("step_ms", "factor"), [(5, 10), (79, 5.1), (300, 4)])
def test_the_shorter_the_step_the_more_time_is_dilated_at_least(point, step_ms, factor):
    alone = replace(point.replay, forward_ms=step_ms, backward_ms=(), optimizer_ms=0.0)
    assert least_dilation([replace(point, replay=alone)]) == factor


def test_what_no_profile_knows_asks_for_no_dilation_of_its_own(point):
    nothing = DEVICES["k80"].unknown("alexnet", (1, 1, 1))
    alone = replace(point.replay, forward_ms=300.0, backward_ms=(), optimizer_ms=0.0)
    assert least_dilation([replace(point, replay=nothing), replace(point, replay=alone)]) == 4
    assert least_dilation([replace(point, replay=nothing)]) == 10


@dataclass(frozen=True)
class Job:
    """A session's job, or that of its group: what choosing dilations reads and replaces of them."""

    points: Sequence[Any] = ()
    group: Any = None
    placement: Any = None
    dilations: Any = None


def of_hosts(*points: Any, dilation: float, is_least: bool) -> Any:
    """A session's job; its points are as in `SessionJob.points`."""
    return Job(points, Job(placement=Placement((), dilation, memory_reduced=False, is_least=is_least)))


@pytest.fixture
def needed(monkeypatch) -> list[list[Point]]:
    """In place of measuring: each Mbit/s needs a hundredth of dilation, and ResNet-50 twice as much; what was alike."""
    alike: list[list[Point]] = []

    def dilation(_job: Any, _group: Any, points: list[Point], _forwards_mbit: float) -> float:
        alike.append(points)
        return (points[0].bandwidth_mbit or 0) / 100 * (1 + (points[0].model == "resnet50"))

    monkeypatch.setattr(measured_dilation, "_dilation", dilation)
    monkeypatch.setattr(measured_dilation, "_forwarded_mbit", lambda *_: 1.0)
    monkeypatch.setattr(measured_dilation, "slowest_replay_ms", lambda _: 0.0)
    return alike


def test_each_model_on_each_link_has_a_dilation_of_its_own(point, needed):
    points = {
        "alexnet": point,
        "in larger batches": replace(point, batch_size=2 * point.batch_size),
        "over a faster link": replace(point, bandwidth_mbit=8000.0),
        "resnet50": replace(point, model="resnet50"),
    }
    described = [SimpleNamespace(fingerprint=name, point=each.as_dict()) for name, each in points.items()]
    had: list[float] = []
    group: Any = SimpleNamespace(hosts=SimpleNamespace(star=object()), dilate=lambda k, _: had.append(k))
    job = dilated(of_hosts(*described, dilation=4.0, is_least=True), group, [*points.values()])
    assert job.dilations == {
        "alexnet": 20.0,
        "in larger batches": 20.0,
        "over a faster link": 80.0,
        "resnet50": 40.0,
    }
    assert [len(same) for same in needed] == [2, 1, 1]
    assert had == [80.0]
    assert job.group.placement.dilation == 80.0


def test_a_dilation_that_was_given_is_not_measured(point, needed):
    given, group = of_hosts(dilation=7.0, is_least=False), SimpleNamespace()
    assert dilated(given, group, [point]) == given
    assert not needed


def test_dilations_that_hardly_differ_are_raised_to_the_largest_of_them():
    found = with_few_factors({"a": 100.0, "b": 630.0, "c": 610.0, "d": 80.0, "e": 79.0, "f": 4.0})
    assert found == {"a": 100.0, "b": 630.0, "c": 630.0, "d": 100.0, "e": 79.0, "f": 4.0}


@pytest.mark.parametrize(
    ("value", "rounded"),
    [(1.0, 1.0), (4.4, 4.4), (4.41, 4.5), (9.95, 10.0), (10.1, 11.0), (230.0, 230.0), (231.0, 240.0)],
)
def test_what_has_two_digits_is_not_rounded_up(value, rounded):
    assert rounded_up(value) == rounded


def ran_s(pid: int) -> float:
    """The CPU time of a process."""
    with open(f"/proc/{pid}/schedstat") as schedstat:
        return int(schedstat.read().split()[0]) / 1e9


def test_workers_that_work_while_they_wait_need_more_dilation_and_others_need_none():
    """Whatever cores this machine leaves them: what they used is counted from outside too, for longer."""
    with (
        subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy,
        subprocess.Popen(
            ["sh", "-c", "echo; exec cat"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        ) as idle,
    ):
        try:
            assert idle.stdin
            assert idle.stdout
            idle.stdin.write(b"begun\n")
            idle.stdin.flush()
            assert [idle.stdout.readline(), idle.stdout.readline()] == [
                b"\n",
                b"begun\n",
            ]  # now it waits for more
            group = SimpleNamespace(group=SimpleNamespace(pids=lambda: [busy.pid]))
            found, looked_s = 0.0, 0.2
            while not found:  # it may have got no core
                before_s = ran_s(busy.pid)
                found = dilation_of_waiting(group, dilation=10.0, allowed=0.1)
            assert found <= 10 * (ran_s(busy.pid) - before_s) / looked_s / 0.1
            group.group.pids = lambda: [idle.pid]
            assert dilation_of_waiting(group, dilation=10.0, allowed=0.1) < 1
        finally:
            busy.kill()
            idle.kill()
