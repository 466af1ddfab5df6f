"""A link and how time dilation changes it."""

from ddlbench.network.link import Link


def test_a_dilated_link_is_slower_and_loses_as_much():
    assert Link(400, 10, 1).dilated(4) == Link(100, 40, 1)
    assert Link(400, 10, 1).dilated(1) == Link(400, 10, 1)
    assert Link(400, 10, 1, 3).dilated(2) == Link(200, 20, 1, 6)


def test_dilation_keeps_what_is_in_flight():
    link = Link(300, 25)
    dilated = link.dilated(3)
    assert dilated.bandwidth_mbit * dilated.latency_ms == link.bandwidth_mbit * link.latency_ms


def test_a_link_tells_itself_in_words_and_in_numbers_by_name():
    link = Link(400, 2.5, 0.1)
    assert str(link) == "400 Mbit/s, 2.5 ms, 0.1 % loss"
    assert link.as_dict() == {"bandwidth_mbit": 400, "latency_ms": 2.5, "loss_percent": 0.1}
    assert Link(**link.as_dict()) == link


def test_jitter_is_told_where_there_is_some():
    link = Link(400, 10, 0, 2)
    assert str(link) == "400 Mbit/s, 10 +- 2 ms, 0 % loss"
    assert Link(**link.as_dict()) == link
