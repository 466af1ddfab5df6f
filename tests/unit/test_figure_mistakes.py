"""Mistakes in the figures of a study: each is one clear line with file, key and what was expected."""

from collections.abc import Callable
from functools import partial

import pytest
from mistakes import STUDY, lines_of_error, setting


@pytest.fixture
def message(tmp_path) -> Callable[..., list[str]]:
    return partial(lines_of_error, tmp_path)


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        (
            "small2000_fig1/grids",
            ["bandwidths"],
            "small2000_fig1.grids[0]: 'bandwidths' is not a grid (did you mean 'bandwidth'?)",
        ),
        ("small2000_fig1/where", {"workers": 4}, "small2000_fig1.where: no point of its grids has these values"),
        (
            "small2000_fig1/where",
            {"worker": 2},
            "small2000_fig1.where.worker: 'worker' is not a key of a point (did you mean 'workers'?)",
        ),
        ("small2000_fig1/kind", "table", "small2000_fig1.columns: is missing (a table needs its columns)"),
        ("small2000_fig1/x", "bandwidth", None),
        (
            "small2000_fig1/x",
            "model",
            "small2000_fig1.x: 'model' is no number, and a line's axis has numbers (expected `kind: bar` for it)",
        ),
        (
            "fig3",
            {"grids": ["latency"], "title": "abc", "x": "latency_ms", "y": "train_loss",
             "category": "abc", "caption": "abc"},
            "fig3: is not a figure of this study (expected a name that starts with small2000_)",
        ),
    ],
)  # fmt: skip
def test_a_mistake_in_a_figure_is_one_line_with_file_and_key(message, path, value, line):
    lines = message(study=setting(f"figures/{path}", value))
    assert len(lines) == 1
    figures = STUDY + "figures."
    assert lines[0] == figures + line if line else lines[0].startswith(figures + path.replace("/", "."))


PROBE_FIGURE = {
    "kind": "probe", "links": ["gigabit"], "title": "abc", "x": "size_bytes", "y": "throughput_mbit",
    "category": "abc", "caption": "abc",
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("links", ["gigabyt"], "links[0]: 'gigabyt' is not a link (did you mean 'gigabit'?)"),
        ("links", None, "links: is missing (a probe's figure needs its links)"),
        ("grids", ["latency"], "grids: has no place in a probe's figure"),
        (
            "x",
            "workers",
            "x: 'workers' cannot be shown by a probe's figure (expected size_bytes and nothing else)",
        ),
        ("dilation", 0.5, "dilation: 0.5 is not a time dilation (expected a number >= 1 and <= 10000)"),
    ],
)
def test_a_mistake_in_a_figure_of_probes_is_one_line_with_file_and_key(message, key, value, line):
    figure = {name: each for name, each in {**PROBE_FIGURE, key: value}.items() if each is not None}
    lines = message(study=setting("figures/small2000_fig3", figure))
    assert lines == [f"{STUDY}figures.small2000_fig3.{line}"]


MODELS_FIGURE = {
    "kind": "models", "image_shape": "224x224x3", "published": {"vgg16": {"size_mb": 528, "gflops": 15.5}},
    "title": "abc", "x": "model", "y": "multiply_adds", "category": "abc", "caption": "abc",
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("published", {"alexnett": {"size_mb": 1, "gflops": 1}}, "not a model (did you mean 'alexnet'?)"),
        ("published", None, "published: is missing (a table of models needs its published)"),
        ("image_shape", "28x28x1", "vgg16 does not take images of 28x28x1 (expected 32x32x3 or 224x224x3)"),
        ("image_shape", None, "image_shape: is missing (a table of models needs its image_shape)"),
        ("links", ["gigabit"], "links: has no place in a table of models"),
        ("y", "one_way_us", "cannot be shown by a table of models (expected multiply_adds and nothing else)"),
    ],
)  # fmt: skip
def test_a_mistake_in_a_table_of_models_is_one_line_with_file_and_key(message, key, value, line):
    figure = {name: each for name, each in {**MODELS_FIGURE, key: value}.items() if each is not None}
    (found,) = message(study=setting("figures/small2000_fig3", figure))
    assert found.startswith(f"{STUDY}figures.small2000_fig3.")
    assert found.endswith(line)


def test_a_figure_of_grids_shows_no_message_sizes(message):
    (line,) = message(study=setting("figures/small2000_fig1/x", "size_bytes"))
    assert "x: 'size_bytes' cannot be shown by this kind of figure (expected `kind: probe` for it)" in line


TELEMETRY = {
    "kind": "telemetry", "grids": ["latency"], "title": "abc", "x": "time_s", "y": "cpu_percent", "category": "abc",
    "caption": "abc",
}  # fmt: skip


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        ("grids", None, "grids: is missing (a figure of telemetry needs its grids)"),
        ("links", ["gigabit"], "links: has no place in a figure of telemetry"),
        ("lines", "workers", "lines: has no place in a figure of telemetry"),
        (
            "x",
            "workers",
            "x: 'workers' cannot be shown by a figure of telemetry (expected time_s and nothing else)",
        ),
        (
            "kind",
            "line",
            "y: 'cpu_percent' cannot be shown by this kind of figure (expected `kind: telemetry` for it)",
        ),
    ],
)
def test_a_mistake_in_a_figure_of_telemetry_is_one_line_with_file_and_key(message, key, value, line):
    figure = {name: each for name, each in {**TELEMETRY, key: value}.items() if each is not None}
    assert f"{STUDY}figures.small2000_fig9.{line}" in message(study=setting("figures/small2000_fig9", figure))
