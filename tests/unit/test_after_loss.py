"""What TCP remembers of a lossy link, the next link does not pay for: there the workers have new connections."""

from types import SimpleNamespace
from typing import Any

import pytest

from ddlbench.network.link import Link
from ddlbench.sweep.session import Session

LOSSY, CLEAN = Link(1000, 0, 5), Link(1000, 40)


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
    session.links = SimpleNamespace(made=before, record_of=lambda link: did.append(link) or {})
    session.connect = lambda: did.append("connections are made")
    session.job = SimpleNamespace(group=SimpleNamespace(congestion_control="cubic"))
    session._make(after)
    assert did == expected
