"""Mistakes in a configuration: each is one clear line with file, key and what was expected, before anything starts."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import yaml
from mistakes import BANDWIDTH, CONFIG, STUDY, lines_of_error, setting

from ddlbench.errors import ConfigError
from ddlbench.plan import load
from tests.support.small_study import REPOSITORY


@pytest.fixture
def message(tmp_path) -> Callable[..., list[str]]:
    return partial(lines_of_error, tmp_path)


@pytest.mark.parametrize(
    ("key", "value", "line"),
    [
        (
            "bandwidth_mbit",
            [400, 800, -400],
            "bandwidth_mbit[2]: -400 is not a bandwidth (expected a number > 0 and <= 10000000, in Mbit/s)",
        ),
        ("batch_sizes", 3, "batch_sizes: there is no such key (did you mean 'batch_size'?)"),
        ("model", "conv3", "model: 'conv3' is not a model (did you mean 'conv2'?)"),
        ("dataset", "digit", "dataset: 'digit' is not a data set (did you mean 'digits'?)"),
        ("link", ["lan2g"], "link[0]: 'lan2g' is not a link (did you mean 'lan-2g'?)"),
        ("framework", "pytorch", "framework: 'pytorch' is not a framework (did you mean 'torch'?)"),
        ("hosts", "pairs", "hosts: 'pairs' is not a kind of hosts (did you mean 'pair'?)"),
        (
            "batch_size",
            [],
            "batch_size: is an empty list, so the grid has no points (expected at least one value)",
        ),
        ("workers", [1, 3], "workers[1]: 3 workers need 3 hosts, but hosts.pair has 2"),
        (
            "batch_size",
            [1, 64],
            "batch_size[0]: a batch of 1 is too small for 2 workers (expected at least one image each)",
        ),
        (
            "image_shape",
            "32x32x3",
            "image_shape: digits has images of 28x28x1, not 32x32x3",
        ),
        (
            "loss_percent",
            True,
            "loss_percent: true is not a loss (expected a number >= 0 and < 100, in %)",
        ),
        (
            "loss_percent",
            math.nan,
            "loss_percent: nan is not a loss (expected a number >= 0 and < 100, in %)",
        ),
        (
            "latency_ms",
            math.inf,
            "latency_ms: inf is not a latency (expected a number >= 0 and <= 100000, in ms)",
        ),
        (
            "workers",
            "2",
            "workers: '2' is not a number of workers (expected a whole number >= 1 and <= 4096)",
        ),
        ("per_epoch", True, "epochs: per_epoch needs at least one epoch that is trained for real"),
        ("report", {"epochs": 1}, "report: expected epochs and either epoch_images or epoch_steps"),
    ],
)
def test_a_mistake_in_a_grid_is_one_line_with_file_and_key(message, key, value, line):
    lines = message(study=setting(f"grids/bandwidth/{key}", value))
    assert lines[0] == BANDWIDTH + line
    assert all(more.startswith((BANDWIDTH, CONFIG)) for more in lines[1:])


@pytest.mark.parametrize("framework", ["horovod_torch", "horovod_tensorflow"])
def test_a_framework_that_is_built_without_cuda_is_refused_on_gpus_with_those_that_are_not(
    message, framework
):
    def change(data: dict) -> None:
        data["grids"]["bandwidth"] |= {"framework": framework, "devices": ["cpu", "gpu"]}

    assert message(study=change) == [
        BANDWIDTH
        + f"devices[1]: {framework} does not compute on gpu: it is built here without CUDA, which takes "
        "nvcc and NCCL's headers (expected cpu; gpu with torch, tensorflow, mxnet)"
    ]


def test_a_resnet_on_small_images_needs_two_of_them_for_each_worker(message):
    def change(data: dict) -> None:
        grid = data["grids"]["bandwidth"]
        grid |= {"model": ["mlp", "resnet18"], "batch_size": [3, 64], "workers": 2}

    lines = message(study=change)
    assert lines == [
        BANDWIDTH + "batch_size[0]: a batch of 3 is too small for 2 workers "
        "(expected at least 2 images each: resnet18 normalises over them)"
    ]


def test_a_mistake_in_the_scale_is_reported_where_it_was_made(message):
    lines = message(setting("grids/small2000/latency/workers", [2, 8]))
    assert lines == [
        CONFIG + "grids.small2000.latency.workers[1]: 8 workers need 8 hosts, but hosts.four has 4"
    ]


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("mesure", {}, "mesure: there is no such key (did you mean 'measure'?)"),
        (
            "measure/min_steps",
            0,
            "measure.min_steps: 0 is not a number of steps (expected a whole number >= 1 and <= 1000000)",
        ),
        ("measure/max_steps", 0.5, None),
        (
            "measure/min_repetitions",
            90,
            "measure.max_repetitions: 24 is less than min_repetitions, which is 90",
        ),
        (
            "dilation",
            0.5,
            "dilation: 0.5 is not a time dilation (expected auto or a number >= 1 and <= 10000)",
        ),
        (
            "interfaces/ethernet",
            "eth0; reboot",
            "interfaces.ethernet: 'eth0; reboot' is not the name of an interface (expected a text like eth0 or null)",
        ),
        (
            "interfaces/infinband",
            "ib0",
            "interfaces.infinband: there is no such key (did you mean 'infiniband'?)",
        ),
        ("fresh", "yes", "fresh: 'yes' is not a switch (expected true or false)"),
        ("studies", ["small2001"], "studies[0]: 'small2001' is not a study (did you mean 'small2000'?)"),
        ("studies", [], "studies: is an empty list (expected at least one value)"),
        (
            "default_figures",
            ["small2000_fig11"],
            "default_figures[0]: 'small2000_fig11' is not a figure (did you mean 'small2000_fig1'?)",
        ),
        (
            "grids/small2000/bandwith",
            {},
            "grids.small2000.bandwith: 'bandwith' is not a grid of small2000 (did you mean 'bandwidth'?)",
        ),
        ("grids/smal2000", {}, "grids.smal2000: 'smal2000' is not a study (did you mean 'small2000'?)"),
        (
            "grids/small2000/bandwidth",
            3,
            "grids.small2000.bandwidth: 3 is not a grid (expected a block of keys)",
        ),
        (
            "grids/small2000/bandwidth/include",
            [{"batch_size": 0}],
            (
                "grids.small2000.bandwidth.include[0].batch_size: 0 is not a batch size "
                "(expected a whole number >= 1 and <= 100000000, in images)"
            ),
        ),
        (
            "grids/small2000/bandwidth/include",
            [{"workers": 4}],
            "grids.small2000.bandwidth.include[0].workers: 4 workers need 4 hosts, but hosts.pair has 2",
        ),
    ],
)
def test_a_mistake_in_the_settings_is_one_line_with_file_and_key(message, path, value, line):
    lines = message(setting(path, value))
    assert len(lines) == 1
    assert lines[0] == CONFIG + line if line else lines[0].startswith(CONFIG + path.replace("/", "."))


def test_a_deviation_of_what_does_not_exist_is_refused(message):
    deviations = [{"text": "The paper differs.", "where": {"framework": ["torch", "tensorflo"]}}]
    (line,) = message(study=setting("deviations", deviations))
    told = "deviations[0].where.framework[1]: 'tensorflo' is not a framework (did you mean 'tensorflow'?)"
    assert line == STUDY + told


@pytest.mark.parametrize(
    ("path", "value", "line"),
    [
        ("collectives/links", ["gigabyt"], "collectives.links[0]: 'gigabyt' is not a link (did you mean 'gigabit'?)"),
        ("collectives/hosts", [1], "collectives.hosts[0]: 1 is not a number of hosts (expected a whole number >= 2"),
        ("collectives/sizes_bytes", [3], "collectives.sizes_bytes[0]: 3 is not a message size"),
        ("point_to_point/transports", ["udp"], "point_to_point.transports[0]: 'udp' is not a transport"),
        ("point_to_point/largest_byte", 8, "point_to_point.largest_byte: there is no such key (did you mean"),
        ("measure/min_repetitions", 30, "measure.max_repetitions: 8 is less than min_repetitions, which is 30"),
    ],
)  # fmt: skip
def test_a_mistake_in_the_probes_is_one_line_with_file_and_key(message, path, value, line):
    (found,) = message(setting(f"probes/{path}", value))
    assert found.startswith(f"{CONFIG}probes.{line}")


def test_a_model_that_does_not_take_the_images_is_refused(message):
    grid = {"dataset": "synthetic", "image_shape": "32x32x3", "model": ["keras_sequential", "conv2"]}
    lines = message(setting("grids/small2000/latency", grid))
    expected = "grids.small2000.latency.model[1]: conv2 does not take images of 32x32x3 (expected 28x28x1)"
    assert lines == [CONFIG + expected]


def test_a_strategy_that_a_framework_has_not_is_refused_with_those_that_it_has(message):
    (line,) = message(
        setting(
            "grids/small2000/latency", {"framework": "horovod_torch", "strategy": "parameter_server_async"}
        )
    )
    assert (
        line
        == CONFIG
        + "grids.small2000.latency.strategy: horovod_torch has no parameter_server_async (expected ring_allreduce)"
    )


def test_a_shape_that_a_data_set_cannot_give_is_refused_with_those_that_it_can(message):
    grid = {"dataset": "cifar10", "image_shape": ["32x32x3", "28x28x1"], "model": "keras_sequential"}
    lines = message(setting("grids/small2000/latency", grid))
    expected = "image_shape[1]: cifar10 has images of 32x32x3 or 224x224x3, not 28x28x1"
    assert lines == [f"{CONFIG}grids.small2000.latency.{expected}"]


def test_alexnet_is_refused_on_images_that_are_too_small_for_it(message):
    (line,) = message(setting("grids/small2000/latency", {"model": "alexnet"}))
    assert line.endswith("latency.model: alexnet does not take images of 28x28x1 (expected 224x224x3)")


def test_an_epoch_of_endless_images_needs_its_number_of_steps(message):
    (line,) = message(setting("grids/small2000/latency", {"dataset": "synthetic", "epochs": 2}))
    assert line.endswith("epochs: synthetic images have no end: an epoch of them needs steps_per_epoch")


@pytest.mark.parametrize("key", ["hosts", "workers", "model", "dataset"])
def test_a_key_that_a_grid_needs_is_asked_for(message, key):
    (line,) = message(study=lambda study: study["grids"]["latency"].pop(key))
    assert line == STUDY + f"grids.latency.{key}: is missing, here and in the configuration's grids"


def test_a_list_that_names_something_twice_is_refused_with_that(message):
    (line,) = message(setting("probes/point_to_point/links", ["lan-2g", "gigabit", "lan-2g"]))
    assert line == CONFIG + "probes.point_to_point.links: has 'lan-2g' more than once"


def test_a_folder_of_results_that_cannot_be_is_refused(message):
    (line,) = message(setting("results", "x" * 300))
    assert line.startswith(f"{CONFIG}results: 'xxx")
    assert line.endswith(" cannot be looked at (File name too long)")
    assert line.endswith("cannot be looked at (File name too long)")


def test_a_grid_of_too_many_points_is_refused_before_it_is_expanded(message):
    many = {"batch_size": list(range(4, 2004)), "bandwidth_mbit": list(range(1, 1001))}
    (line,) = message(setting("grids/small2000/latency", many))
    assert "latency: a grid of 4,000,000 points (expected at most 100,000)" in line


def test_all_mistakes_come_in_one_message(message):
    def settings_of(settings):
        settings["measure"]["seed"] = -1
        settings["fresh"] = 0

    lines = message(settings_of, setting("grids/bandwidth/model", ["a", "b"]))
    assert len(lines) == 4


def test_a_study_must_be_named_like_its_file(message):
    lines = message(study=setting("key", "small2001"))
    assert lines[0] == STUDY + "key: 'small2001' is not the file's name, 'small2000'"


def test_default_figures_of_a_study_that_is_not_selected_are_named(tmp_path):
    settings = yaml.safe_load((REPOSITORY / "config/config.yaml").read_text()) | {"studies": ["zhao2016"]}
    with pytest.raises(
        ConfigError, match="default_figures: names figures of pani2020, which `studies` does not"
    ):
        load(settings, REPOSITORY)
