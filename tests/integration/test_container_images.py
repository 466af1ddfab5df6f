"""Images on a real engine: PyTorch's from nothing, then small ones for what happens to images in time."""

import json
import os
import shutil
import signal
import subprocess
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import docker
import psutil
import pytest
import yaml

from ddlbench.containers.builder import BUILDKIT, Build, build_argv, program
from ddlbench.containers.sif import check_sif, is_untouched, isolated_argv
from ddlbench.files import sha256_file
from tests.support.pipeline import Pipeline
from tests.support.repository import copy_of_the_repository, dry_run, environment, snakemake

pytestmark = pytest.mark.needs("Apptainer")

ASK = ["/opt/ddlbench/bin/python", "-I", "-c", "import torch; print(torch.ones(2, 2).sum().item())"]
BOTH = (".images/torch/docker.json", ".images/torch/apptainer.json")
NEVER = ["sleep", "123456"]
QUIET = ("--cores", "2", "--quiet", "rules", "progress")


@pytest.fixture
def client(engine_address: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[docker.DockerClient]:
    """The tests' own engine, which what they start uses too."""
    monkeypatch.setenv("DOCKER_HOST", engine_address)
    with closing(docker.DockerClient(engine_address, timeout=600)) as found:
        yield found


@pytest.fixture
def checkout(tmp_path: Path, client: docker.DockerClient, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the repository whose lock asks for a PyTorch that is a file of one line."""
    index = tmp_path / "index"
    index.mkdir()
    wheel = a_wheel(index, "1.0")
    for name, value in {
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(index),
    }.items():
        monkeypatch.setenv(name, value)
    root = copy_of_the_repository(tmp_path / "ddlbench")
    lock = root / "containers" / "torch" / "requirements-cpu.txt"
    lock.write_text(f"torch==1.0 --hash=sha256:{sha256_file(wheel)}\n")
    config = yaml.safe_load((root / "config/config.yaml").read_text())
    config["containers"]["base"] = "debian"
    (root / "config/config.yaml").write_text(yaml.safe_dump(config))
    return root


def test_pytorch_is_the_same_in_docker_in_apptainer_and_bare(
    client: docker.DockerClient, contained: Pipeline, torch_environment: dict[str, Any]
) -> None:
    root = contained.root
    image, sif = (json.loads((root / file).read_text()) for file in BOTH)
    for each in (image, sif):
        assert each["packages"] == torch_environment["packages"]
        assert each["python"] == "/opt/ddlbench/bin/python"
    assert sif["python_version"] == image["python_version"]
    assert sif["image_id"] == image["image_id"] == client.images.get(image["image"]).id
    inside = client.containers.run(image["image_id"], ASK, network_mode="none", remove=True)
    assert inside.strip() == b"4.0"
    answer = subprocess.run(
        isolated_argv("apptainer", root / sif["sif"], ASK),
        env={**os.environ, "APPTAINER_DROP_CAPS": "CAP_SYS_RESOURCE"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert answer.stdout.strip() == "4.0", answer.stderr


def test_an_image_has_no_root_no_code_of_ours_and_leaves_no_stage_behind(
    checkout: Path, client: docker.DockerClient
) -> None:
    made(checkout, BOTH[0])
    image = described(checkout)
    assert client.images.get(image["image"]).attrs["Config"]["User"] == "ddlbench"
    code = "import importlib.util, os; print(os.getuid(), importlib.util.find_spec('ddlbench'))"
    inside = client.containers.run(image["image"], ["python", "-c", code], network_mode="none", remove=True)
    assert inside.strip() == b"1000 None"
    assert not client.images.list(filters={"dangling": True})
    assert not list((checkout / ".images").rglob("*.making"))


def test_a_certificate_given_as_a_secret_serves_pip_and_stays_out_of_the_image(
    checkout: Path, client: docker.DockerClient, engine_address: str, tmp_path: Path
) -> None:
    made(checkout, ".images/base/docker.json")
    base = json.loads((checkout / ".images/base/docker.json").read_text())["image"]
    context = checkout / "containers/torch"
    shutil.copytree(tmp_path / "index", context / "wheels")
    dockerfile = context / "Dockerfile"
    tell = "&& echo $PIP_CERT > /opt/told && python3 -m venv /pip"
    dockerfile.write_text(dockerfile.read_text().replace("&& python3 -m venv /pip", tell))
    (tmp_path / "ca.pem").write_text("only for building")
    build = Build(context, "with-a-secret", {"BASE": base, "PIP_NO_INDEX": "1"}, {}, "none")
    argv = [*build_argv(program(), build), "--secret", f"id=ca,src={tmp_path / 'ca.pem'}"]
    variables = {**os.environ, "DOCKER_HOST": engine_address, **BUILDKIT}
    subprocess.run(argv, env=variables, check=True, timeout=600)
    told = client.containers.run(build.tag, ["cat", "/opt/told"], network_mode="none", remove=True)
    assert told.strip() == b"/run/ca.pem"
    assert b"only for building" not in b"".join(client.images.get(build.tag).save())


def test_what_is_there_is_not_made_again_and_what_a_changed_input_replaces_goes(
    checkout: Path, client: docker.DockerClient
) -> None:
    made(checkout, *BOTH)
    assert dry_run(checkout, *BOTH) == {}
    before = described(checkout)
    dockerfile = checkout / "containers/torch/Dockerfile"
    dockerfile.write_text(dockerfile.read_text().replace("ddlbench: PyTorch", "ddlbench: another"))
    made(checkout, *BOTH)
    assert described(checkout)["image_id"] != before["image_id"]
    assert described(checkout, "apptainer")["image_id"] == described(checkout)["image_id"]
    assert before["image"] not in [tag for image in client.images.list() for tag in image.tags]


def test_an_image_that_has_vanished_from_the_engine_is_made_again(
    checkout: Path, client: docker.DockerClient
) -> None:
    made(checkout, BOTH[0])
    client.images.remove(described(checkout)["image"], force=True)
    assert "is not in the container engine any more" in made(checkout, BOTH[0])
    assert client.images.get(described(checkout)["image_id"])


def test_a_damaged_sif_is_named_and_made_again(checkout: Path, client: docker.DockerClient) -> None:
    made(checkout, *BOTH)
    sif = checkout / ".images/torch/torch.sif"
    with sif.open("r+b") as file:
        file.seek(-1000, os.SEEK_END)
        file.write(b"damage")
    assert "torch.sif is damaged" in made(checkout, *BOTH)
    again = {**described(checkout, "apptainer"), "sif": str(sif)}
    check_sif(Path(again["sif"]), again["sif_sha256"])
    assert is_untouched(again)


def test_a_killed_build_leaves_no_process_and_no_image(checkout: Path, client: docker.DockerClient) -> None:
    dockerfile = checkout / "containers/torch/Dockerfile"
    whole = dockerfile.read_text()
    dockerfile.write_text(whole.replace("&& python3 -m venv /pip", f"&& {' '.join(NEVER)}"))
    building = subprocess.Popen(
        ["snakemake", BOTH[0], *QUIET], cwd=checkout, env=environment(checkout), start_new_session=True
    )
    try:
        wait_until(is_building)
    finally:
        os.killpg(building.pid, signal.SIGKILL)
        building.wait()
    wait_until(lambda: not is_building())
    assert not [each for each in psutil.process_iter(["cwd"]) if each.info["cwd"] == str(checkout)]
    dockerfile.write_text(whole)
    made(checkout, BOTH[0])
    assert not client.images.list(filters={"dangling": True})


def test_without_an_engine_the_image_is_a_gap_with_how_to_get_one(
    checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{checkout}/none.sock")
    answer = snakemake(checkout, *BOTH, *QUIET)
    assert answer.returncode == 1
    assert "apt-get install docker.io" in answer.stderr.splitlines()[-1]
    assert "Traceback" not in answer.stderr
    for runtime in ("docker", "apptainer"):
        assert "there is no" in described(checkout, runtime)["failure"]


def made(root: Path, *files: str) -> str:
    """Have Snakemake make these files; what it said."""
    answer = snakemake(root, *files, *QUIET, timeout=3000)
    assert answer.returncode == 0, answer.stderr
    return answer.stderr


def described(root: Path, runtime: str = "docker") -> dict[str, Any]:
    """What is written down of the image of PyTorch."""
    said: dict[str, Any] = json.loads((root / f".images/torch/{runtime}.json").read_text())
    return said


def a_wheel(folder: Path, version: str) -> Path:
    """A package `torch` that can be imported, and nothing more."""
    wheel, info = folder / f"torch-{version}-py3-none-any.whl", f"torch-{version}.dist-info"
    with zipfile.ZipFile(wheel, "w") as files:
        files.writestr("torch.py", "")
        files.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: torch\nVersion: {version}\n")
        files.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        files.writestr(f"{info}/RECORD", f"torch.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n{info}/RECORD,,\n")
    return wheel


def is_building() -> bool:
    """Whether the engine builds the image that takes for ever."""
    return any(each.info["cmdline"] == NEVER for each in psutil.process_iter(["cmdline"]))


def wait_until(true: Any) -> None:
    """Give something five minutes to become true."""
    until = time.monotonic() + 300
    while not true():
        assert time.monotonic() < until
        time.sleep(0.1)
