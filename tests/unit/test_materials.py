"""What runs are made from: which files describe a runtime, and what becomes of one that cannot be had."""

import json
from pathlib import Path

from ddlbench.containers.engines import describe_or_record
from ddlbench.environments.materials import Materials, dataset_folders, files_of
from ddlbench.environments.runtime_environment import Engine, RuntimeEnvironment
from ddlbench.plan.settings import Datasets, DatasetSource


def described(folder: Path, name: str, **says: object) -> Path:
    """A description with this content."""
    file = folder / f"{name}.json"
    file.write_text(json.dumps({"name": name, **says}))
    return file


def test_a_container_is_described_by_its_image_and_by_the_runtime_of_this_machine():
    assert files_of("torch", "bare") == [Path(".environments/torch/environment.json")]
    assert files_of("torch", "docker") == [
        Path(".images/torch/docker.json"),
        Path(".environments/docker/environment.json"),
    ]


def test_a_runtime_that_is_missing_leaves_the_others(tmp_path):
    materials = Materials(
        {
            "bare": [described(tmp_path, "torch", python="/p")],
            "docker": [
                described(tmp_path, "image", image_id="sha256:f00"),
                described(tmp_path, "docker", what="docker", failure="no daemon answers"),
            ],
        },
        {},
    )
    found, without = materials.described()
    assert found == {"bare": RuntimeEnvironment("/p", name="torch")}
    assert without == {"docker": "no docker: no daemon answers"}


def test_an_image_comes_with_the_engine_that_runs_it(tmp_path):
    image, engine = described(tmp_path, "image", python="/p"), described(tmp_path, "docker", version="1")
    found, without = Materials({"docker": [image, engine]}, {}).described()
    assert found["docker"].engine == Engine("docker", "1")
    assert without == {}


def test_workers_may_read_the_data_sets_and_the_folders_that_these_point_into():
    settings = Datasets(DatasetSource("/elsewhere"), DatasetSource(), DatasetSource("/images"))
    datasets = [Path("/results/imagenet-224x224x3.npz"), Path("/results/digits-28x28x1.npz")]
    assert dataset_folders(settings, datasets) == ["/images", "/results"]


def test_a_runtime_that_cannot_be_used_leaves_a_record_of_why(tmp_path, monkeypatch):
    monkeypatch.setenv("DOCKER_HOST", "tcp://elsewhere:2375")
    record = tmp_path / "environment.json"
    failure = describe_or_record("docker", record)
    assert failure is not None
    assert "tcp://elsewhere:2375" in failure
    assert json.loads(record.read_text())["failure"] == failure
