"""The points of a figure: which rows of a table they are, in which order, and on which line."""

import pandas as pd
import pytest
from made_up_tables import batch_figure, figure, made_up_table

from ddlbench.errors import ConfigError
from ddlbench.figures.rows import points

pytestmark = pytest.mark.unit


@pytest.mark.parametrize("device", ["V100, fp32", None])
def test_the_speed_up_of_a_device_is_relative_to_one_of_its_own_kind(device):
    table = made_up_table({"workers": [1, 2]}, batch_size=128)
    table["batch_size"] *= table["workers"]
    tables = [
        table.assign(
            replay=name, compute=None if name is None else "replay", images_per_second=[rate, rate * gain]
        )
        for name, rate, gain in (("K80, fp32", 100.0, 3.9), (device, 1000.0, 3.0))
    ]
    both = pd.concat([each.assign(point_id=f"{n}" + each["point_id"]) for n, each in enumerate(tables)])
    rows = points(both, figure("made_fig1", "workers", "speedup", "replay"))
    assert list(rows.loc[rows["workers"] == 2, "speedup"]) == pytest.approx([3.9, 3.0])


def test_workers_are_in_numeric_order_and_models_as_in_the_table():
    table = made_up_table({"workers": [8, 1, 2, 16], "batch_size": [64]})
    assert list(points(table, batch_figure())["series"].cat.categories) == ["1", "2", "8", "16"]
    table = made_up_table({"model": ["mlp", "conv2", "conv1"]})
    rows = points(table, figure("made_fig2", "bandwidth_mbit", "step_time_ms", "model"))
    assert list(rows["series"].cat.categories) == ["mlp", "conv2", "conv1"]


def test_one_worker_has_no_link_and_so_belongs_to_every_latency():
    table = made_up_table({"latency_ms": [0.0, 20.0], "workers": [1, 2], "batch_size": [64]})
    rows = points(table, batch_figure(where={"latency_ms": [20.0]}))
    assert [(row.workers, row.latency_ms) for row in rows[rows["workers"] == 2].itertuples()] == [(2, 20.0)]
    assert (rows["workers"] == 1).sum() == 1


def test_real_and_emulated_points_are_told_apart_without_being_asked():
    emulated = made_up_table({"workers": [2], "batch_size": [64, 128]})
    real = emulated.assign(fabric="ethernet", point_id=emulated["point_id"] + "-ethernet")
    rows = points(pd.concat([emulated, real]), batch_figure())
    assert list(rows["series"].cat.categories) == ["2, emulated", "2, ethernet"]


def test_two_points_at_one_place_are_refused_and_what_differs_is_named():
    table = made_up_table({"latency_ms": [0.0, 20.0], "workers": [2], "batch_size": [64]})
    with pytest.raises(ConfigError, match=r"made_fig1: 2 points lie at batch_size 64, series 2.* latency_ms"):
        points(table, batch_figure())


def test_a_batch_between_two_profiles_is_on_the_line_of_its_device():
    table = made_up_table({"batch_size": [64, 128]}, workers=1, compute="replay")
    table["replay"] = ["A card (2 GPUs), fp32 (computed)", "A card (2 GPUs), fp32 (computed, interpolated)"]
    rows = points(table, figure("made_fig1", "batch_size", "images_per_second", "replay"))
    assert list(rows["series"].cat.categories) == ["A card (2 GPUs), fp32"]
    assert rows["replay"].nunique() == 2


@pytest.mark.parametrize("devices", ["cpu", "gpu"])
def test_devices_tell_lines_apart_and_a_point_that_was_not_replayed_is_this_machines(devices):
    table = made_up_table({"batch_size": [64, 256]}, workers=1, devices=devices)
    card = table.assign(
        devices="cpu", compute="replay", replay="A card", point_id=table["point_id"] + "-card"
    )
    rows = points(pd.concat([table, card]), figure("made_fig1", "batch_size", "epoch_time_s", lines="replay"))
    assert list(rows["series"].cat.categories) == ["this machine", "A card"]
    assert dict(zip(rows["series"], rows["compute"], strict=True)) == {
        "this machine": "real",
        "A card": "replay",
    }


def test_where_chooses_what_was_computed_for_real_though_tables_do_not_say_it():
    table = made_up_table({"batch_size": [64, 256]}, workers=1)
    replayed = table.assign(compute="replay", point_id=table["point_id"] + "-replayed")
    shown = figure("made_fig1", "batch_size", "epoch_time_s", where={"compute": ("real",)})
    assert list(points(pd.concat([table, replayed]), shown)["batch_size"]) == [64, 256]
