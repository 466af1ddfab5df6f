"""Figures of telemetry, on made-up tables: what they show and what they say."""

import re

import pandas as pd
import pytest
from made_up_tables import POINT, POINT_FACTS, figure

from ddlbench.errors import ConfigError
from ddlbench.figures import captioning, draw, drawing, drawn_rows
from ddlbench.telemetry.series import RATES


def made_up(workers=(2,), *, server=False, intervals=5, missing=(), **changed):
    """A table of points, a tenth of a second an interval. NOT measurements."""
    rows = []
    for count in workers:
        point = {**POINT, **POINT_FACTS, "workers": count, "point_id": f"{count}w", **changed}
        if count in missing:
            rows.append({**point, "status": "not_available", "reason": f"no {count} workers here"})
            continue
        roles = ["worker"] * count + ["server"] * server
        same = {"status": "measured", "reason": None, "repetition": 2, "steps": 40, "dilation": count / 2}
        same |= {"hertz": 10, "sampler_core_percent": 0.4, "interval_s": 0.1}
        for number, role in enumerate(roles, 1):
            for interval in range(intervals):
                values = dict.fromkeys(RATES, 10.0 * number + interval)
                at = {"node": f"h{number}", "role": role, "time_s": 0.05 + 0.1 * interval}
                rows.append({**point, **same, **at, **values})
    return pd.DataFrame(rows)


def shown(y="cpu_percent", **more):
    return figure("small2000_fig9", "time_s", y, kind="telemetry", **more)


def drawn(table, of):
    return drawn_rows(drawing(of)(table, of))


def test_each_node_is_a_line_called_by_what_it_does():
    rows = drawn(made_up((10,), server=True), shown())
    assert list(rows["series"].cat.categories) == ["server", *(f"worker {number}" for number in range(1, 11))]


def test_a_node_keeps_its_name_where_its_host_does_something_else_in_another_run():
    rows = drawn(made_up((2, 4), server=True), shown())
    third = rows[rows["node"] == "h3"]
    assert dict(zip(third["workers"], third["series"], strict=True)) == {2: "server", 4: "worker 3"}


def test_runs_come_end_to_end_the_fewest_workers_first():
    rows = drawn(made_up((6, 2, 4)), shown("sent_packets_per_s"))
    first = rows.groupby("workers")[["begins_s", "ends_s"]].first()
    assert list(first["begins_s"]) == pytest.approx([0, 0.5, 1.0])
    assert list(first["ends_s"]) == pytest.approx([0.5, 1.0, 1.5])
    assert (rows["time_s"] > rows["begins_s"]).all()


def test_where_chooses_the_run():
    rows = drawn(made_up((2, 4)), shown(where={"workers": (4,)}))
    assert set(rows["workers"]) == {4}


def test_two_points_in_one_place_are_refused():
    table = pd.concat([made_up(), made_up(model="conv2", point_id="other")])
    with pytest.raises(ConfigError, match="2 points have 2 workers"):
        drawn(table, shown())


def test_what_must_be_said_is_in_the_picture_and_in_the_caption(tmp_path):
    files = [
        tmp_path / f"small2000_fig9{ending}" for ending in (".svg", ".pdf", ".png", ".csv", ".caption.rst")
    ]
    draw("small2000_fig9", [made_up((2, 4))], shown(), files)
    for file in (files[0], files[-1]):
        text = without_tags(file.read_text())
        for words in (
            "Emulated hosts and network",
            "1 (2 workers), 2 (4 workers)",
            "10 samples a",
            "0.4 %",
            "number 3",
        ):
            assert words in text
    assert "The paper shows something." in files[-1].read_text()


def test_replayed_compute_is_said_with_its_device_and_what_is_uneven_or_shared():
    text = captioning(shown())(drawn(made_up((2, 4)), shown()), shown())
    assert "replayed" not in text
    assert "share of one" in text
    of = {"replay": "K80, fp32 (computed)", "replayed_compute_ms": 78.8, "uneven": "host 2 is twice as slow"}
    table = made_up((2, 4), **of, workers_per_host=2, inside="pcie3-x16")
    table.loc[table["workers"] == 2, "replay"] = None
    text = captioning(shown())(drawn(table, shown()), shown())
    assert "Compute is replayed (1 of 2 points): K80, fp32 (computed)." in text
    assert "Hosts are uneven: host 2 is twice as slow." in text
    assert "2 workers share a host and its network card, with pcie3-x16 between them." in text
    assert "share of one" not in text


def without_tags(text: str) -> str:
    """The words of a picture, whose lines are elements of their own."""
    return " ".join(re.sub("<[^>]*>", " ", text).split())


@pytest.mark.parametrize("intervals", [1, 2, 100])
def test_any_number_of_intervals_can_be_drawn(tmp_path, intervals, recwarn):
    draw("small2000_fig9", [made_up(intervals=intervals)], shown(), [tmp_path / "small2000_fig9.png"])
    assert [str(each.message) for each in recwarn] == []


def test_a_run_that_is_missing_is_a_gap_with_its_reason_between_the_others(tmp_path):
    table = made_up((2, 4, 6), missing=(4,))
    rows = drawn(table, shown())
    gap = rows[rows["workers"] == 4].iloc[0]
    assert (gap["begins_s"], gap["ends_s"]) == pytest.approx((0.5, 1.0))
    assert "Not shown: 4 workers (no 4 workers here)" in captioning(shown())(rows, shown())
    draw("small2000_fig9", [table], shown(), [tmp_path / "small2000_fig9.svg"])
    assert "no 4 workers here" in (tmp_path / "small2000_fig9.svg").read_text()


def test_a_figure_of_nothing_says_why(tmp_path):
    draw("small2000_fig9", [made_up(missing=(2,))], shown(), [tmp_path / "small2000_fig9.svg"])
    assert "no 2 workers here" in (tmp_path / "small2000_fig9.svg").read_text()


def test_packets_of_nodes_that_share_a_network_are_a_gap_and_not_a_guess():
    table = made_up().assign(sent_packets_per_s=None)
    text = captioning(shown())(drawn(table, shown("sent_packets_per_s")), shown("sent_packets_per_s"))
    assert "cannot be told apart" in text
