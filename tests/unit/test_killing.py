"""Faults as a study asks for them: whom they kill, what counts as which outcome, how the outcomes are drawn."""

import copy
from collections.abc import Mapping
from typing import Any

import pandas as pd
import pytest
from made_up_tables import figure

from ddlbench.errors import ConfigError
from ddlbench.figures import captioning, draw, drawing, drawn_rows
from ddlbench.launch.roles import members
from ddlbench.measurements import faults
from ddlbench.measurements.faults import Fate
from ddlbench.plan import load
from ddlbench.protocol.messages import TestResult
from ddlbench.runs.faults import in_words, victims
from tests.support.small_study import small_repository, write_study

DEATHS = {
    "hosts": "four", "workers": 3, "model": "mlp", "dataset": "digits", "batch_size": 48, "link": "gigabit",
    "strategy": ["ring_allreduce", "parameter_server_async"], "kill": [0, 1, "server"], "at_step": 10, "steps": 30,
    "timeout_s": 20,
}  # fmt: skip
FIGURE = {
    "kind": "faults", "faults": ["deaths"], "title": "Faults", "x": "killed", "y": "outcome", "category": "Faults",
    "caption": "The paper shows nothing.",
}  # fmt: skip


def plan_with(root, deaths: Mapping[str, Any] = {}, shown: Mapping[str, Any] = {}):
    settings, study = small_repository(root)
    study["faults"] = {"deaths": {**DEATHS, **deaths}}
    study["figures"]["small2000_faults"] = {**copy.deepcopy(FIGURE), **shown}
    write_study(root, study)
    return load(settings, root)


# ------------------------------------------------------------------------------------------------ what is asked for


def test_each_point_of_a_fault_has_a_table_from_which_its_figure_is_drawn(tmp_path):
    plan = plan_with(tmp_path)
    assert [fault.point.strategy for fault in plan.faults.values()] == DEATHS["strategy"]
    assert plan.figures["small2000_faults"].tables == tuple(f"faults/{name}.csv" for name in plan.faults)
    assert all(name.startswith("small2000/deaths/torch-") for name in plan.faults)
    assert plan.runs_of("small2000_faults") == ()  # nothing else is measured for it


@pytest.mark.parametrize(
    ("deaths", "expected"),
    [
        ({"kill": [3]}, "faults.deaths.kill[0]: killing 3 of 3 workers leaves nobody to see what happens"),
        ({"kill": ["servers"]}, "faults.deaths.kill[0]"),
        ({"at_step": 30}, "faults.deaths.at_step: 30 leaves none of the 30 steps to the survivors"),
        ({"strategy": "parameter_server_device_sync"}, "torch has no parameter_server_device_sync"),
        ({"workers": 5}, "faults.deaths.workers: 5 workers need 5 hosts, but hosts.four has 4"),
        ({"timeout_s": 0}, "faults.deaths.timeout_s"),
        ({"timeout": 1}, "faults.deaths.timeout: there is no such key"),
    ],
)
def test_a_fault_that_cannot_be_is_refused_by_its_place(tmp_path, deaths, expected):
    with pytest.raises(ConfigError) as refused:
        plan_with(tmp_path, deaths)
    assert expected in str(refused.value)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ({"faults": ["death"]}, "'death' is not a fault"),
        ({"grids": ["latency"]}, "grids: has no place in a table of faults"),
        ({"y": "step_time_ms"}, "'step_time_ms' cannot be shown by a table of faults"),
        ({"kind": "line"}, "grids: is missing"),
    ],
)
def test_a_figure_of_faults_shows_faults_and_nothing_else(tmp_path, shown, expected):
    with pytest.raises(ConfigError) as refused:
        plan_with(tmp_path, shown=shown)
    assert expected in str(refused.value)


@pytest.mark.parametrize("framework", ["torch", "tensorflow", "mxnet"])
def test_the_last_workers_are_killed_or_who_holds_the_parameters(framework):
    group = members(framework, "parameter_server_async", 3, 4)
    assert victims(group, 0) == []
    assert victims(group, 2) == [1, 2]
    (server,) = victims(group, "server")
    assert group[server].role == ("ps" if framework == "tensorflow" else "server")
    assert victims(members("torch", "ring_allreduce", 3, 4), "server") == []
    assert [in_words(whom) for whom in (0, 1, 2, "server")] == [
        "nobody",
        "1 worker",
        "2 workers",
        "the server",
    ]


# ------------------------------------------------------------------------------------------------ outcomes


FINISHED = Fate("rank 0", 3.0, has_finished=True)
AT_ONCE = Fate("rank 1", 0.5, ended="status 1", log_end="\n    RuntimeError: peer closed\n    At:\n    ")
AFTER_TIMEOUT = Fate("rank 1", 20.3, ended="status 1", log_end="timed out")
SILENT = Fate("rank 2", 30.0)


@pytest.mark.parametrize(
    ("survivors", "expected"),
    [
        ([FINISHED, FINISHED], faults.WENT_ON),
        ([FINISHED, AT_ONCE], faults.DIED),  # a server may be content while workers die
        ([AT_ONCE, SILENT], faults.HUNG),
        ([FINISHED, AFTER_TIMEOUT], faults.HUNG),
    ],
)
def test_survivors_go_on_only_if_all_do_and_hang_if_one_does(survivors, expected):
    assert faults.outcome(survivors, timeout_s=20.0) == expected


CONDITIONS = {
    "framework": "torch", "strategy": "parameter_server_sync", "model": "mlp", "dataset": "digits", "batch_size": 48,
    "workers": 3, "fabric": "emulated", "at_step": 10, "steps": 30, "timeout_s": 20.0, "dilation": 2.0,
    "host": "made-up CPU, 2 cores",
}  # fmt: skip


def row(killed: str, survivors: list[Fate], **more: Any) -> faults.Row:
    tested = TestResult(0.25, 93.25) if survivors == [FINISHED] else None
    return faults.row(
        killed, [Fate("rank 2", 0.0)], survivors, tested=tested, conditions={**CONDITIONS, **more}
    )


def test_a_row_says_what_happened_when_and_what_the_first_to_die_said():
    died = row("1 worker", [AT_ONCE, AFTER_TIMEOUT])
    assert (died["outcome"], died["after_s"], died["steps_done"]) == ("hung", 20.3, 10)
    assert died["last_log_line"] == "RuntimeError: peer closed"
    assert died["ended"] == "rank 1: status 1 after 0.5 s; rank 1: status 1 after 20.3 s"
    assert died["killed_members"] == "rank 2"
    assert row("nobody", [FINISHED])["steps_done"] == 30


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "Traceback\n  torch.distributed.DistBackendError: timed out: x\nAt:\n  hooks.py(31)",
            "torch.distributed.DistBackendError: timed out: x",
        ),
        (
            "Collective ops is aborted by: Connection reset by peer\n[[{{node cond}}]]",
            "Collective ops is aborted by: Connection reset by peer",
        ),
        ("going on\n\n", "going on"),
        ("", ""),
    ],
)
def test_of_a_log_that_line_is_told_that_names_the_error(log, expected):
    assert row("1 worker", [Fate("rank 0", 1.0, ended="status 1", log_end=log)])["last_log_line"] == expected


@pytest.fixture
def table(tmp_path) -> pd.DataFrame:
    """Made-up outcomes, as they are read from a table. NOT measurements."""
    rows = [
        row("nobody", [FINISHED]),
        row("1 worker", [AFTER_TIMEOUT]),
        row("the server", [AT_ONCE]),
        row("nobody", [FINISHED], strategy="ring_allreduce"),
        {**CONDITIONS, "killed": "1 worker", "strategy": "ring_allreduce", "status": "not_available"},
    ]
    (tmp_path / "table.csv").write_text(faults.as_csv(rows))
    return pd.read_csv(tmp_path / "table.csv")


def layers(plot):
    return [layer.geom.data for layer in plot.layers if type(layer.geom).__name__ == "geom_text"]


def test_each_outcome_is_a_cell_with_its_time_and_accuracy_and_what_cannot_be_killed_says_so(table, tmp_path):
    shown = figure("small2000_faults", "killed", "outcome", kind="faults", grids=())
    plot = drawing(shown)(table, shown)
    texts = {text for data in layers(plot) for text in data["text"]}
    assert {"went on", "hung", "died"} <= texts
    notes = {note for data in layers(plot) for note in data["note"]}
    assert {"3.0 s, 93.2 %", "20.3 s", "0.5 s", "has none", "not available"} <= notes
    assert len(drawn_rows(plot)) == len(table)
    caption = captioning(shown)(table, shown)
    assert "1 worker killed: timed out" in caption
    files = [tmp_path / f"small2000_faults{ending}" for ending in (".svg", ".png", ".csv", ".caption.rst")]
    draw(shown.name, [table], shown, files)
    assert all(file.exists() for file in files)
