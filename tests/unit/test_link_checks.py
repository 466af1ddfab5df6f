"""What the check of a link says, and how it measures what loses much."""

import pytest

from ddlbench.emulate.emulation import TOLERANCES
from ddlbench.network.link import Link
from ddlbench.network.traffic import FULL
from ddlbench.network.verify import OutOfTolerance, deviations

LINK = Link(1000, 5)


@pytest.mark.parametrize(("rate_mbit", "rtt_ms", "is_named"), [(600, 10, True), (1000, 90, False)])
def test_where_the_rate_is_wrong_dilation_is_named_which_helps(rate_mbit, rtt_ms, is_named):
    wrong = deviations(LINK, rate_mbit, 0.0, TOLERANCES, FULL, ("round trip", rtt_ms, 10, 0.0))
    text = str(OutOfTolerance("the emulated link of host h1", LINK, "tbf+netem", wrong))
    assert ", ".join(wrong) in text
    assert ("--dilation" in text) == is_named
    assert text.endswith(".")
