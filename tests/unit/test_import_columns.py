"""`ddlbench import`: which column of a table is what, in which unit."""

import pytest
from test_import import imported

from ddlbench.cli.main import main
from ddlbench.errors import DdlbenchError
from ddlbench.prediction.foreign.files import read_foreign
from ddlbench.prediction.foreign.imported import read_imported
from ddlbench.prediction.foreign.table import import_table
from ddlbench.prediction.question import Unanswerable
from ddlbench.recommender.uploads import Upload, checked
from tests.support.repository import REPOSITORY


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("header", "time_ms", "loss_percent", "unused"),
    [
        ("step_time,loss", 4, 0, "'loss'"),
        ("step_time,loss_percent", 4, 2, ""),
        ("step_time,loss_s", 4, 0, "'loss_s'"),
        ("step_time,epoch", 4, 0, "'epoch'"),
        ("epoch,step_time", 2, 0, "'epoch'"),
        ("step_time,step_time_min", 4, 0, "'step_time_min'"),
        ("step_time,epoch_time", 4, 0, "'epoch_time'"),
        ("Step time (min),note", 240_000, 0, "'note'"),
        ("Step time (µs),note", 0.004, 0, "'note'"),
        ("Step time (μs),note", 0.004, 0, "'note'"),
        ("step_time,Bandwidth (MBps)", 4, 0, "'Bandwidth (MBps)'"),
    ],
)
def test_a_name_that_may_be_of_something_else_is_not_used_and_that_is_said(
    tmp_path, capsys, header, time_ms, loss_percent, unused
):
    (tmp_path / "table.csv").write_text(f"workers,batch,{header}\n1,8,4,2\n")
    assert main(["import", "table.csv"]) == 0
    assert capsys.readouterr().out.splitlines()[0].partition("not used: ")[2] == unused
    ((found,), _) = read_imported(tmp_path / "imported/table.csv")
    assert (found.time_ms, found.cell.loss_percent) == (time_ms, loss_percent)


def test_what_may_be_of_something_else_is_used_where_it_is_said_to_be_ours(tmp_path):
    given = {"epoch_time": "epoch", "loss": "loss"}
    (found,) = imported("workers,batch,epoch,loss\n1,8,4,2\n", tmp_path, given=given).measured
    assert (found.time_ms, found.cell.loss_percent) == (4000, 2)


def test_rows_need_no_number_in_a_column_of_times_that_is_not_used(tmp_path):
    found = imported("workers,batch,epoch_time,step_time\n1,8,0,5\n", tmp_path)
    assert ([each.time_ms for each in found.measured], found.mistakes) == ([5], [])


@pytest.mark.parametrize(
    ("name", "message"),
    [("step_time_min", "minutes, or a minimum"), ("rate_mbit", "which is no unit of step_time")],
)
def test_a_column_whose_unit_is_unclear_or_wrong_is_refused(tmp_path, capsys, name, message):
    (tmp_path / "table.csv").write_text(f"workers,batch,{name}\n1,8,2\n")
    assert main(["import", "table.csv", "--column", f"step_time={name}"]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "imported").exists()


@pytest.mark.parametrize(
    "name", ["bandwidth_mbit_s", "Bandwidth (Mbit/s)", "rate_mbit_per_s", "link rate mbit"]
)
def test_a_rate_is_found_however_its_unit_is_written(tmp_path, name):
    (found,) = imported(f"workers,batch,step_time,{name}\n2,8,5,400\n", tmp_path).measured
    assert found.cell.bandwidth_mbit == 400


@pytest.mark.parametrize("name", ["rate (MBps)", "rate_GB/s"])
def test_a_rate_that_may_be_in_bytes_is_refused_where_it_is_said_to_be_the_bandwidth(tmp_path, name):
    with pytest.raises(DdlbenchError, match="may be in bytes a second"):
        imported(f"workers,batch,step_time,{name}\n2,8,5,400\n", tmp_path, given={"bandwidth": name})


def test_a_number_with_a_unit_of_bytes_is_a_mistake_of_its_row_and_micro_is_read_however_it_is_written(
    tmp_path,
):
    text = "workers,batch,step_time,rate_mbit\n2,8,5 μs,100 Mbps\n2,8,5 µs,100 MBps\n"
    found = imported(text, tmp_path)
    assert [(each.time_ms, each.cell.bandwidth_mbit) for each in found.measured] == [(0.005, 100)]
    assert [line for line, _ in found.mistakes] == [3]


def test_percent_and_fractions_of_accuracy_are_told_by_most_rows(tmp_path):
    def of(*accuracies):
        rows = [f"{workers},8,5,{accuracy}" for workers, accuracy in enumerate(accuracies, 1)]
        return imported("\n".join(["workers,batch,step_time,acc", *rows]), tmp_path)

    assert [each.accuracy_percent for each in of(97, 98, 0.9).measured] == [97, 98, 0.9]
    assert [each.accuracy_percent for each in of(0.97, "").measured] == [97, None]
    fractions = of(0.97, 0.96, 2.1, 0.97, 0.95, 0.96)
    assert [each.accuracy_percent for each in fractions.measured] == [97, 96, 97, 95, 96]
    assert fractions.mistakes == [(4, "accuracy is 2.1 (of 1), expected 0 to 100 %")]
    with pytest.raises(DdlbenchError, match="fractions, or percent"):
        of(0.97, 2.1)


def test_the_example_is_taken_whole_and_says_which_rows_the_paper_does_not_print():
    path = REPOSITORY / "config/examples/anwar2021_printed.csv"
    table = read_foreign(path)
    found = import_table(table, path)
    assert (len(found.measured), found.mistakes, found.unused) == (12, [], ["from"])
    others = {int(cells[3]) for _, cells in table.rows if "not in the paper" in cells[4]}
    assert others == {524, 547, 761}


def test_columns_are_mapped_by_options_and_a_header_can_be_given(tmp_path, capsys):
    (tmp_path / "bare.csv").write_text("4,64000,0,6,419,0.42\n3,64000,0,7,503,0.48\n")
    arguments = ["import", "bare.csv", "--header", "n,batch,delay_ms,t1,t2_s,acc"]
    assert main([*arguments, "--column", "workers=n", "--column", "epoch_time=t2_s"]) == 0
    (first, _), per = read_imported(tmp_path / "imported/bare.csv")
    assert (first.time_ms, first.accuracy_percent, first.source, per) == (
        419_000,
        42,
        "bare.csv: line 1",
        "epoch",
    )
    assert main([*arguments, "--column", "wokers=n"]) == 2
    assert "did you mean 'workers'" in capsys.readouterr().err


def test_a_column_of_ours_that_there_is_not_is_named_to_the_server_too(tmp_path):
    (tmp_path / "sent").write_text("n,batch,step_time\n1,8,2\n")
    upload = Upload("theirs", ["wokers=n"], None, None, False)
    with pytest.raises(Unanswerable, match="did you mean 'workers'") as refused:
        checked(upload, tmp_path / "sent", tmp_path)
    assert refused.value.key == "column"


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("workers,epoch_time", "no column is batch_size"),
        ("workers,batch", "no column is step_time or epoch_time"),
        ("workers,nodes,batch,epoch_time", "'workers' and 'nodes' may both be workers"),
    ],
)
def test_a_missing_or_double_column_is_named_and_nothing_is_written(tmp_path, capsys, header, message):
    (tmp_path / "table.csv").write_text(f"{header}\n1,2,3,4\n")
    assert main(["import", "table.csv"]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "imported").exists()
