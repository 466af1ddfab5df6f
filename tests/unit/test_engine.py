"""Which engine is used, and what is said where there is none."""

from pathlib import Path

import pytest

from ddlbench.containers.engine import addresses, connect
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
