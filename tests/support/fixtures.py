"""The fixtures that all tests share: frameworks' environments, a container engine, pipelines, sandboxes."""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from ddlbench.datasets import prepare
from tests.support.docker_engine import docker_engine
from tests.support.loopback_server import Serve, serving
from tests.support.once import made_once
from tests.support.pipeline import Pipeline, new_pipeline, with_images
from tests.support.repository import REPOSITORY, snakemake
from tests.support.sandboxes import BACKENDS, PYTHONPATH, backends_here, run_inside
from tests.support.uml import Kernel, kernel

JOINING = (f"--add-runtime=ddlbench={REPOSITORY}/containers/oci_runtime.py",)  # emulated hosts


@pytest.fixture(scope="session")
def torch_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """PyTorch's environment in this repository, as its rule makes it where it is missing."""
    return made_environment("torch", tmp_path_factory)


@pytest.fixture(scope="session")
def tensorflow_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """TensorFlow's environment in this repository, likewise."""
    return made_environment("tensorflow", tmp_path_factory)


@pytest.fixture(scope="session")
def horovod_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Horovod's environment in this repository, likewise; where it is missing, it is built, which takes minutes."""
    return made_environment("horovod", tmp_path_factory)


@pytest.fixture(scope="session")
def mxnet_environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """MXNet's environment in this repository, likewise."""
    return made_environment("mxnet", tmp_path_factory)


@pytest.fixture(scope="session")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file of a small data set."""
    file = tmp_path_factory.mktemp("digits") / "digits.npz"
    prepare("digits", {}, file)
    return file


@pytest.fixture(scope="session")
def engine_address() -> Iterator[str]:
    """The address, for DOCKER_HOST, of a container engine that the tests have for themselves."""
    with docker_engine(JOINING) as address:
        yield address


def made_environment(name: str, factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An environment in this repository, as its rule makes it where it is missing."""
    stamp = f".environments/{name}/environment.json"

    def make(results: Path) -> None:
        options = [
            "--cores",
            "2",
            "--rerun-triggers",
            "mtime",
            "--config",
            f"results={results}",
            "results_outside=true",
        ]
        answer = snakemake(REPOSITORY, stamp, *options, timeout=3600)
        assert answer.returncode == 0, answer.stderr

    made_once(factory, f"environment-{name}", make)
    described: dict[str, Any] = json.loads((REPOSITORY / stamp).read_text())
    return described


@pytest.fixture(scope="session")
def with_data(tmp_path_factory: pytest.TempPathFactory, torch_environment: dict[str, Any]) -> Pipeline:
    """A pipeline that has its data set and nothing else; to be copied."""

    def make(root: Path) -> None:
        new_pipeline(root).run("results/datasets/digits-28x28x1.npz")

    return Pipeline(made_once(tmp_path_factory, "with_data", make))


@pytest.fixture(scope="session")
def contained(
    engine_address: str, tmp_path_factory: pytest.TempPathFactory, torch_environment: dict[str, Any]
) -> Pipeline:
    """A pipeline that has its data set, PyTorch's image and its SIF; to be copied."""
    pipeline = new_pipeline(tmp_path_factory.mktemp("contained") / "ddlbench")
    return with_images(pipeline, engine_address, ".images/torch/apptainer.json")


@pytest.fixture
def serve() -> Iterator[Serve]:
    """serve({path: body}) answers on this machine's loopback address until the test ends."""
    with serving() as start:
        yield start


@pytest.fixture
def prepared(with_data: Pipeline, tmp_path: Path) -> Pipeline:
    """A pipeline of its own for a test, which has its data set and nothing measured yet."""
    return with_data.copy(tmp_path / "prepared")


@pytest.fixture(scope="session")
def drawn(with_data: Pipeline, tmp_path_factory: pytest.TempPathFactory) -> Pipeline:
    """A pipeline that has drawn tiny2000_fig1 and nothing else; tests only look at it."""

    def make(root: Path) -> None:
        with_data.copy(root).run("tiny2000_fig1")

    made = Pipeline(made_once(tmp_path_factory, "drawn", make))
    return made.copy(
        tmp_path_factory.mktemp("drawn") / "ddlbench"
    )  # who looks starts Snakemake there, one at a time


@pytest.fixture
def drawn_copy(drawn: Pipeline, tmp_path: Path) -> Pipeline:
    """A copy of the pipeline that has drawn tiny2000_fig1, to be changed."""
    return drawn.copy(tmp_path / "ddlbench")


@pytest.fixture(scope="session")
def other_kernel() -> Iterator[Callable[[], Kernel]]:
    """A kernel that has netem, which boots when it is first asked for, and again where a test has killed it."""
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", PYTHONPATH, prepend=":")
        booted: list[Kernel] = []

        def running() -> Kernel:
            if not booted or not booted[-1].is_alive():
                booted.append(stack.enter_context(kernel()))
            return booted[-1]

        yield running


@pytest.fixture
def sandbox(tmp_path: Path, backends: list[str], request: pytest.FixtureRequest) -> Callable[..., Any]:
    """A function of `inside` by its name, in a sandbox of its own, below a kernel that has the backend it asks for."""

    def run(function: str, **arguments: Any) -> Any:
        if arguments.get("backend") in (None, *backends):
            return run_inside(tmp_path, function, **arguments)
        return run_inside(tmp_path, function, kernel=request.getfixturevalue("other_kernel")(), **arguments)

    return run


@pytest.fixture(scope="session")
def backends() -> list[str]:
    """The ways to make a link that this kernel has."""
    return backends_here()


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, backends: list[str]) -> str:
    """Each way to make a link; one that this machine's kernel lacks is tested below another kernel (`selection`)."""
    return str(request.param)
