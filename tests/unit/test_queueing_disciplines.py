"""What the kernel did to a link and what it does now, compared in words."""

from ddlbench.network.queueing_disciplines import differences

TBF = {"tbf": {"rate": 100, "limit": 7}}


def test_nothing_changed_is_nothing_to_say():
    assert differences({"link 1": TBF, "link 1 back": TBF}, {"link 1": TBF, "link 1 back": dict(TBF)}) == []


def test_a_changed_number_is_named_with_both_values():
    assert differences({"link 2": TBF}, {"link 2": {"tbf": {"rate": 50, "limit": 7}}}) == [
        "tbf of link 2: rate 100 -> 50"
    ]


def test_what_has_come_or_gone_is_named():
    assert differences({"link 1": TBF}, {"link 1": {"netem": {}}}) == [
        "link 1 has netem now",
        "link 1 has no tbf any more",
    ]
