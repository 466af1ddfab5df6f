"""What tests of the running pipeline share: frameworks' environments, working copies with one tiny study, sandboxes."""

import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ddlbench.containers.podman import user_namespace
from ddlbench.launch.gpus import gpus_here
from ddlbench.plan import load
from ddlbench.sandbox.sandbox import run_sandboxed
from integration import uml
from integration.docker_engine import docker_engine
from loopback_server import Serve, serving

pytest_plugins = ["integration.on_cluster"]  # its fixtures
REPOSITORY = Path(__file__).parents[1]
INTEGRATION = REPOSITORY / "tests/integration"
ENVIRONMENT = Path(".environments/torch/environment.json")
JOINING = (f"--add-runtime=ddlbench={REPOSITORY}/containers/oci_runtime.py",)  # emulated hosts
COPIED = ("Snakefile", "config", "containers", "profiles", "src", "workflow")
BACKENDS = ("tbf+nfqueue", "tbf+netem")
MEASUREMENTS = "[0-9a-f][0-9a-f]/*/*.json"

# Two hosts of one core, two grids of two links, one figure each.
TINY_STUDY = {
    "key": "tiny2000",
    "title": "a tiny study",
    "paper": {"authors": "nobody", "title": "nothing", "year": 2000},
    "hosts": {"pair": {"count": 2, "vcpus": 1, "memory_gb": 2}},
    "grids": {
        name: {
            "hosts": "pair",
            "workers": 2,
            "model": "mlp",
            "dataset": "digits",
            "batch_size": 32,
            "link": "lan-2g",
            axis: values,
            "report": {"epoch_images": 60000, "epochs": 10},
        }
        for name, axis, values in (
            ("bandwidth", "bandwidth_mbit", [100, 400]),
            ("latency", "latency_ms", [1, 2]),
        )
    },
    "figures": {
        f"tiny2000_fig{number}": {
            "grids": [grid],
            "title": f"Step time by {grid}",
            "x": axis,
            "y": "step_time_ms",
            "category": "Links",
            "caption": "The paper sees nothing.",
        }
        for number, grid, axis in ((1, "bandwidth", "bandwidth_mbit"), (2, "latency", "latency_ms"))
    },
}
# Little is measured, on links whose probe forgives a busy machine: what these tests are about is everything else.
TINY_SETTINGS: Mapping[str, Any] = {
    "measure": {
        "warmup_steps": 1,
        "min_steps": 1,
        "max_steps": 3,
        "step_budget_s": 0.1,
        "min_repetitions": 2,
        "max_repetitions": 2,
        "interval_percent": 50,
        "recheck_s": 20,
        "seed": 1,
    },
    "tolerances": {"rate_percent": 60, "rtt_percent": 100, "rtt_ms": 50, "loss_points": 5},
    "studies": ["tiny2000"],
    "default_figures": ["tiny2000_fig1", "tiny2000_fig2"],
    "grids": {},
}


ON_GPUS = "test_gpus.py"  # needs a GPU; the first lines of a run say where there is none


def pytest_report_header() -> str:
    """What cannot be tested on this machine, and why."""
    names = ", ".join(gpu.name for gpu in gpus_here())
    return f"GPUs: {names or f'none here, so what is in {ON_GPUS} is left out'}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """A test's folder is its marker; what starts processes may meet a busy machine. Without a GPU none is asked for."""
    if not gpus_here() and (left_out := [item for item in items if item.path.name == ON_GPUS]):
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item.path.name != ON_GPUS]
    for item in items:
        folder = item.path.parent.name
        item.add_marker(folder)
        needed = getattr(item, "fixturenames", ())
        if "horovod_environment" in needed or {"engine_address", "contained", "with_podman"} & set(needed):
            item.add_marker(pytest.mark.timeout(3600))
        elif folder != "unit" or any(name.endswith("_environment") for name in needed):
            item.add_marker(pytest.mark.timeout(900))


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
def engine_address() -> Iterator[str]:
    """The address, for DOCKER_HOST, of a container engine that the tests have for themselves."""
    with docker_engine(JOINING) as address:
        yield address


def made_environment(name: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An environment in this repository, as its rule makes it where it is missing."""
    results = tmp_path_factory.mktemp("results")
    stamp = f".environments/{name}/environment.json"
    options = ["--cores", "2", "--nolock", "--rerun-triggers", "mtime", "--config", f"results={results}"]
    answer = snakemake(REPOSITORY, stamp, *options, timeout=3600)
    assert answer.returncode == 0, answer.stderr
    described: dict[str, Any] = json.loads((REPOSITORY / stamp).read_text())
    return described


def snakemake(folder: Path, *arguments: str, **options: Any) -> "subprocess.CompletedProcess[str]":
    """Snakemake in `folder`, with that folder's own package."""
    return subprocess.run(
        [sys.executable, "-m", "snakemake", *arguments],
        **{
            "cwd": folder,
            "env": environment(folder),
            "capture_output": True,
            "text": True,
            "timeout": 800,
            **options,
        },
    )


def dry_run(folder: Path, *arguments: str) -> dict[str, int]:
    """How many jobs of each rule Snakemake would run in `folder`."""
    answer = snakemake(folder, *arguments, "--dry-run", "--cores", "2", "--quiet", "rules")
    assert answer.returncode == 0, answer.stderr
    lines = (answer.stdout + answer.stderr).splitlines()
    if any(line.startswith("Nothing to be done") for line in lines):
        return {}
    table = lines[lines.index("Job stats:") + 3 :]
    counts = dict(line.split() for line in table[: table.index("")])
    return {rule: int(count) for rule, count in counts.items() if rule != "total"}


def environment(folder: Path) -> dict[str, str]:
    """Environment variables for a process that works in `folder` with the package there."""
    return {**os.environ, "PYTHONPATH": str(folder / "src"), "PYTHONDONTWRITEBYTECODE": "1"}


@dataclass(frozen=True)
class Pipeline:
    """A working copy of ddlbench whose only study is tiny."""

    root: Path

    def copy(self, root: Path) -> "Pipeline":
        """A copy at `root`; of a large image file it has a link, as no test writes to one."""

        def linked(source: str, target: str) -> None:
            (os.link if source.endswith(".sif") else shutil.copy2)(source, target)

        shutil.copytree(self.root, root, copy_function=linked)
        return Pipeline(root)

    def configure(self, settings: Mapping[str, Any] = {}, study: Mapping[str, Any] = TINY_STUDY) -> None:
        """Write the configuration: the repository's, the tiny settings, then `settings` (its `measure` key by key)."""
        config = yaml.safe_load((REPOSITORY / "config/config.yaml").read_text())
        config |= copy.deepcopy(dict(TINY_SETTINGS))
        measure = config["measure"] | settings.get("measure", {})
        config |= {**settings, "measure": measure}
        (self.root / "config/config.yaml").write_text(yaml.safe_dump(config, sort_keys=False))
        for file in (self.root / "config/studies").glob("*.yaml"):
            file.unlink()
        (self.root / "config/studies/tiny2000.yaml").write_text(yaml.safe_dump(dict(study), sort_keys=False))

    def command(self, *arguments: str) -> list[str]:
        """Snakemake as `make run` calls it."""
        return [sys.executable, "-m", "snakemake", "--profile", "profiles/laptop", *arguments]

    def start(self, *arguments: str) -> "subprocess.Popen[str]":
        """Start Snakemake and do not wait for it; what it says goes to `said`."""
        with (self.root / "said.txt").open("w") as said:
            command = self.command(*arguments)
            return subprocess.Popen(
                command, cwd=self.root, env=environment(self.root), stdout=said, stderr=said, text=True
            )

    def run(self, *arguments: str) -> str:
        """Run Snakemake to its end, which must be a good one; returns what it said."""
        answer = self.attempt(*arguments)
        assert answer.returncode == 0, answer.stderr
        return answer.stderr

    def attempt(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """Run Snakemake to its end."""
        return snakemake(self.root, *self.command(*arguments)[3:])

    def ddlbench(self, *arguments: str) -> "subprocess.CompletedProcess[str]":
        """The command `ddlbench`."""
        return subprocess.run(
            [sys.executable, "-m", "ddlbench.cli", *arguments],
            cwd=self.root,
            env=environment(self.root),
            capture_output=True,
            text=True,
        )

    @property
    def said(self) -> str:
        """What Snakemake has said since `start`."""
        return (self.root / "said.txt").read_text()

    def manifest(self, grid: str) -> str:
        """The file that lists what was measured of a grid's only run."""
        (run,) = load(self.root / "config/config.yaml", self.root).runs_of(f"tiny2000/{grid}")
        return f"results/runs/{run.study}/{run.id}.json"

    def measurements(self) -> dict[str, bytes]:
        """The measurement files that there are now, by name."""
        store = self.root / "results/store"
        return {str(file.relative_to(store)): file.read_bytes() for file in sorted(store.glob(MEASUREMENTS))}

    def records(self) -> list[dict[str, Any]]:
        """What the measurement files hold."""
        return [json.loads(content) for content in self.measurements().values()]


@pytest.fixture(scope="session")
def with_data(tmp_path_factory: pytest.TempPathFactory, torch_environment: dict[str, Any]) -> Pipeline:
    """A pipeline that has its data set and nothing else; to be copied."""
    pipeline = new_pipeline(tmp_path_factory.mktemp("with_data") / "ddlbench")
    pipeline.run("results/datasets/digits-28x28x1.npz")
    return pipeline


@pytest.fixture(scope="session")
def contained(
    engine_address: str, tmp_path_factory: pytest.TempPathFactory, torch_environment: dict[str, Any]
) -> Pipeline:
    """A pipeline that has its data set, PyTorch's image and its SIF; to be copied."""
    pipeline = new_pipeline(tmp_path_factory.mktemp("contained") / "ddlbench")
    return with_images(pipeline, engine_address, ".images/torch/apptainer.json")


def with_images(pipeline: Pipeline, engine_address: str, *images: str) -> Pipeline:
    """Give a pipeline its data set, and images (their descriptions) that an engine makes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DOCKER_HOST", engine_address)
        pipeline.run("results/datasets/digits-28x28x1.npz", *images)
    return pipeline


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
    pipeline = with_data.copy(tmp_path_factory.mktemp("drawn") / "ddlbench")
    pipeline.run("tiny2000_fig1")
    return pipeline


@pytest.fixture
def drawn_copy(drawn: Pipeline, tmp_path: Path) -> Pipeline:
    """A copy of the pipeline that has drawn tiny2000_fig1, to be changed."""
    return drawn.copy(tmp_path / "ddlbench")


def new_pipeline(root: Path) -> Pipeline:
    """A copy of the repository with the tiny study; its PyTorch environment is used where it is."""
    pipeline = Pipeline(copy_of_the_repository(root))
    (root / ENVIRONMENT).parent.mkdir(parents=True)
    shutil.copy(REPOSITORY / ENVIRONMENT, root / ENVIRONMENT)
    pipeline.configure()
    return pipeline


def copy_of_the_repository(root: Path) -> Path:
    """Copy to `root` what a pipeline needs of the repository, and nothing that was made there."""
    root.mkdir()
    for name in COPIED:
        source = REPOSITORY / name
        if source.is_dir():
            shutil.copytree(source, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, root / name)
    return root


# -------------------------------------------------------------------------------------------------- sandboxes


def run_inside(folder: Path, function: str, *, in_uml: bool = False, **arguments: Any) -> Any:
    """Run a function of `inside` in a sandbox of its own, in `folder`; gives back what it gives back.

    in_uml: below User-Mode Linux, which is a sandbox too, instead of this machine's kernel.
    """
    (folder / f"{function}.json").write_text(json.dumps(arguments))
    command = [function, f"{function}.json", "answer.json"]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("PYTHONPATH", f"{INTEGRATION}:{REPOSITORY / 'src'}", prepend=":")
        if in_uml:
            status = uml.run([sys.executable, "-m", "inside", *command], folder)
        else:
            within = user_namespace(arguments.get("environments", {}))
            status = run_sandboxed("inside", command, within=within)
    assert status == 0, f"{function} ended with status {status}"
    return json.loads((folder / "answer.json").read_text())


@pytest.fixture
def sandbox(tmp_path: Path, backends: list[str]) -> Callable[..., Any]:
    """A function of `inside` by its name, in a sandbox of its own, below a kernel that has the backend it asks for."""

    def run(function: str, **arguments: Any) -> Any:
        in_uml = arguments.get("backend") not in (None, *backends)
        return run_inside(tmp_path, function, in_uml=in_uml, **arguments)

    return run


@pytest.fixture(scope="session")
def backends(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The ways to make a link that this kernel has."""
    found: list[str] = run_inside(tmp_path_factory.mktemp("backends"), "backends")
    return found


@pytest.fixture(params=BACKENDS)
def backend(request: pytest.FixtureRequest, backends: list[str]) -> str:
    """Each way to make a link. netem is tested below User-Mode Linux where this machine's kernel has none."""
    if request.param not in backends:
        if request.param != "tbf+netem":
            pytest.skip(f"this kernel makes links by {', '.join(backends)} only")
        assert uml.is_here(), (
            "no netem here, and not all of user-mode-linux, kmod and gcc: `make test` installs them"
        )
    return str(request.param)
