"""Podman's service for tests, with storage and a socket of its own, which is gone in the end."""

import os
import resource
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ddlbench.system.processes import die_with_parent
from tests.support.docker_engine import ended, wait_for
from tests.support.vanishing import vanishing_folder


@contextmanager
def podman_engine() -> Iterator[str]:
    """A fresh service of root's, without images; gives its address for DOCKER_HOST."""
    assert shutil.which("podman"), "no podman here: `make test-all` installs it"
    assert os.geteuid() == 0, "this Podman is root's: run these tests as root"
    with vanishing_folder("ddlbench-podman-") as folder:
        (folder / "containers.conf").write_text(limits())
        variables = {**os.environ, "CONTAINERS_CONF": str(folder / "containers.conf")}
        address = f"unix://{folder}/podman.sock"
        with (folder / "log").open("w") as log:
            service = subprocess.Popen(
                service_argv(folder, address),
                env=variables,
                stdout=log,
                stderr=log,
                preexec_fn=die_with_parent,
            )
        try:
            wait_for(address, service, folder / "log")
            yield address
        finally:
            ended(service)


def service_argv(folder: Path, address: str) -> list[str]:
    """The service in a mount namespace, with which its mounts go."""
    places = [f"--root={folder}/root", f"--runroot={folder}/run", f"--tmpdir={folder}/tmp"]
    return ["unshare", "--mount", "--", "podman", *places, "system", "service", "--time=0", address]


def limits() -> str:
    """A containers.conf with this process's own limits: a root without the right to raise them could start nothing."""
    _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
    _, processes = resource.getrlimit(resource.RLIMIT_NPROC)
    most = int(Path("/proc/sys/kernel/pid_max").read_text())
    processes = most if processes == resource.RLIM_INFINITY else min(processes, most)
    return f'[containers]\ndefault_ulimits = ["nofile={files}:{files}", "nproc={processes}:{processes}"]\n'
