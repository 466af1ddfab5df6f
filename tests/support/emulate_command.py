"""Commands that emulated hosts run, as a user would call them."""

import subprocess
import sys
from pathlib import Path

# As the installed command: without the working directory. Tests run side by side, and assert no times.
ALONE = [sys.executable, "-P", "-m", "ddlbench.cli", "emulate"]
EMULATE = [*ALONE, "--other-measurements", "ignore"]
LINK = ["--bandwidth-mbit", "50", "--latency-ms", "1"]


def run(*argv: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command until it ends.

    Args:
        *argv: the command.
        folder: in which its processes work.

    Returns:
        What it said, and its status.
    """
    return subprocess.run(argv, capture_output=True, text=True, cwd=folder, timeout=800)


def emulated(
    *options: str, script: str, folder: Path, interpreter: str = "sh"
) -> subprocess.CompletedProcess[str]:
    """Run a script on emulated hosts until all have ended.

    Args:
        *options: of `ddlbench emulate`.
        script: what each host runs.
        folder: in which its processes work.
        interpreter: of the script.

    Returns:
        What the command said, and its status.
    """
    return run(*EMULATE, *LINK, *options, "--", interpreter, "-c", script, folder=folder)


def lines_of(host: str, text: str) -> list[str]:
    """Pick what a host printed.

    Args:
        host: its name.
        text: the output of `ddlbench emulate`.

    Returns:
        Its lines, without its name.
    """
    return [line.partition(" | ")[2] for line in text.splitlines() if line.startswith(f"{host} ")]
