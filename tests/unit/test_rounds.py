"""Rounds of repetitions: the fewest of all points, then more where the interval is widest, while there is time."""

from dataclasses import replace
from itertools import groupby

import pytest

from ddlbench.measurements.statistics import Total
from ddlbench.measurements.store import Store
from ddlbench.plan import load
from ddlbench.sweep import rounds
from ddlbench.sweep.progress import Progress
from ddlbench.sweep.rounds import KeptRepetition, PendingPoint, measure_in_rounds
from tests.support.repository import REPOSITORY

PLAN = load(REPOSITORY / "config/config.yaml", REPOSITORY)
MEASURE = replace(PLAN.settings.measure, min_repetitions=5, max_repetitions=12, point_budget_s=10.0)
TIMED_ONLY = next(
    point for run in PLAN.runs for point in run.points if point.bandwidth_mbit and point.epochs == 0
)


class Simulated:
    """Measures points whose steps have a given spread; a repetition takes a second of a clock that it moves."""

    runtime = "bare"

    def __init__(self, spreads, monkeypatch):
        self.spreads = spreads
        self.now_s = 0.0
        self.order = []
        monkeypatch.setattr(rounds, "monotonic", lambda: self.now_s)

    def relaunch(self):
        self.order.append("relaunch")

    def measure(self, pending):
        self.now_s += 1.0
        self.order.append(pending.words)
        step_ms = 100 + self.spreads[pending.words] * (-1) ** pending.repetition
        return {
            "status": "measured",
            "repetition": pending.repetition,
            "step_times_ms": [[step_ms]],
            "dilation": 1,
        }


def pending(words, point=TIMED_ONLY, used=()):
    return PendingPoint(point, words, words, 1, [Total(100.0, 1) for _ in used], set(used), 3)


def measured(monkeypatch, spreads, points=None, **changes):
    session = Simulated(spreads, monkeypatch)
    points = points or [pending(words) for words in spreads]
    measure_in_rounds(session, points, replace(MEASURE, **changes), Progress(len(points), 0))
    return session, points


def test_a_point_whose_interval_is_narrow_has_the_fewest_repetitions(monkeypatch):
    session, _ = measured(monkeypatch, {"steady": 0.1, "wild": 60.0})
    assert session.order.count("steady") == 5
    assert session.order.count("wild") == 12


def test_of_what_is_out_of_reach_the_widest_interval_comes_first_and_the_time_ends(monkeypatch):
    session, points = measured(monkeypatch, {"wild": 60.0, "wilder": 90.0}, point_budget_s=2)
    extra = [words for words in session.order if words != "relaunch"][10:]
    assert sorted(extra[:2]) == ["wild", "wilder"]
    assert extra[2:] == ["wilder"]
    assert [each.settled for each in points] == [False, False]


def test_what_repetitions_can_make_narrow_enough_comes_before_what_they_cannot(monkeypatch):
    session, points = measured(monkeypatch, {"wild": 60.0, "mild": 8.0}, point_budget_s=2)
    extra = [words for words in session.order if words != "relaunch"][10:]
    assert extra[:3].count("mild") == 2
    assert [each.settled for each in points] == [False, True]


def test_a_point_whose_link_stalls_at_once_is_not_tried_again_in_this_run_and_holds_no_other_up(monkeypatch):
    class Stalling(Simulated):
        def measure(self, pending):
            record = super().measure(pending)
            stalls = pending.words == "dead" or (pending.words == "once" and pending.repetition == 2)
            return record | ({"status": "stalled", "step_times_ms": [], "reason": ""} if stalls else {})

    points = [pending("dead"), pending("once"), pending("dead", used=[0, 1])]
    session = Stalling({"dead": 0.0, "once": 0.1}, monkeypatch)
    measure_in_rounds(session, points[:2], MEASURE, Progress(2, 0))
    assert [session.order.count(words) for words in ("dead", "once")] == [1, 6]
    assert [len(point.timed) for point in points] == [0, 5, 2]
    measure_in_rounds(session, points[2:], MEASURE, Progress(1, 0))
    assert session.order.count("dead") == 3, "it has steps from before, and the first may have been chance"
    assert len(points[2].timed) == 2


def test_what_is_withdrawn_is_measured_again_under_the_same_number(monkeypatch, tmp_path):
    class Drifting(Simulated):
        """Finds after its fourth repetition that the third one does not count."""

        def measure(self, pending):
            if len(self.order) == 3:
                withdrawn = KeptRepetition(self.pending, self.record, tmp_path / "gone.json", 0.0)
                withdrawn.withdraw(Store(tmp_path, {}), "a link has drifted")
            self.pending, self.record = pending, super().measure(pending)
            return self.record

    session, points = (
        Drifting({"steady": 0.1, "other": 0.1}, monkeypatch),
        [pending("steady"), pending("other")],
    )
    measure_in_rounds(session, points, replace(MEASURE, relaunch=False), Progress(2, 0))
    assert len(session.order) == 2 * 5 + 1
    assert [(len(each.timed), each.used) for each in points] == [(5, set(range(5)))] * 2
    assert all(each.settled for each in points)


def test_of_two_wide_intervals_the_one_that_is_sooner_narrow_enough_comes_first():
    slow, quick = pending("slow"), pending("quick")
    slow.timed, quick.timed = ([Total(time_ms, 1) for time_ms in (80.0, 120.0) * 3] for _ in "ab")
    slow.took_s, quick.took_s = 5.0, 1.0
    quick.timed[0] = Total(75.0, 1)  # its interval is a little wider
    assert rounds._next_round([slow, quick], MEASURE, 10.0) == [quick, slow]
    assert rounds._next_round([slow, quick], MEASURE, 5.5) == [quick]


def test_a_repetition_that_takes_too_long_keeps_no_shorter_one_back(monkeypatch):
    slow, quick = pending("wild"), pending("mild")
    slow.timed, quick.timed = ([Total(time_ms, 1) for time_ms in (40.0, 160.0) * 3] for _ in "ab")
    slow.took_s, quick.took_s = 5.0, 1.0
    assert rounds._next_round([slow, quick], MEASURE, 3.0) == [quick]


def test_time_that_other_groups_did_not_need_is_used_and_what_is_left_is_given_on(monkeypatch):
    session, settled = Simulated({"wild": 60.0}, monkeypatch), [pending("steady")]
    rule = replace(MEASURE, point_budget_s=2)
    left_s = measure_in_rounds(session, [pending("wild")], rule, Progress(1, 0), carried_s=3.5)
    assert session.order.count("wild") == 5 + 5
    assert left_s == 0.5
    session = Simulated({"steady": 0.1}, monkeypatch)
    assert measure_in_rounds(session, settled, rule, Progress(1, 0), carried_s=3.5) == 5.5


def test_without_time_there_are_the_fewest_repetitions_of_all(monkeypatch):
    session, _ = measured(monkeypatch, {"steady": 0.1, "wild": 60.0}, point_budget_s=0)
    assert [session.order.count(words) for words in ("steady", "wild")] == [5, 5]


def test_what_stays_unresolved_is_said(monkeypatch, capsys):
    measured(monkeypatch, {"wild": 60.0}, point_budget_s=0)
    assert "1 of 1 points have wider intervals than asked for" in capsys.readouterr().err


@pytest.mark.parametrize(("relaunch", "launches"), [(True, 4), (False, 0)])
def test_each_round_has_a_new_worker_group_if_that_is_asked_for(monkeypatch, relaunch, launches):
    session, _ = measured(monkeypatch, {"steady": 0.1}, relaunch=relaunch)
    assert session.order.count("relaunch") == launches


def test_a_point_on_a_lossy_link_may_have_a_wider_interval(monkeypatch):
    lossy = replace(TIMED_ONLY, loss_percent=1.0)
    points = [pending("clean"), pending("lossy", lossy)]
    session, _ = measured(monkeypatch, {"clean": 15.0, "lossy": 15.0}, points, point_budget_s=100)
    assert session.order.count("clean") > session.order.count("lossy") == 5


def test_a_round_takes_points_of_one_time_dilation_after_another_and_goes_on_with_the_last(monkeypatch):
    points = [replace(pending(f"{model} {k}"), dilation=k) for model in "abc" for k in (1.5, 2.5)]
    session, _ = measured(monkeypatch, {each.words: 0.1 for each in points}, points, relaunch=False)
    factors = [words.split()[1] for words in session.order]
    assert len(factors) == 30
    assert [len(list(same)) for _, same in groupby(factors)] == [3, *[6] * 4, 3]


def test_points_without_a_repetition_are_dilated_as_much_more_as_another_one_turned_out_to_need(monkeypatch):
    class Dilating(Simulated):
        def measure(self, pending):
            if not pending.used and not dilated_more:
                pending.dilation *= 1.5
                dilated_more.append(pending.words)
            began_with.setdefault(pending.words, pending.dilation)
            return super().measure(pending)

    dilated_more, began_with = [], {}
    planned = {"a": 20.0, "b": 20.0, "c": 41.0}
    points = [replace(pending(words), dilation=dilation) for words, dilation in planned.items()]
    points.append(replace(pending("measured before", used=[0]), dilation=20.0))
    measure_in_rounds(
        Dilating(dict.fromkeys([each.words for each in points], 0.1), monkeypatch),
        points,
        MEASURE,
        Progress(4, 0),
    )
    assert began_with.pop("measured before") == 20.0
    assert began_with["a"] == began_with["b"] == 30.0
    assert {each.dilation for each in points if each.words in dilated_more} == {began_with[dilated_more[0]]}
    assert began_with["c"] == (61.5 if dilated_more == ["c"] else 62.0)  # rounded up to two digits


def test_trainings_to_an_accuracy_have_the_same_seeds_at_every_point(monkeypatch):
    trained = replace(TIMED_ONLY, epochs=2)
    points = [pending("steady", trained), pending("wild", trained, used=[0, 2])]
    measured(monkeypatch, {"steady": 0.1, "wild": 60.0}, points)
    assert points[0].used == {0, 1, 2}
    assert points[1].used == {0, 1, 2}  # where repetition 1 was withdrawn before
