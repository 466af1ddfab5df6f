"""What stands for a device whose compute is replayed, and how a GPU's time passes, in a made-up time."""

import pytest

from ddlbench.protocol.messages import ReplayedStep
from ddlbench.workers.common.replay import device
from ddlbench.workers.common.replay.device import BurningDevice, WaitingDevice, device_of
from tests.support.assignments import assignment


class Clock:
    """A time that passes while somebody sleeps."""

    def __init__(self) -> None:
        self.now_s = 100.0
        self.slept_s: list[float] = []

    def sleep(self, s: float) -> None:
        self.slept_s.append(s)
        self.now_s += s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(device.time, "sleep", made.sleep)
    monkeypatch.setattr(device.time, "perf_counter", lambda: made.now_s)
    monkeypatch.setattr(device, "set_timer_slack", lambda ns: None)
    return made


def test_a_gpus_time_is_slept_and_a_cpus_is_burnt(clock: Clock) -> None:
    kinds = {
        kind: type(device_of(assignment(0, 1, dilation=2.0), ReplayedStep(kind, 1.0, [1.0], 1.0)))
        for kind in ("gpu", "cpu")
    }
    assert kinds == {"gpu": WaitingDevice, "cpu": BurningDevice}


def test_all_of_a_gpus_time_is_slept_dilated(clock: Clock) -> None:
    gpu = WaitingDevice(dilation=2.0)
    gpu.begin()
    gpu.run(300.0)
    assert clock.slept_s == [pytest.approx(0.6)]


def test_what_a_gpu_is_given_late_begins_when_its_last_work_has_ended(clock: Clock) -> None:
    gpu = WaitingDevice(dilation=1.0)
    gpu.begin()
    gpu.run(300.0)
    clock.now_s += 0.1  # the host has noticed late
    gpu.run(300.0)
    assert clock.slept_s == [pytest.approx(0.3), pytest.approx(0.2)]


def test_what_has_waited_for_something_else_begins_now(clock: Clock) -> None:
    gpu = WaitingDevice(dilation=1.0)
    gpu.begin()
    gpu.run(300.0)
    clock.now_s += 0.1
    gpu.begin()
    gpu.run(300.0)
    assert clock.slept_s == [pytest.approx(0.3), pytest.approx(0.3)]
