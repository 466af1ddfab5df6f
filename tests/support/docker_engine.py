"""A container engine for tests: Docker's daemon with a root, a state and a socket of its own, gone in the end."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ddlbench.containers.engine import connect
from ddlbench.errors import DdlbenchError
from ddlbench.system.processes import die_with_parent
from tests.support.vanishing import vanishing_folder

START_TIMEOUT_S = 300
STOP_TIMEOUT_S = 120


@contextmanager
def docker_engine(options: Sequence[str] = ()) -> Iterator[str]:
    """A fresh engine without images and networks; gives its address for DOCKER_HOST. options: more ones of dockerd."""
    assert shutil.which("dockerd"), "no dockerd here: `make test-all` installs it"
    assert os.geteuid() == 0, "dockerd runs as root only: run these tests as root"
    with vanishing_folder("ddlbench-engine-") as folder:  # a socket's path has 107 letters at most
        with (folder / "log").open("w") as log:
            daemon = subprocess.Popen(
                dockerd_argv(folder, options), stdout=log, stderr=log, preexec_fn=die_with_parent
            )
        try:
            address = f"unix://{folder}/docker.sock"
            wait_for(address, daemon, folder / "log")
            yield address
        finally:
            ended(daemon)


def dockerd_argv(folder: Path, options: Sequence[str]) -> list[str]:
    """The daemon in a mount namespace, with which its mounts go; it leaves the machine's network alone."""
    return [
        *("unshare", "--mount", "--", "dockerd"),
        f"--data-root={folder}/data",
        f"--exec-root={folder}/exec",
        f"--pidfile={folder}/pid",
        f"--host=unix://{folder}/docker.sock",
        *("--iptables=false", "--ip-forward=false", "--ip-masq=false", "--bridge=none"),
        *options,
    ]


def ended(daemon: "subprocess.Popen[bytes]") -> None:
    """Have an engine end, in peace if it will."""
    daemon.terminate()
    try:
        daemon.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def wait_for(address: str, daemon: "subprocess.Popen[bytes]", log: Path) -> None:
    """Wait until an engine answers at its address; log: what is shown where it does not."""
    until = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < until and daemon.poll() is None:
        if Path(address.removeprefix("unix://")).exists():
            try:
                connect(address).close()
                return
            except DdlbenchError:
                pass
        time.sleep(0.1)
    raise AssertionError(f"the container engine does not start:\n{log.read_text()[-2000:]}")
