"""Which engine is used, and what is said where there is none, or where it fails or is busy."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError
from requests.exceptions import ReadTimeout

from ddlbench.containers import engine, engines
from ddlbench.containers.engine import addresses, connect, json_output, remove_replaced
from ddlbench.containers.image_files import has_vanished
from ddlbench.environments.runtime_environment import RuntimeEnvironment
from ddlbench.errors import DdlbenchError

pytestmark = pytest.mark.unit


def test_docker_host_is_obeyed_and_nothing_else_is_tried() -> None:
    assert addresses({"DOCKER_HOST": "tcp://engine:2375", "XDG_RUNTIME_DIR": "/run/user/7"}, 7) == [
        "tcp://engine:2375"
    ]


def test_without_docker_host_dockers_sockets_come_before_podmans() -> None:
    assert addresses({}, 1000) == [
        "unix:///var/run/docker.sock",
        "unix:///run/user/1000/docker.sock",
        "unix:///run/user/1000/podman/podman.sock",
        "unix:///run/podman/podman.sock",
    ]


def test_a_missing_engine_is_named_with_how_to_get_one(tmp_path: Path) -> None:
    with pytest.raises(DdlbenchError, match=r"there is no .*none\.sock.*sudo apt-get install docker\.io"):
        connect(f"unix://{tmp_path}/none.sock")


def test_a_socket_that_is_not_ours_to_use_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "s").touch()
    monkeypatch.setattr("os.access", lambda path, mode: False)
    with pytest.raises(DdlbenchError, match=r"this user may not use .*usermod -aG docker"):
        connect(f"unix://{tmp_path}/s")


def test_a_socket_behind_which_nobody_listens_is_told(tmp_path: Path) -> None:
    (tmp_path / "s").touch()
    with pytest.raises(DdlbenchError, match="does not answer"):
        connect(f"unix://{tmp_path}/s")


def failing(error: Exception) -> Any:
    """What raises this error when it is called."""

    def fail(*_asked: object, **_more: object) -> None:
        raise error

    return fail


BUSY = failing(APIError("409 Client Error: a prune operation is already running"))
SILENT = failing(ReadTimeout("Read timed out."))
IMAGE = {"docker": RuntimeEnvironment("/p", runtime="docker", image="ddlbench/torch", image_id="sha256:f00")}


def an_engine(monkeypatch: pytest.MonkeyPatch, *, get: Any) -> list[float]:
    """Have an engine answer that is busy pruning; how long each of its answers may take."""
    patience_s: list[float] = []
    client = SimpleNamespace(
        images=SimpleNamespace(get=get), containers=SimpleNamespace(prune=BUSY), close=lambda: None
    )

    def connected(answer_within_s: float = engine.TIMEOUT_S) -> SimpleNamespace:
        patience_s.append(answer_within_s)
        return client

    monkeypatch.setattr(engine, "connect", connected)
    monkeypatch.setitem(engines._DESCRIBE, "docker", lambda patience_s: {})
    return patience_s


def test_an_engine_that_fails_while_images_are_looked_for_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patience_s = an_engine(monkeypatch, get=SILENT)
    with pytest.raises(DdlbenchError, match="the container engine does not answer any more: Read timed out"):
        engines.check(IMAGE)
    stamp = tmp_path / "docker.json"
    stamp.write_text(json.dumps({"image": "ddlbench/torch", "image_id": "sha256:f00"}))
    assert has_vanished(stamp) is False  # the rule that needs the image tells it
    assert max(patience_s) < 60  # a build may be silent for an hour, an answer may not


def test_an_engine_that_prunes_for_somebody_else_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    an_engine(monkeypatch, get=lambda image: SimpleNamespace(id=image))
    engines.check(IMAGE)
    assert engines.remove_abandoned_containers() == []


def test_an_image_is_asked_and_what_it_replaces_removed_while_somebody_else_prunes() -> None:
    answered = SimpleNamespace(
        start=lambda: None,
        wait=lambda timeout: {"StatusCode": 0},
        logs=lambda **_which: b'{"torch": "2"}',
        remove=lambda force: None,
    )
    images = SimpleNamespace(prune=BUSY, list=lambda filters: [])
    containers = SimpleNamespace(prune=BUSY, create=lambda *_asked, **_more: answered)
    client: Any = SimpleNamespace(images=images, containers=containers)
    assert json_output(client, "ddlbench/torch", ["python"]) == {"torch": "2"}
    remove_replaced(client, "ddlbench/torch", "ddlbench.build=1")


@pytest.mark.parametrize("is_installed", [True, False])
def test_a_daemon_without_our_runtime_is_told_a_path_that_is_there(
    is_installed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = (
        tmp_path / ("src/ddlbench/shipped/containers" if is_installed else "containers") / "oci_runtime.py"
    )
    there.parent.mkdir(parents=True)
    there.touch()
    monkeypatch.setattr(engines, "package_root", lambda: str(tmp_path / "src"))
    monkeypatch.setattr("shutil.which", lambda _program: "/usr/bin/docker")
    with pytest.raises(DdlbenchError, match=re.escape(f'"path": "{there}"')):
        engines._check_docker({}, rootless=False)
