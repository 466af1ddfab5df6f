"""Pictures of the page: a server of its own, one imported table, and Chromium."""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import requests

from ddlbench.errors import ConfigError, DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.prediction.foreign.files import read_foreign
from ddlbench.prediction.foreign.imported import write_imported
from ddlbench.prediction.foreign.table import import_table
from ddlbench.recommender.serving import TOKEN_VARIABLE
from ddlbench.system.processes import die_with_parent

MOST_S = 300  # to start, to learn, to photograph
REQUEST_S = 30
SIZE = "1000,1250"
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--hide-scrollbars"),
    *(f"--window-size={SIZE}", "--virtual-time-budget=20000"),
)


def chromium() -> str:
    """Find Chromium.

    Returns:
        Its path.

    Raises:
        ConfigError: it is missing; says how to get it.
    """
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if path := shutil.which(name):
            return path
    raise ConfigError("pictures of the page need Chromium, which is missing.  sudo apt-get install chromium")


def photograph(table: Path, question: str, picture: Path) -> None:
    """Take a picture of the page.

    Args:
        table: of measurements from others, which answers.
        question: the fields of the form, as in the page's address; empty: none is filled in.
        picture: the PNG file to write.

    Raises:
        DdlbenchError: the page cannot be served or photographed; says why.
    """
    program = chromium()
    with tempfile.TemporaryDirectory(prefix="ddlbench-page-") as name:
        folder = Path(name)
        taken = folder / "page.png"
        with served(table, folder) as address:
            command = [program, *FLAGS, f"--user-data-dir={folder / 'profile'}", f"--screenshot={taken}"]
            page = f"{address}?{question}" if question else address
            _run([*command, page])
        if not taken.is_file():
            raise DdlbenchError(f"{program} took no picture of the page")
        write_atomically(picture, taken.read_bytes())


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=MOST_S, preexec_fn=die_with_parent, check=False
        )
    except subprocess.TimeoutExpired:
        raise DdlbenchError(f"{command[0]} took longer than {MOST_S} s") from None
    if done.returncode:
        raise DdlbenchError(f"{command[0]} failed (status {done.returncode}):\n{done.stderr[-1000:]}")


@contextmanager
def served(table: Path, folder: Path) -> Iterator[str]:
    """Serve the page until the end of the `with`.

    Args:
        table: of measurements from others, which answers.
        folder: for what the server needs.

    Yields:
        The address of a server that has learned the table.

    Raises:
        DdlbenchError: the table is none, or the page cannot be served; says why.
    """
    taken = import_table(read_foreign(table), table)
    write_imported(folder / "imported" / f"{table.stem}.csv", taken.measured, taken.per)
    arguments = ("-m", "ddlbench.cli", "serve", "--port", "0", "--tables", "none")
    log = folder / "server.log"
    variables = {name: value for name, value in os.environ.items() if name != TOKEN_VARIABLE}
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=folder,
            env=variables,  # without a token, which the page would ask for
            stdout=output,
            stderr=output,
            preexec_fn=die_with_parent,
        )
    try:
        deadline = time.monotonic() + MOST_S
        while time.monotonic() < deadline and process.poll() is None:
            if (found := re.search(r"http://\S+/", log.read_text())) and _has_learned(found[0]):
                yield found[0]
                return
            time.sleep(0.2)
        raise DdlbenchError(f"the page was not served within {MOST_S} s:\n{log.read_text()[-1000:]}")
    finally:
        process.terminate()
        try:
            process.wait(REQUEST_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _has_learned(address: str) -> bool:
    try:
        return bool(requests.get(f"{address}health", timeout=REQUEST_S).json()["status"] == "ready")
    except requests.RequestException:
        return False
