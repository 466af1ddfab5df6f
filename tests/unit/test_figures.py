from pathlib import Path

import pandas as pd
import pytest
import yaml
from made_up_tables import batch_figure, figure, made_up_table

from ddlbench.errors import ConfigError, DdlbenchError
from ddlbench.figures import draw, drawing, drawn_rows, theme
from ddlbench.figures.captions.caption import caption
from ddlbench.figures.chart import line_chart
from ddlbench.figures.rows import points
from ddlbench.figures.wang2019 import scaling

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]
ENDINGS = (".svg", ".pdf", ".png", ".csv", ".caption.rst")
WITH_TESTS_OF_THEIR_OWN = ("probe", "models", "telemetry", "faults", "runtimes")
AXES = {
    "bandwidth_mbit": [400.0, 1200.0, 2000.0],
    "latency_ms": [0.0, 20.0, 60.0, 100.0],
    "loss_percent": [1.0, 3.0, 5.0],
    "batch_size": [192, 1280, 6400, 64000],
    "workers": [1, 2, 3, 4],
    "model": ["mlp", "conv1", "conv2"],
}


def studies_figures():
    figures = []
    for path in sorted((ROOT / "config/studies").glob("*.yaml")):
        for name, declared in yaml.safe_load(path.read_text())["figures"].items():
            if declared.get("kind") in WITH_TESTS_OF_THEIR_OWN:
                continue
            declared["where"] = {
                k: v if isinstance(v, list) else [v] for k, v in declared.get("where", {}).items()
            }
            figures.append(pytest.param(figure(name, **declared), id=name))
    return figures


def table_for(shown):
    """A made-up table with every axis that a figure needs; batch 64,000 does not fit on one host."""
    names = {"latency_ms", "workers", "batch_size"} if shown.kind == "table" else {shown.x, shown.lines}
    if "link" in names:
        return made_up_table({"model": AXES["model"], "bandwidth_mbit": [400.0, 2000.0]}, epochs=2)
    axes = {name: AXES[name] for name in AXES if name in names}
    per_epoch = shown.x == "epoch"
    return made_up_table(axes, epochs=3 * per_epoch, per_epoch=per_epoch, fits_gb=3.5)


@pytest.fixture
def batch_table():
    return made_up_table({"batch_size": AXES["batch_size"], "workers": [1, 2, 4]}, fits_gb=3.5, memory_gb=8.0)


def layers(plot, geom):
    return [layer.geom.data for layer in plot.layers if type(layer.geom).__name__ == f"geom_{geom}"]


@pytest.mark.parametrize("shown", studies_figures())
@pytest.mark.long
def test_every_figure_of_the_studies_is_drawn_with_its_rows_and_its_caption(shown, tmp_path):
    svg, csv, rst = (tmp_path / (shown.name + ending) for ending in (".svg", ".csv", ".caption.rst"))
    draw(shown.name, [table_for(shown)], shown, [svg, csv, rst])
    assert "<text" in svg.read_text()  # text stays text
    assert shown.title in rst.read_text()
    rows = pd.read_csv(csv)
    more = {
        "anwar2021_fig8": -7,
        "wang2019_fig5": 2,
    }  # no fourth host, no largest batch; one worker begins three lines
    assert len(rows) == len(table_for(shown)) + more.get(shown.name, 0)
    y = "training_time_ms" if shown.name == "pani2020_fig3" else shown.y
    assert {shown.x, y, f"{y}_low", f"{y}_high", "repetitions", "dilation", "status", "reason"} <= set(rows)


def test_linear_scaling_is_the_throughput_of_one_gpu_times_their_number_on_any_axis():
    (shown,) = (each.values[0] for each in studies_figures() if each.id == "wang2019_fig5")
    table = table_for(shown)
    plot = scaling(table.assign(replay="a GPU"), shown)
    alone = plot.data.loc[plot.data["workers"] == 1, shown.y].iloc[0]
    *_, ideal = layers(plot, "line")
    assert list(ideal["workers"]) == [1, 2, 3, 4]
    assert list(ideal[shown.y]) == [alone * workers for workers in ideal["workers"]]
    assert plot.labels.x == "GPUs (number)"
    assert scaling(table, shown).labels.x != "GPUs (number)"
    assert len(plot.data) > len(table)
    assert f"{len(table)} of {len(table)} points measured" in caption(plot.data, shown)
    assert set(plot.data["point_id"]) == set(table["point_id"])


def test_a_point_that_does_not_fit_is_a_marked_gap_with_its_reason(batch_table):
    rows = points(batch_table, batch_figure())
    plot = line_chart(rows, batch_figure())
    missing = rows[rows["epoch_time_s"].isna()]
    assert [(row.workers, row.batch_size) for row in missing.itertuples()] == [(1, 64000)]
    values, marks = layers(plot, "point")
    assert len(values) == len(rows) - 1
    assert not ((values["workers"] == 1) & (values["batch_size"] == 64000)).any()
    assert list(zip(marks["gap_x"], marks["series"], strict=True)) == [(64000, "1")]
    (words,) = layers(plot, "text")
    assert list(words["words"]) == ["1 worker: does not fit in 8 GB"]
    assert marks["gap"].min() > rows["epoch_time_s_high"].max()  # in its strip, beside no number of the axis


def test_a_training_whose_loss_diverged_each_time_is_a_gap_that_says_so(batch_table):
    of_loss = figure("made_fig1", "batch_size", "test_loss", "workers")
    all_of_one = (batch_table["workers"] == 2) & (batch_table["batch_size"] == 192)
    batch_table.loc[all_of_one, ["test_loss", "test_loss_low", "test_loss_high"]] = None
    batch_table.loc[all_of_one, "diverged"] = batch_table["repetitions"]
    (words, *_) = layers(line_chart(points(batch_table, of_loss), of_loss), "text")
    assert "2 workers: the training diverged" in list(words["words"])


def test_a_line_does_not_bridge_a_gap(batch_table):
    hole = (batch_table["workers"] == 2) & (batch_table["batch_size"] == 1280)
    batch_table.loc[hole, ["status", "reason"]] = ["not_available", "no GPU here"]
    (lines,) = layers(line_chart(points(batch_table, batch_figure()), batch_figure()), "line")
    stretches = lines[lines["workers"] == 2].groupby("run")["batch_size"].apply(list)
    assert sorted(stretches) == [[192], [6400, 64000]]


def test_a_figure_of_which_nothing_could_be_measured_says_so():
    table = made_up_table({"batch_size": [32, 64], "workers": [1, 2]}, fits_gb=0.0)
    plot = line_chart(points(table, batch_figure()), batch_figure())
    assert "Nothing could be measured" in plot.labels.caption
    assert len(layers(plot, "point")[-1]) == 4
    theme.render(plot, ["svg"])


def test_a_value_without_measurement_never_appears_in_the_csv(batch_table):
    batch_table.loc[batch_table["batch_size"] == 192, "status"] = "not_available"  # stale numbers beside it
    rows = points(batch_table, batch_figure())
    assert rows.loc[rows["batch_size"] == 192, ["epoch_time_s", "epoch_time_s_low"]].isna().all(axis=None)


def test_intervals_are_drawn_and_in_the_csv(batch_table):
    plot = drawing(batch_figure())(batch_table, batch_figure())
    rows = drawn_rows(plot)
    measured = rows[rows["status"] == "measured"]
    assert (measured["epoch_time_s_low"] < measured["epoch_time_s"]).all()
    assert (measured["epoch_time_s"] < measured["epoch_time_s_high"]).all()
    (bars,) = layers(plot, "errorbar")
    assert len(bars) == len(measured)


def test_the_same_table_gives_the_same_bytes(batch_table, tmp_path):
    pictures = []
    for folder in ("first", "second"):
        files = [tmp_path / folder / f"made_fig1{ending}" for ending in ENDINGS]
        draw("made_fig1", [batch_table.copy()], batch_figure(), files)
        pictures.append([file.read_bytes() for file in files])
    assert pictures[0] == pictures[1]
    for content, start in zip(pictures[0], (b"<?xml", b"%PDF", b"\x89PNG"), strict=False):
        assert content.startswith(start)


def test_only_the_files_asked_for_are_written(batch_table, tmp_path):
    draw(
        "made_fig1",
        [batch_table],
        batch_figure(),
        [tmp_path / "made_fig1.svg", tmp_path / "made_fig1.svg.prov.json"],
    )
    assert [file.name for file in tmp_path.iterdir()] == ["made_fig1.svg"]


def test_times_start_at_zero_unless_their_axis_says_that_it_is_logarithmic(batch_table):
    plot = line_chart(points(batch_table, batch_figure()), batch_figure())
    assert plot.scales.get_scales("y").limits[0] == 0
    batch_table.loc[batch_table["workers"] == 4, ["epoch_time_s", "epoch_time_s_high"]] *= 100
    plot = line_chart(points(batch_table, batch_figure()), batch_figure())
    assert "log scale" in plot.labels.y
    assert plot.scales.get_scales("y").limits[0] > -9  # in decades


@pytest.mark.parametrize(("low", "high"), [(11.0, 13.0), (40.0, 60.0), (0.9, 1.1)])
def test_a_logarithmic_axis_of_less_than_a_decade_has_ticks_and_is_drawn(batch_table, tmp_path, low, high):
    table = batch_table[batch_table["workers"] == 2].copy()
    table["epoch_time_s"] = [low + (high - low) * i / (len(table) - 1) for i in range(len(table))]
    table["epoch_time_s_low"] = table["epoch_time_s_high"] = table["epoch_time_s"]
    shown = batch_figure(y_scale="log")
    plot = line_chart(points(table, shown), shown)
    ticks = plot.scales.get_scales("y").breaks
    assert len(ticks) > 1
    assert all(low / 1.16 <= tick <= high * 1.16 for tick in ticks)
    plot.save(tmp_path / "narrow.png", verbose=False)


@pytest.mark.long
def test_table4_tells_frameworks_apart(tmp_path):
    (shown,) = (each.values[0] for each in studies_figures() if each.id == "anwar2021_table4")
    table = table_for(shown)
    both = pd.concat(
        [table, table.assign(framework="tensorflow", point_id=table["point_id"] + "-tensorflow")]
    )
    files = [tmp_path / (shown.name + ending) for ending in ENDINGS]
    draw(shown.name, [both], shown, files)
    said = files[0].read_text()
    assert "tensorflow" in said
    assert "torch" in said


def test_series_differ_in_colour_shape_and_line_type():
    for kind, values in zip(("colour", "shape", "line"), theme.styles(6), strict=True):
        assert len(set(values)) == 6, kind
    assert len(set(zip(*theme.styles(20), strict=True))) == 20


def test_a_column_that_the_table_lacks_is_named_with_the_nearest_one(batch_table):
    with pytest.raises(ConfigError, match=r"no column 'epoch_time' \(did you mean 'epoch_time_s'\?\)"):
        points(batch_table, figure("made_fig1", "batch_size", "epoch_time", "workers"))


def test_conditions_that_no_point_meets_and_empty_tables_are_errors(batch_table, tmp_path):
    with pytest.raises(ConfigError, match="none of the 12 points"):
        points(batch_table, batch_figure(where={"workers": [7]}))
    with pytest.raises(DdlbenchError, match="measure its grids first"):
        draw("made_fig1", [batch_table[:0]], batch_figure(), [tmp_path / "made_fig1.svg"])
    assert list(tmp_path.iterdir()) == []


def test_a_point_of_two_grids_is_drawn_once(batch_table):
    twice = pd.concat([batch_table, batch_table.assign(grid="another")])
    assert len(points(twice, batch_figure())) == len(batch_table)


def test_milliseconds_are_made_from_seconds(batch_table):
    rows = points(batch_table, batch_figure(), y="training_time_ms")
    first = batch_table[batch_table["point_id"] == rows["point_id"][0]].iloc[0]
    assert rows["training_time_ms"][0] == 1000 * first["training_time_s"]
    assert "training_time_s" not in rows


def test_the_caption_says_how_it_was_measured_what_is_missing_and_what_the_paper_showed(batch_table):
    rows = points(batch_table.assign(host="host_1 *odd*"), batch_figure())
    text = caption(rows, batch_figure())
    for fact in (
        "11 of 12 points measured",
        "Emulated hosts and network",
        "Time dilation 1 (1, 2 workers), 2 (4 workers)",
        "3 to 5 repetitions",
        "(20 steps a point)",
        "extrapolated from these steps to an epoch of 60,000 images",
        r"on host\_1 \*odd\*",
        "1,437 handwritten digits of 8 x 8 pixels",
        "congestion control: cubic",
        "tbf+nfqueue",
        "In the paper: The paper shows something.",
        "* a batch of 64000 images does not fit in 8 GB:",
    ):
        assert fact in text


def test_lines_that_two_things_tell_apart_are_named_as_in_the_legend_where_they_have_gaps():
    table = made_up_table({"batch_size": [192, 1280], "workers": [1, 2], "devices": ["cpu", "gpu"]})
    table.loc[table["devices"] == "gpu", ["status", "reason"]] = ["not_available", "no GPU here"]
    (words,) = layers(line_chart(points(table, batch_figure()), batch_figure()), "text")
    assert list(words["words"]) == ["1, GPU; 2, GPU: no GPU here"]
