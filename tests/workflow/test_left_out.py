"""A test whose tool is missing is left out and listed, and fails where nothing may be left out."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.repository import REPOSITORY

RATES = "tests/integration/test_links.py"  # by iperf3
LONG = "tests/integration/test_model_sizes.py"
INSTALL = "iperf3: sudo apt-get install iperf3"
Run = Callable[..., "subprocess.CompletedProcess[str]"]


def test_what_takes_long_is_left_to_test_all(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", LONG, "--collect-only", "-o", f"cache_dir={tmp_path}"]
    ordinary, left_out = (
        subprocess.run([*command, option], cwd=REPOSITORY, capture_output=True, text=True).stdout
        for option in ("--ordinary", "--left-out")
    )
    assert "1 tests for want of time: make test-all runs them" in ordinary
    assert "collected 1 item\n" in left_out


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """pytest as on a machine that has everything but iperf3."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for folder in ("/usr/sbin", "/usr/bin"):
        for tool in Path(folder).iterdir():
            if tool.name != "iperf3" and not (tools / tool.name).exists():
                (tools / tool.name).symlink_to(tool)

    def call(*arguments: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, "-m", "pytest", RATES, "-k", "iperf3_gets and nfqueue", *arguments]
        return subprocess.run(
            [*command, "-o", f"cache_dir={tmp_path / 'cache'}"],
            cwd=REPOSITORY,
            env=os.environ | {"PATH": str(tools)},
            capture_output=True,
            text=True,
        )

    return call


@pytest.mark.long
def test_what_is_missing_is_left_out_with_how_to_get_it_and_is_a_failure_of_test_all(
    run: Run,
) -> None:
    ordinary = run("--ordinary")
    assert f"2 tests for want of {INSTALL}" in ordinary.stdout
    everything = run("--left-out")
    assert everything.returncode == 1
    assert f"not on this machine: {INSTALL}" in everything.stdout
    assert "2 errors" in everything.stdout
