"""A repetition that others disturb, or whose hosts or workers fail it, is measured again or not kept."""

from contextlib import nullcontext
from dataclasses import asdict
from types import SimpleNamespace
from typing import Any

import pytest

from ddlbench.errors import DdlbenchError
from ddlbench.launch.group_member import WorkerCrashed
from ddlbench.protocol.tolerances import Tolerances
from ddlbench.shares.kept import Kept
from ddlbench.sweep.session import Session
from ddlbench.sweep.undisturbed import despite_crash, disturbance, in_fresh_memory, undisturbed
from ddlbench.telemetry.other_load import OtherLoad

QUIET, BUSY, STOLEN = (OtherLoad(10, 2, *percent) for percent in ((1, 0), (60, 0), (0, 60)))
ALLOWED = Tolerances(
    rate_percent=2, rtt_percent=2, rtt_ms=0.5, loss_points=0.3, others_percent=25, share_percent=10
)
HELD, ROBBED, GREEDY = (Kept(percent, 0.0) for percent in (104.0, 60.0, 150.0))
OWN, WAITED = Kept(None, 2.0), Kept(None, 30.0)


def records(*loads: OtherLoad | None) -> Any:
    """Something that measures a record with each load in turn."""
    return iter(
        [{"number": number, "others": load and asdict(load)} for number, load in enumerate(loads)]
    ).__next__


def of_hosts(*hosts: Kept, between: str | None = "sessions") -> dict[str, Any]:
    """A record whose hosts got this."""
    return {"divided_between": between, "kept": [asdict(host) for host in hosts]}


@pytest.mark.parametrize(
    ("loads", "number"),
    [((QUIET,), 0), ((BUSY, QUIET), 1), ((STOLEN, BUSY, QUIET), 2), ((None,), 0)],
)
def test_the_first_repetition_that_nobody_disturbs_counts(loads, number, capsys):
    assert undisturbed(records(*loads), "refuse", ALLOWED)["number"] == number
    assert capsys.readouterr().err.count("this repetition does not count, and is measured again") == number


def test_a_repetition_that_is_disturbed_each_time_is_not_kept(capsys):
    with pytest.raises(
        DdlbenchError, match=r"others take 60 % of this machine's 2 cores.* in each of 3 tries"
    ):
        undisturbed(records(BUSY, BUSY, BUSY), "refuse", ALLOWED)
    assert capsys.readouterr().err.count("is measured again") == 2


def test_nobody_is_waited_for_after_the_last_try(monkeypatch):
    waits: list[float] = []
    monkeypatch.setattr(
        "ddlbench.sweep.undisturbed.wait_for_others", lambda wait_s, percent: waits.append(wait_s)
    )
    with pytest.raises(DdlbenchError):
        undisturbed(records(BUSY, BUSY, BUSY), "wait", ALLOWED)
    assert len(waits) == 2


def test_a_repetition_whose_worker_crashes_is_measured_once_more_with_new_workers(capsys):
    relaunches: list[None] = []

    def crashing(*records):
        """Something that crashes where there is no record."""
        answers = iter(records)

        def measure():
            if (record := next(answers)) is None:
                raise WorkerCrashed("rank 1 on host h2 died (SIGSEGV) while training")
            return record

        return measure

    def relaunch():
        relaunches.append(None)

    assert despite_crash(crashing({"number": 1}), relaunch) == {"number": 1}
    assert not relaunches
    assert despite_crash(crashing(None, {"number": 2}), relaunch) == {"number": 2}
    assert len(relaunches) == 1
    assert "died (SIGSEGV) while training\n  With new workers" in capsys.readouterr().err
    with pytest.raises(WorkerCrashed):
        despite_crash(crashing(None, None), relaunch)


@pytest.mark.parametrize("crashes", [0, 1, 2])
def test_a_group_whose_worker_crashes_while_it_is_started_for_a_round_is_started_once_more(crashes):
    starts = []

    def connect(*, restart):
        starts.append(restart)
        if len(starts) <= crashes:
            raise WorkerCrashed("rank 1 on host h2 died (SIGSEGV) while starting")

    session: Any = Session.__new__(Session)
    session.connect, session.clock = connect, SimpleNamespace(relaunch_s=0.0)
    with pytest.raises(WorkerCrashed) if crashes == 2 else nullcontext():
        session.relaunch()
    assert starts == [True] * min(crashes + 1, 2)


def test_who_ignores_others_has_it_recorded():
    assert undisturbed(records(BUSY), "ignore", ALLOWED)["others"]["others_percent"] == 60


@pytest.mark.parametrize("hosts", [(HELD, HELD), (OWN,), ()])
def test_hosts_near_their_shares_are_as_they_should_be(hosts):
    assert disturbance(of_hosts(*hosts), ALLOWED) is None


@pytest.mark.parametrize(
    ("hosts", "words"),
    [
        ((HELD, ROBBED), "host 2 got 60 % of its share of a core (off by more than 10 %)"),
        ((GREEDY, HELD), "host 1 got 150 % of its share of a core (off by more than 10 %)"),
        ((OWN, WAITED), "host 2 waited 30 % of the time for its own cores (off by more than 10 %)"),
    ],
)
def test_a_host_that_was_not_held_to_its_share_is_named(hosts, words):
    assert disturbance(of_hosts(*hosts, between=None), ALLOWED) == words


def test_hosts_that_nothing_holds_to_their_shares_are_not_judged():
    assert disturbance(of_hosts(ROBBED, between="nothing"), ALLOWED) is None


@pytest.mark.parametrize(
    ("used", "found", "kept"),
    [
        ("first", [("first", "does_not_fit"), ("second", "measured")], "measured"),
        ("first", [("first", "does_not_fit"), ("second", "does_not_fit")], "does_not_fit"),
        ("first", [("first", "measured")], "measured"),
        ("before", [("first", "does_not_fit")], "does_not_fit"),
        (None, [("first", "does_not_fit")], "does_not_fit"),
    ],
    ids=["held-for-others", "too-large", "fits", "new-workers", "the-first-of-all"],
)
def test_only_new_workers_decide_that_a_point_does_not_fit(used, found, kept):
    relaunches: list[None] = []
    made = iter([{"launch": launch, "status": status} for launch, status in found])
    record = in_fresh_memory(made.__next__, used, lambda: relaunches.append(None))
    assert record["status"] == kept
    assert len(relaunches) == len(found) - 1
