"""What a worker group leaves of its time is for the groups of the same invocation."""

import json

from ddlbench.runs.invocation import Invocation
from ddlbench.runs.time_left import TimeLeft

FIRST, SECOND = Invocation(("a", "b"), 17, 1000.0), Invocation(("a", "b"), 17, 2000.0)


def test_the_next_group_of_an_invocation_has_what_the_last_one_left(tmp_path):
    spent = tmp_path / "session.json"
    spent.write_text(json.dumps({"left_s": 2.5}))
    first = TimeLeft(tmp_path / "left.json", FIRST)
    assert first.seconds == 0
    first.update(spent)
    assert TimeLeft(tmp_path / "left.json", FIRST).seconds == 2.5
    assert TimeLeft(tmp_path / "left.json", SECOND).seconds == 0


def test_a_file_that_cannot_be_read_leaves_nothing(tmp_path):
    (tmp_path / "left.json").write_text("{")
    assert TimeLeft(tmp_path / "left.json", FIRST).seconds == 0
