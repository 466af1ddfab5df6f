"""The configuration that ships: it is valid, its two scales agree, its reference is in step."""

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import yaml

from ddlbench.configuration.schema import schemas
from ddlbench.memory.misfits import misfits
from ddlbench.plan import load
from ddlbench.plan.catalogue import DATASETS, MODELS, NAMES
from ddlbench.plan.reference import readme
from ddlbench.workers.common.models.architectures import classes
from tests.support.small_study import REPOSITORY

IN_SCOPE = {
    *(f"zhao2016_fig{n}" for n in range(5, 11)),
    "zhao2016_accuracy",
    *(f"pani2020_fig{n}" for n in range(1, 11)),
    *(f"anwar2021_fig{n}" for n in range(7, 16)),
    "anwar2021_table4",
    *(f"shi2019_fig4_{n}" for n in range(1, 5)),
    *(f"shi2019_fig4_{n}" for n in range(5, 23)),
    "shi2019_fig5_1",
    "shi2019_faults",
    "shi2019_table3_1",
    "wang2019_fig2",
    "wang2019_fig3",
    "wang2019_fig5",
    "wang2019_fig3_network",
    "wang2019_fig3_startup",
    "wang2019_fig4",
}


def keys(data: object, prefix: str = "") -> set[str]:
    if not isinstance(data, dict):
        return {prefix}
    return set().union(*(keys(value, f"{prefix}.{key}") for key, value in data.items())) if data else {prefix}


@pytest.fixture(scope="module")
def laptop():
    return load(REPOSITORY / "config/config.yaml", REPOSITORY)


@pytest.fixture(scope="module")
def paper():
    return load(REPOSITORY / "config/paper.yaml", REPOSITORY)


def test_laptop_and_paper_scale_carry_the_same_keys():
    laptop, paper = (
        yaml.safe_load((REPOSITORY / f"config/{name}.yaml").read_text()) for name in ("config", "paper")
    )
    assert keys(laptop) == keys(paper)


def test_the_readme_of_the_configuration_is_what_the_schemas_say():
    assert (REPOSITORY / "config/README.md").read_text() == readme(REPOSITORY), (
        "make it anew: python -m ddlbench.plan.reference > config/README.md"
    )


def test_every_figure_in_scope_can_be_asked_for(laptop):
    assert set(laptop.figures) == IN_SCOPE


def test_the_papers_grids_have_the_papers_values(paper):
    def values(study, grid, key):
        return sorted({getattr(point, key) for point in paper.grid(study, grid).points})

    assert values("zhao2016", "standalone_bandwidth", "bandwidth_mbit") == [400, 800, 1200, 1600, 2000]
    assert values("zhao2016", "cloud_loss", "loss_percent") == [1, 2, 3, 4, 5]
    assert values("anwar2021", "latency_100", "batch_size") == [192, 1280, 2560, 6400, 32000, 64000]
    assert values("pani2020", "cnn", "batch_size") == [32, 64, 128, 256, 512, 1024, 2048, 4096, 8192]


def test_the_laptop_asks_one_host_for_the_batch_that_does_not_fit(laptop):
    batches = [(point.workers, point.batch_size) for point in laptop.grid("anwar2021", "latency_0").points]
    assert [batch for batch in batches if batch[1] == 64000] == [(1, 64000)]


def test_everything_of_the_default_configuration_can_be_measured(laptop):
    assert {laptop.status(point).name for run in laptop.runs for point in run.points} == {"measurable"}


def test_only_what_no_profile_has_cannot_be_measured_of_the_papers_grids(paper):
    reasons = {reason for run in paper.runs for point in run.points if (reason := paper.status(point).reason)}
    assert {reason.partition(", only of")[0] for reason in reasons} == {
        *(f"h200 has no profile of such a batch of {model} on 28x28x1" for model in ("cnn", "resnet18")),
        *(
            f"{device} has no profile of resnet18 on 28x28x1"
            for device in ("gtx-1660-ti", "ryzen-5-3600", "core-i7-5500u")
        ),
        "v100 has no profile of such a batch of resnet50 on 224x224x3",
    }


def replayed(plan, study, grid):
    """The devices that a grid replays, and the points that are measured of it: (workers, batch of a worker, model)."""
    points = plan.grid(study, grid).points
    devices = {point.replay.device if point.replay else "" for point in points}
    measured = {
        (point.workers, point.batch_size // point.workers, point.model)
        for point in points
        if plan.status(point).name == "measurable"
    }
    return devices, measured


@pytest.mark.parametrize("grid", ["parameter_server", "ring"])
def test_shi2019_has_all_its_models_on_as_many_k80s_with_its_batch(paper, grid):
    models = ("alexnet", "vgg16", "vgg19", "resnet50", "resnet152")
    devices, measured = replayed(paper, "shi2019", grid)
    assert devices == {"k80"}
    assert measured == {(workers, 32, model) for workers in range(1, 7) for model in models}


def test_wang2019_has_its_v100s_in_nodes_of_eight_and_up_to_64(paper):
    assert replayed(paper, "wang2019", "containers") == (
        {"v100"},
        {(1, 128, "resnet50"), (8, 128, "resnet50")},
    )
    of_frameworks = paper.grid("wang2019", "frameworks").points
    assert {(point.hosts, point.workers) for point in of_frameworks} == {(2, 16)}
    devices, measured = replayed(paper, "wang2019", "scaling")
    assert devices == {"v100"}
    assert measured == {(workers, 128, "resnet50") for workers in (1, 2, 4, 8, 16, 32, 64)}


@pytest.mark.parametrize("grid", ["cnn", "resnet18"])
def test_pani2020_trains_for_real_with_as_many_workers_as_it_has_gpus(paper, grid):
    trained, timed = (paper.grid("pani2020", name).points for name in (grid, f"{grid}_times"))
    assert {(point.workers, point.compute, point.epochs) for point in trained} == {
        (workers, "real", 1) for workers in (1, 2, 4, 8)
    }
    assert {(point.workers, point.compute, point.epochs) for point in timed} == {
        (workers, compute, 0) for workers in (1, 2, 4, 8) for compute in ("real", "replay")
    }


def test_pani2020_learns_without_waiting_for_the_cores_that_its_largest_group_needs(paper):
    largest = {
        (run.grid, run.workers): paper.largest_group(run)
        for grid in ("cnn", "cnn_times")
        for run in paper.grid("pani2020", grid).runs
        if run.points[0].compute == "real"
    }
    assert largest == {(grid, workers): workers if grid == "cnn" else 8 for grid, workers in largest}


def test_anwar2021_replays_what_a_host_or_a_laptop_cannot_hold(paper):
    for grid, fewest in (("latency_0", (1, 2)), ("latency_100", (2,))):
        points = paper.grid("anwar2021", grid).points
        too_large = {(workers, 32000) for workers in fewest} | {(workers, 64000) for workers in (2, 3, 4)}
        assert {(each.workers, each.batch_size) for each in points if each.replay} == too_large


def test_the_papers_gpus_fit_into_the_memory_of_a_laptop(paper, monkeypatch):
    laptops = SimpleNamespace(available=16 << 30)
    monkeypatch.setattr("psutil.virtual_memory", lambda: laptops)
    assert [each.point.id for each in misfits(paper) if each.point.replay] == []


def blocks(schema: object, path: str = "") -> Iterator[tuple[str, dict]]:
    if isinstance(schema, dict):
        if "properties" in schema or schema.get("type") == "object":
            yield path, schema
        for key, value in schema.items():
            yield from blocks(value, f"{path}/{key}")


@pytest.mark.parametrize("name", ["config", "study", "links", "sites"])
def test_no_block_of_a_schema_takes_unknown_keys(name):
    closed = ("additionalProperties", "unevaluatedProperties")
    document = schemas(REPOSITORY).documents[name]
    found = [path for path, block in blocks(document) if not any(key in block for key in closed)]
    assert found == (["/$defs/axes"] if name == "study" else [])  # what uses the axes is closed itself


@pytest.mark.parametrize("name", ["config", "study", "links", "sites"])
def test_every_key_of_a_schema_is_described_and_bounded(name):
    rules = schemas(REPOSITORY)
    for path, block in blocks(rules.documents[name]):
        for key, given in block.get("properties", {}).items():
            value = rules.resolved(given.get("anyOf", [given])[0]) if key != "dilation" else given
            assert value.get("description"), f"{path}: {key} has no description"
            assert value.get("title"), f"{path}: {key} has no title"
            if "number" in value.get("type", ()) or "integer" in value.get("type", ()):
                assert "maximum" in value or "exclusiveMaximum" in value, f"{path}: {key} has no upper bound"


def test_every_data_set_has_images_that_some_model_takes():
    for dataset in DATASETS.values():
        for shape in dataset.image_shapes or ("28x28x1",):
            assert any(shape in shapes for shapes in MODELS.values())
    assert {shape for shapes in MODELS.values() for shape in shapes} == set(NAMES["image_shape"])


def test_every_model_has_an_output_for_each_class_of_the_data_sets_that_it_takes():
    for dataset, shape in ((each, shape) for each in DATASETS.values() for shape in each.image_shapes or ()):
        for model in (name for name, shapes in MODELS.items() if shape in shapes):
            assert classes(model, tuple(map(int, shape.split("x")))) >= dataset.classes
