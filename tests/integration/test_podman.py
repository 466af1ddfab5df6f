"""Podman in Docker's place: images are built with it and workers started, with root and without, and nothing stays."""

import json
import os
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import pytest

from ddlbench.containers import engines
from tests.support.in_containers import (
    assert_nothing_left_of_a_killed_driver,
    assert_same_parameters,
    confined,
    training_in,
)
from tests.support.ordinary_user import User, ordinary_user
from tests.support.pipeline import Pipeline, new_pipeline, with_images
from tests.support.podman_engine import podman_engine

IMAGE, BASE = Path(".images/torch/docker.json"), Path(".images/base/docker.json")


def configure(pipeline: Pipeline, *runtimes: str, **settings: Any) -> None:
    """One figure of a short training in runtimes; images begin with Debian's packages."""
    chosen = {"default_figures": ["tiny2000_fig1"], "containers": {"base": "debian"}, **settings}
    pipeline.configure(chosen, training_in(*runtimes))


@pytest.fixture(scope="module")
def podman_address() -> Iterator[str]:
    """The address of a Podman that these tests have for themselves."""
    with podman_engine() as address:
        yield address


@pytest.fixture(scope="module")
def with_podman(
    podman_address: str, tmp_path_factory: pytest.TempPathFactory, torch_environment: dict[str, Any]
) -> Pipeline:
    """A pipeline that has its data set and PyTorch's image in Podman; to be copied."""
    pipeline = new_pipeline(tmp_path_factory.mktemp("with_podman") / "ddlbench")
    configure(pipeline, "bare", "docker")
    return with_images(pipeline, podman_address, str(IMAGE))


@pytest.fixture
def pipeline(
    with_podman: Pipeline, podman_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Pipeline:
    """A copy of it for a test; what uses Docker uses that Podman."""
    monkeypatch.setenv("DOCKER_HOST", podman_address)
    return with_podman.copy(tmp_path / "ddlbench")


def test_a_training_in_podman_gives_the_parameters_of_a_bare_one_and_says_that_it_was_podman(pipeline):
    pipeline.run("tiny2000_fig1")
    records = pipeline.records()
    assert {record["point"]["runtime"] for record in records} == {"bare", "docker"}
    assert_same_parameters(records)
    for record in records:
        if record["point"]["runtime"] == "docker":
            engine = record["provenance"]["environment"]["engine"]
            assert engine["name"] == "podman"
            assert engine["version"]


def test_workers_in_podman_have_no_capability_and_their_host_s_memory_and_network(pipeline, tmp_path):
    described = json.loads((pipeline.root / IMAGE).read_text()) | {"engine": engines.describe("docker")}
    assert len(confined(tmp_path / "group", "docker", described)) == 2


def test_nothing_is_left_of_podmans_containers_when_the_driver_is_killed(pipeline, podman_address):
    configure(pipeline, "docker", measure={"trainings": 50})
    assert_nothing_left_of_a_killed_driver(pipeline, podman_address)


@pytest.fixture
def user() -> Iterator[User]:
    """An ordinary user, as long as a test needs one."""
    with ordinary_user() as made:
        yield made


@pytest.mark.needs("Apptainer")
def test_a_user_without_root_docker_and_fuse_measures_in_podman_and_in_apptainer(
    with_podman, podman_address, user
):
    root = user.home / "ddlbench"
    pipeline = with_podman.copy(root)
    configure(pipeline, "docker", "apptainer")
    with user.podman() as address:
        for image in (BASE, IMAGE):
            move_image(root / image, podman_address, address)
        user.give(root)
        answer = user.run(
            *(user.python(), *pipeline.command("tiny2000_fig1")[1:]),
            folder=root,
            DOCKER_HOST=address,
            PYTHONPATH=str(root / "src"),
        )
        assert answer.returncode == 0, answer.stderr
    records = pipeline.records()
    engines_of = {
        record["point"]["runtime"]: record["provenance"]["environment"]["engine"] for record in records
    }
    assert engines_of["docker"]["name"] == "podman"
    assert engines_of["docker"]["rootless"]
    assert engines_of["apptainer"]["unpacked"] == (not os.stat("/dev/fuse").st_mode & stat.S_IWOTH)
    assert_same_parameters(records)
    assert {file.owner() for file in (root / "results").rglob("*")} == {user.name}


def move_image(description: Path, here: str, there: str) -> None:
    """Give an engine the image that another has, and describe it as it is there."""
    described = json.loads(description.read_text())
    of_root, of_user = (docker.DockerClient(address, timeout=600) for address in (here, there))
    with closing(of_root) as giver, closing(of_user) as taker:
        (taken,) = taker.images.load(giver.images.get(described["image_id"]).save(named=True))
        description.write_text(json.dumps({**described, "image_id": taken.id}))
