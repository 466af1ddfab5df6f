"""A repetition that others have disturbed is measured again, and not kept if that does not help."""

from dataclasses import asdict
from typing import Any

import pytest

from ddlbench.errors import DdlbenchError
from ddlbench.sweep.undisturbed import undisturbed
from ddlbench.telemetry.other_load import OtherLoad

QUIET, BUSY, STOLEN = (OtherLoad(10, 2, *percent) for percent in ((1, 0), (60, 0), (0, 60)))


def records(*loads: OtherLoad | None) -> Any:
    """Something that measures a record with each load in turn."""
    return iter(
        [{"number": number, "others": load and asdict(load)} for number, load in enumerate(loads)]
    ).__next__


@pytest.mark.parametrize(
    ("loads", "number"),
    [((QUIET,), 0), ((BUSY, QUIET), 1), ((STOLEN, BUSY, QUIET), 2), ((None,), 0)],
)
def test_the_first_repetition_that_nobody_disturbs_counts(loads, number, capsys):
    assert undisturbed(records(*loads), "refuse", 25)["number"] == number
    assert capsys.readouterr().err.count("this repetition does not count, and is measured again") == number


def test_a_repetition_that_is_disturbed_each_time_is_not_kept():
    with pytest.raises(
        DdlbenchError, match=r"others take 60 % of this machine's 2 cores.* in each of 3 tries"
    ):
        undisturbed(records(BUSY, BUSY, BUSY), "refuse", 25)


def test_who_ignores_others_has_it_recorded():
    assert undisturbed(records(BUSY), "ignore", 25)["others"]["others_percent"] == 60
