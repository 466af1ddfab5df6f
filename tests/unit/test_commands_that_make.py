"""Commands that make environments and images: what they start ends with them, in time, and with us."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ddlbench.environments.commands import run_command
from ddlbench.errors import DdlbenchError
from tests.support.remains import eventually


def is_running(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_the_time_limit_holds_for_what_a_command_has_started(tmp_path: Path) -> None:
    script = f"(sleep 100; touch {tmp_path}/late) & wait"
    with pytest.raises(DdlbenchError, match=r"it ended with status -9 after 0\.2 s, which is too long"):
        run_command(["sh", "-c", script], "it", timeout_s=0.2)
    assert not (tmp_path / "late").exists()


def test_the_time_limit_holds_for_what_outlives_its_command_and_may_print(tmp_path: Path) -> None:
    # Time enough for the command itself to end, however busy the machine is.
    run_command(["sh", "-c", f"(sleep 100; touch {tmp_path}/late) &"], "it", timeout_s=3)
    assert not (tmp_path / "late").exists()


def test_what_a_command_leaves_behind_is_ended() -> None:
    said: list[str] = []
    script = "sleep 1000 >/dev/null 2>&1 & echo $!"
    run_command(["sh", "-c", script], "it", timeout_s=60, on_line=said.append)
    assert eventually(lambda: not is_running(said[0].strip()))


def test_what_a_command_has_started_does_not_outlive_our_own_death(tmp_path: Path) -> None:
    told = tmp_path / "told"
    command = [
        "sh",
        "-c",
        f"trap '' TERM INT; sleep 1000 & echo $! > {told}.part; mv {told}.part {told}; wait",
    ]
    run = "from ddlbench.environments.commands import run_command as run; run(sys.argv[1:], 'it', timeout_s=1000)"
    ours = subprocess.Popen([sys.executable, "-c", f"import sys; {run}", *command])
    assert eventually(told.exists)
    assert is_running(pid := told.read_text().strip())
    ours.kill()
    ours.wait()
    assert eventually(lambda: not is_running(pid))


def test_a_command_that_is_missing_is_named(tmp_path: Path) -> None:
    missing = str(tmp_path / "no-such-program")
    with pytest.raises(DdlbenchError, match=f"it could not be made(.|\n)*{missing}"):
        run_command([missing], "it", timeout_s=60, variables=dict(os.environ))
