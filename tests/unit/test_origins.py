"""What was measured on what, or by whom: from the table to the answer."""

import pytest
from prediction_samples import cell, grid, measure

from ddlbench.plan.catalogue import NAMES
from ddlbench.prediction.answer import Answer, as_json, in_words
from ddlbench.prediction.cell import Measured
from ddlbench.prediction.choice import Goal, choose
from ddlbench.prediction.foreign.imported import write_imported
from ddlbench.prediction.measured import FABRICS, from_files
from ddlbench.prediction.predictor import learn

HEADER = (
    "point_id,status,fabric,replay,framework,strategy,runtime,devices,model,image_shape,"
    "batch_size,workers,step_time_ms"
)
K80 = '"K80 (one half), fp32 (computed)"'


def test_each_fabric_has_its_words():
    assert FABRICS.keys() == {*NAMES["fabric"]}


@pytest.mark.parametrize(
    ("fabric", "replay", "origin"),
    [
        ("emulated", "", "on emulated hosts"),
        (
            "emulated",
            K80,
            "on emulated hosts with compute replayed by a profile of K80 (one half), fp32 (computed)",
        ),
        ("infiniband", "", "on a cluster over InfiniBand"),
        ("", "", ""),
    ],
)
def test_a_table_says_what_was_real(tmp_path, fabric, replay, origin):
    row = f"a,measured,{fabric},{replay},torch,ring_allreduce,bare,cpu,conv1,28x28x1,128,2,25.5"
    (tmp_path / "fig.csv").write_text(f"{HEADER}\n{row}\n")
    assert [each.origin for each in from_files([tmp_path / "fig.csv"]).measured] == [origin]


def test_a_table_of_others_is_theirs(tmp_path):
    write_imported(tmp_path / "anwar.csv", [Measured(cell(), 1.0)], "step")
    (found,) = from_files([tmp_path / "anwar.csv"]).measured
    assert found.origin == "by others, in the table anwar"


def test_the_answer_says_what_was_measured_once_and_where_it_differs():
    emulated = [Measured(each.cell, each.time_ms, origin="on emulated hosts") for each in measure(grid())]
    asked = [cell(batch_size=512, workers=workers, latency_ms=20.0) for workers in (1, 2, 5)]
    known = [*emulated, Measured(asked[1], 200.0, origin="by others")]
    options = choose(learn(known), known, asked, Goal())
    answer = Answer(options, Goal(), "step", {}, [])
    first, *others = [line for line in in_words(answer).splitlines() if "for a step" in line]
    assert "(measured on emulated hosts; 90 %" in first
    assert "(measured by others and on emulated hosts; 90 %" in others[0]
    assert "(predicted from what was measured by others and on emulated hosts; 90 %" in others[1]
    assert as_json(answer)["best"]["origin"] == "on emulated hosts"
    same = choose(learn(emulated), emulated, asked, Goal())
    assert in_words(Answer(same, Goal(), "step", {}, [])).count("on emulated hosts") == 1
