"""What TCP remembers of a lossy link, the next link does not pay for: there the workers have new, cold connections."""

from types import SimpleNamespace
from typing import Any

import pytest

from ddlbench.network.link import Link
from ddlbench.sweep import session as session_module
from ddlbench.sweep.held_models import HeldModels
from ddlbench.sweep.link_monitor import Links
from ddlbench.sweep.session import Session

LOSSY, CLEAN = Link(1000, 0, 5), Link(1000, 40)


def links_that_are(made: Link | None) -> Any:
    """The links of a session, which can be opened."""
    links: Any = Links.__new__(Links)
    links.star, links.made = SimpleNamespace(shape=lambda link: None), made
    return links


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        (LOSSY, CLEAN, ["connections are made", CLEAN]),
        (LOSSY, LOSSY, [LOSSY]),
        (CLEAN, LOSSY, [LOSSY]),
        (None, CLEAN, [CLEAN]),
    ],
    ids=["after a lossy one", "the same", "before a lossy one", "the first"],
)
def test_workers_connect_again_before_the_link_that_comes_after_a_lossy_one(
    before: Link | None, after: Link, expected: list[Any]
) -> None:
    did: list[Any] = []
    session: Any = Session.__new__(Session)
    session.links = links_that_are(before)
    session.links.record_of = lambda link: did.append(link) or {}
    session.connect = lambda: did.append("connections are made")
    session.job = SimpleNamespace(group=SimpleNamespace(congestion_control="cubic"))
    session._make(after)
    assert did == expected


@pytest.mark.parametrize(
    ("before", "reconnects", "expected"),
    [
        (LOSSY, False, ["time is dilated", "connections are made"]),
        (LOSSY, True, ["time is dilated", "connections are made"]),
        (CLEAN, False, ["time is dilated"]),
        (CLEAN, True, ["time is dilated", "connections are made"]),
        (None, False, ["time is dilated"]),
    ],
)
def test_workers_that_cannot_connect_again_are_new_where_time_is_dilated_after_a_lossy_link(
    before: Link | None, reconnects: bool, expected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_module, "slowest_replay_ms", lambda job: 0.0)
    did: list[str] = []
    session: Any = Session.__new__(Session)
    session.links, session.dilation, session.job = links_that_are(before), 1.0, None
    session.group = SimpleNamespace(
        dilate=lambda dilation, slowest_ms: did.append("time is dilated"),
        group=SimpleNamespace(ready=[SimpleNamespace(reconnects=reconnects)]),
    )
    session.sampling = SimpleNamespace(begin=lambda dilation: None)
    session.connect = lambda: did.append("connections are made")
    session.dilate(2.0)
    assert did == expected
    assert session.links.made is None


def test_connections_that_workers_make_anew_are_as_cold_as_those_of_a_new_group() -> None:
    session: Any = Session.__new__(Session)
    session.runtime, session.links, session.dilation, session.is_connected = "bare", None, 1.0, True
    session.models, session.is_cold = HeldModels([]), False
    session.models.shapes = ["a model's"]
    session.group = SimpleNamespace(
        group=SimpleNamespace(ready=[SimpleNamespace(reconnects=True)], connect=lambda shapes, dilation: None)
    )
    session.connect()
    assert session.is_cold
