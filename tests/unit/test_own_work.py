"""The emulation's own work in replayed steps: what takes too much of the cores is measured again, more dilated."""

from types import SimpleNamespace
from typing import Any

import pytest

from ddlbench.network.hosts import place_waiting
from ddlbench.network.link import Link
from ddlbench.network.verify import OutOfTolerance
from ddlbench.protocol.messages import Trained
from ddlbench.sweep.core_use import NOT_KNOWN
from ddlbench.sweep.link_monitor import Degraded, Drifted
from ddlbench.sweep.own_work import TooMuchWork, own_work_percent
from ddlbench.sweep.steps import TrainedSteps
from ddlbench.sweep.undisturbed import dilated_enough

WORK_MS = 20.0  # of each of two workers, in a step of 200 ms as without dilation


def session(*, is_least: bool = True) -> Any:
    """A session's job on two cores, of which own work may take 5 %."""
    placement = place_waiting(2, cores=[0, 1], available_memory_bytes=2**34, dilation=1.0, is_least=is_least)
    return SimpleNamespace(group=SimpleNamespace(placement=placement), most_own_work_percent=5.0)


def pending(dilation: float, *, waits: bool = True) -> Any:
    """A point whose compute is replayed."""
    return SimpleNamespace(point=SimpleNamespace(waits=waits), words="alexnet on k80", dilation=dilation)


def percent_of(
    job: Any,
    point: Any,
    work_ms: float = WORK_MS,
    delaying_ms: float = 0.0,
    stalled_s: float | None = None,
) -> float | None:
    """The share of a step at the point's dilation."""
    made = TrainedSteps([[Trained([[200.0 * point.dilation]])] * 2], stalled_s=stalled_s)
    used = {"scheduling": [{"ran_ms": work_ms}] * 2, "delaying": [{"ran_ms": delaying_ms}]}
    return own_work_percent(job, point, made, used)


def test_own_work_is_the_workers_share_of_all_cores_over_the_steps():
    assert percent_of(session(), pending(4)) == pytest.approx(100 * 2 * 20 / (2 * 800))
    assert percent_of(session(), pending(4, waits=False), work_ms=800) is None


def test_delaying_packets_is_own_work_too():
    assert percent_of(session(), pending(4), delaying_ms=20) == pytest.approx(100 * 3 * 20 / (2 * 800))
    with pytest.raises(TooMuchWork):
        percent_of(session(), pending(4), delaying_ms=100)


def test_what_is_not_known_is_no_share():
    made = TrainedSteps([[Trained([[200.0]])] * 2])
    assert own_work_percent(session(), pending(4), made, NOT_KNOWN) is None


def test_steps_whose_link_stalled_are_not_judged():
    assert percent_of(session(), pending(1), work_ms=1e6, stalled_s=240.0) is None


def test_a_repetition_with_too_much_work_is_measured_again_with_a_dilation_that_does(capsys):
    job, point, tried = session(), pending(1), []

    def measure() -> Any:
        tried.append(point.dilation)
        return {"own_work_percent": percent_of(job, point)}

    assert dilated_enough(measure, point, job.group.placement)["own_work_percent"] == pytest.approx(10 / 3)
    assert tried == [1, 3]  # 2 would do by what was measured; half as much again is allowed for
    assert "took 10.0 % of this machine's cores" in (said := capsys.readouterr().err)
    assert "is measured again with a time dilation of 3" in said


@pytest.mark.parametrize(("is_least", "tries"), [(True, 3), (False, 1)])
def test_work_that_stays_too_much_or_a_dilation_that_was_asked_for_ends_in_words(is_least, tries):
    job, point, tried = session(is_least=is_least), pending(1), []

    def measure() -> Any:
        tried.append(point.dilation)
        return percent_of(job, point, WORK_MS * point.dilation)

    with pytest.raises(TooMuchWork, match=r"alexnet on k80: .* `dilation: \d+`, or try again when"):
        dilated_enough(measure, point, job.group.placement)
    assert len(tried) == tries


NOT_CARRIED = [
    OutOfTolerance("the link of h1", Link(96800), "tbf", ["rate 70000 instead of 96800 Mbit/s"]),
    Degraded("the link has drifted: rate 70000 instead of 96800 Mbit/s"),
]


@pytest.mark.parametrize("error", NOT_CARRIED, ids=("when it is made", "when it is checked again"))
@pytest.mark.parametrize(("is_least", "dilations"), [(True, [4, 6, 9]), (False, [4])])
def test_a_link_that_the_machine_cannot_carry_now_is_dilated_more_unless_a_number_was_asked_for(
    is_least, dilations, error, capsys
):
    placement, point, tried = session(is_least=is_least).group.placement, pending(4), []

    def measure() -> Any:
        tried.append(point.dilation)
        raise error

    with pytest.raises(type(error), match="rate 70000 instead of 96800"):
        dilated_enough(measure, point, placement)
    assert tried == dilations
    assert capsys.readouterr().err.count("is measured again with a time dilation of") == len(dilations) - 1


def test_a_link_that_somebody_has_changed_is_not_tried_with_more_dilation():
    tried = []

    def measure() -> Any:
        tried.append(True)
        raise Drifted("somebody has changed how it is shaped")

    with pytest.raises(Drifted):
        dilated_enough(measure, pending(4), session().group.placement)
    assert tried == [True]
