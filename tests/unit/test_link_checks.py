"""What the check of a link says, and how it measures what loses much."""

import pytest

from ddlbench.emulate.emulation import TOLERANCES
from ddlbench.network.link import Link
from ddlbench.network.traffic import FULL, packets_needed
from ddlbench.network.verify import OutOfTolerance, deviations

LINK = Link(1000, 5)


@pytest.mark.parametrize(("rate_mbit", "rtt_ms", "is_named"), [(600, 10, True), (1000, 90, False)])
def test_where_the_rate_is_wrong_dilation_is_named_which_helps(rate_mbit, rtt_ms, is_named):
    wrong = deviations(LINK, rate_mbit, 0.0, TOLERANCES, FULL, ("round trip", rtt_ms, 10, 0.0))
    text = str(OutOfTolerance("the emulated link of host h1", LINK, "tbf+netem", wrong))
    assert ", ".join(wrong) in text
    assert ("--dilation" in text) == is_named
    assert text.endswith(".")


@pytest.mark.parametrize(
    ("loss_percent", "crossings", "packets"),
    [(0, 2, 7), (1e-9, 2, 22), (50, 2, 84), (50, 1, 42), (90, 2, 1000)],
)
def test_over_a_link_that_loses_much_more_packets_are_sent_up_to_a_bound(loss_percent, crossings, packets):
    assert packets_needed(7, Link(50, 1, loss_percent), crossings=crossings) == packets
