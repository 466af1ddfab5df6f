"""`ddlbench import`: tables from others."""

import gzip
import os
import zipfile
from pathlib import Path

import pandas
import pyarrow
import pytest
from pyarrow import parquet

from ddlbench.cli.main import main
from ddlbench.errors import DdlbenchError
from ddlbench.prediction.foreign import files
from ddlbench.prediction.foreign.files import read_foreign
from ddlbench.prediction.foreign.imported import is_imported, read_imported
from ddlbench.prediction.foreign.table import import_table
from ddlbench.prediction.measured import from_files

# The rows that anwar2021 prints (table 4).
PRINTED = """Workers,Batch Size,Latency,Time Per Epoch
4,"64,000",0,419
4,"32,000",0,220
4,6400,0,57
3,"64,000",0,503
3,"32,000",0,265
2,6400,20,90
2,2560,20,41
1,6400,0,96
1,2560,0,39
"""


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def imported(text, tmp_path, **options):
    path = tmp_path / "table.csv"
    path.write_text(text)
    return import_table(read_foreign(path), path, **options)


def test_the_printed_rows_are_taken_as_they_are_printed(tmp_path, capsys):
    (tmp_path / "anwar.csv").write_text(PRINTED)
    assert main(["import", "anwar.csv"]) == 0
    assert capsys.readouterr().out == (
        "columns: workers from 'Workers', batch_size from 'Batch Size', latency from 'Latency' in ms, "
        "epoch_time from 'Time Per Epoch' in s\n"
        "9 rows (times of epochs) in imported/anwar.csv\n"
    )
    measured, per = read_imported(tmp_path / "imported/anwar.csv")
    assert per == "epoch"
    first = measured[0]
    assert (first.cell.workers, first.cell.batch_size, first.cell.latency_ms) == (4, 64000, 0)
    assert (first.time_ms, first.source) == (419_000, "anwar.csv: line 2")
    assert is_imported(tmp_path / "imported/anwar.csv")


def test_the_name_of_what_was_measured_here_is_no_name_for_a_table_of_others(tmp_path, capsys):
    (tmp_path / "here.csv").write_text(PRINTED)
    assert main(["import", "here.csv"]) == 2
    assert "--output imported/theirs.csv" in capsys.readouterr().err
    assert not (tmp_path / "imported").exists()
    assert main(["import", "here.csv", "--output", "imported/theirs.csv"]) == 0
    assert main(["import", "here.csv", "--output", "other/here.csv"]) == 0


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("folder", "folder is not the name of a file"),
        (".", ". is not the name of a file"),
        ("file/theirs.csv", "cannot write into file/ (Not a directory)"),
        ("file/below/theirs.csv", "cannot write into file/ (Not a directory)"),
    ],
)
def test_an_output_that_cannot_be_written_is_told_before_the_table_is_read(tmp_path, capsys, output, message):
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "table.csv").write_text("no table")
    assert main(["import", "table.csv", "--output", output]) == 2
    assert capsys.readouterr().err == f"ddlbench: --output {output}: {message}\n"


def test_folders_of_the_output_are_made(tmp_path):
    (tmp_path / "table.csv").write_text(PRINTED)
    assert main(["import", "table.csv", "--output", "new/below/theirs.csv"]) == 0
    assert is_imported(tmp_path / "new/below/theirs.csv")


def test_each_bad_row_is_named_by_its_line_and_left_out(tmp_path, capsys):
    rows = [
        "workers,batch,latency,epoch_time,accuracy",
        "4,64,0,10,0.5",
        "3,64,0,nan,0.5",
        "2,64,0,,0.5",
        "",
        "1.5,64,0,10,0.5",
        "2,64,-20,10,0.5",
        "2,64,40,50,2.1095",
        "4,64,0,10,0.5",
        "2,x\u00e9,0,10,0.5",
        "2,64,0",
        "2,64,20 s,10 ms,0.5",
        *(f"{n},64,20,{n},0.5" for n in range(5, 12)),
    ]
    (tmp_path / "table.csv").write_text("\n".join(rows))
    assert main(["import", "table.csv"]) == 0
    shown = capsys.readouterr()
    assert "9 rows" in shown.out
    assert "8 rows left out" in shown.out
    expected = {
        3: "epoch_time is 'nan', which is no number",
        4: "epoch_time is empty",
        6: "workers is 1.5, which is no whole number",
        7: "latency is -20, expected 0 to 100000",
        8: "accuracy is 2.1095 (of 1), expected 0 to 100 %",
        9: "is the same as line 2",
        10: "batch_size is 'xé', which is no number",
        11: "epoch_time is empty",
    }
    assert shown.err.splitlines() == [
        f"table.csv: line {line} is left out: {why}" for line, why in expected.items()
    ]


def test_a_row_with_more_cells_than_columns_is_a_mistake_and_blanks_at_its_end_are_none(tmp_path):
    rows = [
        "workers,batch_size,latency,time_per_epoch",
        "3,64,000,20,524",
        "4,64000,20,547,, ",
        "2,64,0,7,,x",
    ]
    found = imported("\n".join(rows), tmp_path)
    assert [each.time_ms for each in found.measured] == [547_000]
    assert found.mistakes == [
        (2, "has 5 cells, where the header names 4 columns"),
        (4, "has 6 cells, where the header names 4 columns"),
    ]


def test_every_bad_row_is_named_however_many_there_are(tmp_path, capsys):
    (tmp_path / "table.csv").write_text("workers,batch,step_time\n1,64,10\n" + "0,64,10\n" * 1000)
    assert main(["import", "table.csv"]) == 0
    shown = capsys.readouterr()
    assert "1000 rows left out" in shown.out
    assert len(shown.err.splitlines()) == 1000


def test_mixed_units_are_told_apart_by_the_cell_the_name_or_the_usual_one(tmp_path):
    text = "workers;batch;Delay (s);step_time\n2;64;0.02;1.5 s\n2;64;20ms;80\n2;64;20 Mbit/s;80\n"
    found = imported(text, tmp_path)
    assert [each.cell.latency_ms for each in found.measured] == [20, 20]
    assert [each.time_ms for each in found.measured] == [1500, 80]
    assert found.mistakes == [(4, "latency is '20 Mbit/s', whose unit 'Mbit/s' does not fit")]


def test_a_comma_that_may_be_a_decimal_one_is_no_thousand(tmp_path):
    rows = ["1;64;55,123", "2;64;1,234,567", "3;64;1,234.5", "4;64;55.123", "5;64;0,5"]
    found = imported("\n".join(["workers;batch;step_time", *rows]), tmp_path)
    assert [each.time_ms for each in found.measured] == [1_234_567, 1234.5, 55.123]
    assert [line for line, _ in found.mistakes] == [2, 6]
    assert all("may be a decimal one" in mistake for _, mistake in found.mistakes)


def test_a_point_that_may_stand_between_thousands_is_no_decimal_one_unless_another_is(tmp_path):
    text = "workers;batch;step_time\n1;64.000;5\n2;64000;0{}5\n"
    found = imported(text.format(""), tmp_path)
    assert [line for line, _ in found.mistakes] == [2]
    assert "may stand between thousands" in found.mistakes[0][1]
    assert [each.cell.batch_size for each in imported(text.format("."), tmp_path).measured] == [64, 64000]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_quote_that_is_not_closed_loses_its_own_line_alone(tmp_path, end):
    rows = ["workers,batch,step_time", "1,64,10", '2,"64,20', '3,"6,400",30', "", "4,64,x", '5,"64", 50']
    found = imported(end.join(rows), tmp_path)
    assert [each.cell.batch_size for each in found.measured] == [64, 6400, 64]
    assert found.mistakes == [
        (3, "has a quote that is not closed on the same line"),
        (6, "step_time is 'x', which is no number"),
    ]
    with pytest.raises(DdlbenchError, match="line 1 has a quote"):
        imported(end.join(['workers,"batch,step_time', *rows[1:]]), tmp_path)


def test_epochs_become_steps_where_the_number_of_images_is_known(tmp_path):
    found = imported("workers,batch,epoch_time\n1,600,50\n", tmp_path, images=60_000)
    assert (found.per, found.measured[0].time_ms) == ("step", 500)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no rows"),
        (b"workers,batch,epoch_time\n", "no rows"),
        (b"workers,batch,epoch_time\n1,2,\xff\n", "line 2 is no text in UTF-8"),
        (b"workers,batch,epoch_time\n1,x,3\n", "no row is good; line 2: batch_size"),
        (b"workers,batch,epoch_time\n1,2,\x003\n", "line 2"),
        (b"PAR1 and no more", "Parquet"),
        (gzip.compress(b"0" * 10**7), "packed"),
    ],
)
def test_what_is_no_table_is_refused(tmp_path, capsys, content, message):
    (tmp_path / "table.csv").write_bytes(content)
    assert main(["import", "table.csv"]) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "imported").exists()


def test_a_zip_bomb_is_not_unpacked(tmp_path, capsys):
    with zipfile.ZipFile(tmp_path / "bomb.csv", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("table.csv", b"0" * 10**8)
    assert main(["import", "bomb.csv"]) == 1
    assert "unpack it" in capsys.readouterr().err


def test_a_gigabyte_is_refused_before_it_is_read(tmp_path, capsys):
    with (tmp_path / "large.csv").open("wb") as file:
        os.truncate(file.fileno(), 1 << 30)
    assert main(["import", "large.csv"]) == 1
    assert "larger than 64 MiB" in capsys.readouterr().err


def test_parquet_is_read_like_csv(tmp_path, capsys):
    table = {"workers": [1, 2, None], "batch_size": [64, 64, 64], "step_time_ms": [10.0, 6.0, 4.0]}
    pandas.DataFrame(table | {"model": ["mlp", "mlp", "mlp"]}).to_parquet(tmp_path / "table.parquet")
    assert main(["import", "table.parquet"]) == 0
    assert "row 3 is left out: workers is empty" in capsys.readouterr().err
    measured, _ = read_imported(tmp_path / "imported/table.csv")
    assert [(each.cell.workers, each.cell.model, each.time_ms) for each in measured] == [
        (1, "mlp", 10),
        (2, "mlp", 6),
    ]


@pytest.mark.parametrize(("seconds", "zone"), [(1 << 40, None), (0, "Nowhere/Land")])
def test_a_parquet_file_with_times_that_nobody_can_write_down_is_refused(tmp_path, seconds, zone):
    when = pyarrow.array([seconds], pyarrow.timestamp("s", zone))
    parquet.write_table(pyarrow.table({"workers": [1], "when": when}), tmp_path / "table.parquet")
    with pytest.raises(DdlbenchError, match="this Parquet file cannot be read"):
        read_foreign(tmp_path / "table.parquet")


def test_a_small_parquet_file_of_many_rows_is_refused(tmp_path):
    path = tmp_path / "bomb.parquet"
    pandas.DataFrame({"workers": [1] * (files.MOST_ROWS + 1)}).to_parquet(path)
    assert path.stat().st_size < 100_000
    with pytest.raises(DdlbenchError, match="more than 100000 rows"):
        read_foreign(path)


def test_empty_lines_count_as_rows_too(tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text("workers\n1\n" + "\n" * files.MOST_ROWS)
    with pytest.raises(DdlbenchError, match="more than 100000 rows"):
        read_foreign(path)


def test_a_parquet_file_of_one_long_repeated_text_stays_small_in_memory(tmp_path):
    path = tmp_path / "bomb.parquet"
    repeated = pyarrow.DictionaryArray.from_arrays([0] * 50_000, ["m" * 10**6])
    parquet.write_table(pyarrow.table({"model": repeated}), path, store_schema=False)
    assert path.stat().st_size < 10**6
    assert len(read_foreign(path).rows[0][1][0]) == 200


@pytest.mark.parametrize("changed", ["much", "0", "1e-300"])
def test_an_imported_table_that_somebody_changed_is_refused(tmp_path, changed):
    (tmp_path / "anwar.csv").write_text(PRINTED)
    main(["import", "anwar.csv"])
    path = tmp_path / "imported/anwar.csv"
    path.write_text(path.read_text().replace("419000.0", changed))
    with pytest.raises(DdlbenchError, match="delete it and import it again"):
        read_imported(path)


def test_an_imported_table_is_not_replaced_by_another_of_the_same_name(tmp_path, capsys):
    for folder, text in (("a", PRINTED), ("b", PRINTED.replace("419", "1"))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "data.csv").write_text(text)
    assert main(["import", "a/data.csv"]) == main(["import", "a/data.csv"]) == 0
    first = Path("imported/data.csv").read_text()
    assert main(["import", "b/data.csv"]) == 1
    assert "another table of that name" in capsys.readouterr().err
    assert Path("imported/data.csv").read_text() == first
    assert main(["import", "b/data.csv", "--output", "imported/other.csv"]) == 0


def test_an_imported_table_that_is_named_twice_counts_once(tmp_path):
    (tmp_path / "anwar.csv").write_text(PRINTED)
    main(["import", "anwar.csv"])
    once = from_files([Path("imported/anwar.csv")])
    assert from_files([Path("imported/anwar.csv"), tmp_path / "imported/anwar.csv"]) == once
