"""What is learned from tables: cells with their times, and what did not fit."""

import pytest
from prediction_samples import cell

from ddlbench.errors import DdlbenchError
from ddlbench.prediction.cell import Measured
from ddlbench.prediction.measured import Knowledge, from_files, from_tables

HEADER = (
    "point_id,epoch,status,framework,strategy,runtime,devices,model,image_shape,batch_size,workers,host_count,"
    "vcpus,bandwidth_mbit,latency_ms,loss_percent,step_time_ms,step_time_ms_low,step_time_ms_high"
)
NAMES = "torch,ring_allreduce,bare,cpu,conv1,28x28x1"


def test_a_table_gives_each_measured_point_once(tmp_path):
    rows = [
        f"a,,measured,{NAMES},128,2,4,2,400,10,0,25.5,24,27",
        f"a,,measured,{NAMES},128,2,4,2,400,10,0,25.5,24,27",
        f"b,1,measured,{NAMES},128,2,4,2,400,10,0,99,,",
        f"c,,does_not_fit,{NAMES},128000,2,4,2,400,10,0,,,",
        f"d,,measured,{NAMES},128,1,4,2,,,,51,,",
    ]
    (tmp_path / "fig.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    first, last = from_tables([tmp_path / "fig.csv"])
    assert first == Measured(
        cell(batch_size=128.0, latency_ms=10.0, bandwidth_mbit=400.0, vcpus=2.0, host_count=4),
        *(25.5, 24.0, 27.0, None, "fig: a"),
    )
    assert (last.cell.bandwidth_mbit, last.cell.latency_ms, last.low_ms) == (None, 0.0, None)


@pytest.mark.parametrize(("repetitions", "within"), [(2, 1.1**6.353), (3, 1.1**1.4343)])
def test_the_range_of_few_repetitions_is_no_interval(tmp_path, repetitions, within):
    row = f"a,,measured,{NAMES},128,2,4,2,400,10,0,105,100,110,range,{repetitions}"
    (tmp_path / "fig.csv").write_text(f"{HEADER},bounds,repetitions\n{row}\n")
    (found,) = from_tables([tmp_path / "fig.csv"])
    assert (found.low_ms, found.high_ms) == pytest.approx((105 / within, 105 * within), rel=1e-3)


def test_what_computes_is_the_device_that_is_replayed(tmp_path):
    rows = [
        f"{device},,measured,{NAMES},128,2,4,2,400,10,0,25.5,24,27,{device}"
        for device in ("", "K80, fp32 (computed)", "K80, fp32 (computed, interpolated)")
    ]
    table = tmp_path / "fig.csv"
    table.write_text("\n".join([f"{HEADER},replay", *rows]).replace("K80", '"K80').replace(")", ')"') + "\n")
    assert {each.cell.devices for each in from_tables([table])} == {"cpu", "K80, fp32"}


@pytest.mark.parametrize(
    ("epochs", "batch", "steps"),
    [
        ([",", ","], 256, None),
        (["60000,", ","], 256, 60_000 / 256),
        (["60000,", "60000,"], 256, 60_000 / 256),
        (["60000,", "50000,"], 256, None),
        ([",1563", ",1563"], 128, 1563),
        ([",1563", ",1563"], 256, None),
        ([",1563", "60000,"], 128, None),
        ([",1563", "60000,"], 256, 60_000 / 256),
    ],
)
def test_an_epoch_has_as_many_steps_as_all_studies_of_the_model_say_that_say_it(
    tmp_path, epochs, batch, steps
):
    rows = [
        f"{number},,measured,{NAMES},128,2,4,2,400,10,0,25.5,24,27,{each}"
        for number, each in enumerate(epochs)
    ]
    rows.append("other,,measured,torch,ring_allreduce,bare,cpu,mlp,28x28x1,128,2,4,2,400,10,0,25.5,24,27,5,")
    (tmp_path / "fig.csv").write_text("\n".join([f"{HEADER},epoch_images,epoch_steps", *rows]) + "\n")
    found = from_files([tmp_path / "fig.csv"]).epoch_steps(cell(batch_size=batch))
    assert found == (steps and pytest.approx(steps))


def test_an_epoch_has_as_many_steps_as_a_study_with_the_same_devices_says():
    said = {
        "cpu": {"epoch_images": 60_000.0},
        "K80": {"epoch_images": 50_000.0},
        "V100": {"epoch_steps": 128.0},
    }
    known = Knowledge([Measured(cell(devices=name), 1.0, **each) for name, each in said.items()], [], "step")
    steps = [known.epoch_steps(cell(devices=name)) for name in (*said, "other")]
    assert steps == [60_000 / 128, 50_000 / 128, 128, None]


@pytest.mark.parametrize(
    ("key", "value"), [("sites", "two-sites"), ("uneven", "one-slow"), ("workers_per_host", 8)]
)
def test_points_of_hosts_that_a_cell_cannot_describe_are_not_learned_from(tmp_path, key, value):
    rows = [f"{each},,measured,{NAMES},128,2,4,2,400,10,0,25.5,24,27,{each}" for each in ("", value)]
    (tmp_path / "fig.csv").write_text("\n".join([f"{HEADER},{key}", *rows]) + "\n")
    assert len(from_tables([tmp_path / "fig.csv"])) == 1


def test_what_did_not_fit_had_as_much_memory_as_its_host_really_had(tmp_path):
    had = (("a", ""), ("b", 1.4), ("c", 8.0))
    rows = [f"{name},,does_not_fit,{NAMES},128,2,4,2,400,10,0,,,,8,{gb}" for name, gb in had]
    rows += [f"d,,measured,{NAMES},128,2,4,2,400,10,0,25.5,24,27,8,1.4"]
    (tmp_path / "fig.csv").write_text("\n".join([f"{HEADER},memory_gb,host_memory_gb", *rows]) + "\n")
    known = from_files([tmp_path / "fig.csv"])
    assert [each.memory_gb for each in known.unfit] == [8.0, 1.4, 8.0]
    assert [each.cell.memory_gb for each in known.measured] == [8.0]


def test_a_table_without_step_times_is_named(tmp_path):
    (tmp_path / "fig.csv").write_text("workers\n1\n")
    with pytest.raises(DdlbenchError, match=r"fig\.csv.*lacks.*step_time_ms"):
        from_tables([tmp_path / "fig.csv"])


@pytest.mark.parametrize(
    "telemetry",
    ["point_id,status,node,time_s\na,measured,h1,0.5", "point_id,status\na,not_recorded"],
    ids=["recorded", "not recorded"],
)
def test_a_table_of_telemetry_beside_the_others_tells_nothing_of_steps(tmp_path, telemetry):
    (tmp_path / "fig.csv").write_text(f"{HEADER}\na,,measured,{NAMES},128,2,4,2,400,10,0,25.5,24,27\n")
    (tmp_path / "over_time.csv").write_text(f"{telemetry}\n")
    assert len(from_files(sorted(tmp_path.glob("*.csv"))).measured) == 1


@pytest.mark.parametrize("status", ["measured", "does_not_fit"])
@pytest.mark.parametrize("numbers", [",2", "128,", "128,two", "inf,2", "128,-2"])
def test_a_row_without_a_number_where_one_is_expected_is_named(tmp_path, status, numbers):
    rows = [
        f"a,,measured,{NAMES},128,2,4,2,400,10,0,25.5,24,27",
        f"b,,{status},{NAMES},{numbers},4,2,400,10,0,25.5,24,27",
    ]
    (tmp_path / "fig.csv").write_text("\n".join([HEADER, *rows]) + "\n")
    with pytest.raises(DdlbenchError, match=r"fig\.csv: row 2 below the header: (workers|batch_size) is "):
        from_files([tmp_path / "fig.csv"])


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("workers", "0.5"),
        ("workers", "1e9"),
        ("vcpus", "-1"),
        ("latency_ms", "-5"),
        ("loss_percent", "-5"),
        ("bandwidth_mbit", "-400"),
        ("step_time_ms", "1e-300"),
    ],
)
def test_a_number_that_no_training_has_is_named_and_nothing_is_computed_of_it(tmp_path, column, value):
    row = f"a,,measured,{NAMES},128,2,4,2,400,10,0,25.5,24,27".split(",")
    row[HEADER.split(",").index(column)] = value
    (tmp_path / "fig.csv").write_text(f"{HEADER}\n{','.join(row)}\n")
    with pytest.raises(DdlbenchError, match=f"row 1 below the header: {column} is .*, expected "):
        from_files([tmp_path / "fig.csv"])
