"""A repetition whose link stands still: it is kept with the time that it took, and the others have a new group."""

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from ddlbench.figures.captions.missing import why_missing
from ddlbench.launch.group_member import WorkerFailed, WorkerStalled
from ddlbench.measurements.record import parse, seal, timed
from ddlbench.plan import load
from ddlbench.protocol.messages import Trained
from ddlbench.protocol.timeouts import Timeouts
from ddlbench.sweep import session as session_module
from ddlbench.sweep.repetition import stalled_at_once, trained
from ddlbench.sweep.rounds import PendingPoint
from ddlbench.sweep.session import Session
from ddlbench.sweep.steps import train
from tests.support.measurement_samples import a_record
from tests.support.repository import REPOSITORY

PLAN = load(REPOSITORY / "config/config.yaml", REPOSITORY)
POINT = next(point for run in PLAN.runs for point in run.points if point.bandwidth_mbit and not point.epochs)
STALLED_S = 241.0
TIMEOUTS = Timeouts(launch_s=60.0, prepare_s=120.0, step_s=120.0, heartbeat_s=60.0)
LINK = {"asked": {"bandwidth_mbit": 400.0}, "is_lossy": True}


class Stalling:
    """Two workers whose steps take 10 ms, and that make none any more after some parts."""

    def __init__(self, parts: int) -> None:
        self.parts = parts

    def train(self, steps: int, **_: Any) -> list[Trained]:
        if not self.parts:
            raise WorkerStalled("rank 0 on host h1 has made no step for 241 s", STALLED_S)
        self.parts -= 1
        return [Trained([[10.0] * steps], 0.5) for _ in range(2)]


def test_what_was_trained_before_counts_and_the_rest_is_a_step_of_the_time_that_it_took(capsys):
    group: Any = Stalling(parts=2)
    made = train(group, 8, budget_s=1.0)
    assert "rank 0 on host h1 has made no step for 241 s" in capsys.readouterr().err
    found = trained(made, [], 1.0, None, synchronous=True)
    assert found["step_times_ms"] == [[10.0] * 4 + [1000 * STALLED_S]] * 2
    assert made.times_ms == found["step_times_ms"]
    assert (found["stalled_s"], found["parameters_identical"]) == (STALLED_S, None)
    assert found["metrics"] == dict.fromkeys(found["metrics"]) | {"train_loss": 0.5}


def test_a_link_that_stalls_at_once_leaves_a_record_without_steps_and_all_points_have_the_same_reason(capsys):
    group: Any = Stalling(parts=0)
    with pytest.raises(WorkerStalled) as caught:
        train(group, 8, budget_s=1.0)
    found = stalled_at_once(POINT, LINK, caught.value, TIMEOUTS)
    assert found["reason"] == "the link stalled, or a step takes more than 240 s (`timeouts`)"
    assert found["reason"] == why_missing(found), "a figure has room for all of it"
    assert "rank 0 on host h1 has made no step for 241 s" in capsys.readouterr().err
    record = parse(json.dumps(seal(a_record(**found))), "a file")
    assert (record["status"], record["stalled_s"], timed(record)) == ("stalled", STALLED_S, None)


@pytest.mark.parametrize(("link", "epochs"), [(None, 0), (LINK, 2)])
def test_without_a_link_or_of_a_training_to_an_accuracy_it_is_an_error(link, epochs):
    error = WorkerStalled("made no step for 241 s", STALLED_S)
    with pytest.raises(WorkerFailed, match="no step for 241 s"):
        stalled_at_once(replace(POINT, epochs=epochs), link, error, TIMEOUTS)


class Living(Session):
    """A session without hosts: its first repetition stalls, and each says which group it had."""

    def __init__(self) -> None:
        self.job: Any = SimpleNamespace(group=SimpleNamespace(timeouts=TIMEOUTS))
        self.runtime = "bare"
        self.dilation = 1.0
        self.links: Any = SimpleNamespace(
            made=None, is_lossy=False, record_of=lambda _: LINK, check=self._checked
        )
        self.clock: Any = SimpleNamespace(now_s=lambda: 0.0)
        self.launched = "group 1"
        self.is_connected = self.is_cold = True
        self.is_stalled = False
        self.events: list[str] = []
        self.group: Any = SimpleNamespace(
            members=["h1", "h2"],
            group=SimpleNamespace(kill=lambda ranks: self.events.append(f"kill {[*ranks]}")),
        )

    def connect(self, runtime: str | None = None, *, restart: bool = False) -> None:
        self.events.append(f"new {runtime} group" if restart else "connect")
        self.launched, self.is_stalled = "group 2", False

    def _make(self, link: Any) -> Any:
        return LINK, False

    def _checked(self) -> None:
        self.events.append("check")

    def _repetition(self, *_: Any) -> dict[str, object]:
        if self.launched == "group 1":
            raise WorkerStalled("made no step for 240 s", STALLED_S)
        return {"link": LINK, "step_times_ms": [[10.0]] * 2, "stalled_s": None}


def test_after_it_the_link_is_checked_without_its_workers_and_the_next_repetition_has_a_new_group(
    monkeypatch,
):
    monkeypatch.setattr(session_module, "conditions", lambda *_: {"dilation": 1.0})
    session, pending = Living(), PendingPoint(POINT, "f", "mlp", 1, [], set(), 3)
    first, second = session._record(pending), session._record(pending)
    assert (first["launch"], first["status"], first["stalled_s"]) == ("group 1", "stalled", STALLED_S)
    assert (second["launch"], second["stalled_s"]) == ("group 2", None)
    assert session.events == ["kill [0, 1]", "check", "new bare group", "check"]
