"""How images are built: argv, and what is said where nothing can."""

from pathlib import Path

import pytest

from ddlbench.containers.builder import Build, build_argv, program
from ddlbench.errors import DdlbenchError

pytestmark = pytest.mark.unit


def test_a_build_without_network_in_words_of_dockers_client() -> None:
    wanted = Build(Path("/c"), "ddlbench/torch:1", {"BASE": "ddlbench/base:2"}, {"a.b": "c d"}, "none")
    assert build_argv("/usr/bin/docker", wanted) == [
        *(
            "/usr/bin/docker",
            "build",
            "--progress",
            "plain",
            "--tag",
            "ddlbench/torch:1",
            "--network",
            "none",
        ),
        *("--build-arg", "BASE=ddlbench/base:2", "--label", "a.b=c d", "/c"),
    ]


def test_the_engines_own_network_needs_no_word() -> None:
    assert "--network" not in build_argv("docker", Build(Path("/c"), "t", {}, {}, None))


def test_a_client_that_has_buildkit_is_found_behind_one_that_lacks_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, says in (
        ("first", "ERROR: BuildKit is enabled but missing"),
        ("second", "--secret stringArray"),
    ):
        client = tmp_path / name / "docker"
        client.parent.mkdir()
        client.write_text(f"#!/bin/sh\necho '{says}'\n")
        client.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/first:{tmp_path}/second")
    assert program() == f"{tmp_path}/second/docker"
    monkeypatch.setenv("PATH", f"{tmp_path}/first")
    with pytest.raises(DdlbenchError, match="needs its plugin buildx"):
        program()
