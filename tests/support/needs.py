"""What tests need of a machine beside this repository's environments: how each is found, and how to get it.

    python -m tests.support.needs      the Debian packages of all that is missing here

A test needs what its fixtures need (`OF_FIXTURES`), and what its marker names: `@pytest.mark.needs("iperf3")`.
"""

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from ddlbench.errors import DdlbenchError
from ddlbench.launch.gpus import gpus_here
from ddlbench.sandbox.sandbox import check_sandbox
from ddlbench.shares.control_groups import own_group_here
from tests.support.repository import REPOSITORY

_PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


@dataclass(frozen=True)
class Need:
    """One thing that tests need.

    Attributes:
        is_here: whether this machine has it.
        advice: how to get it, for a person.
        packages: the Debian packages that bring it.
        ordinary: whether `make test` may use it: without root, within the checkout and soon ready.
        required: whether `make test-all` fails without it.
        made: whether the fixture that needs it makes it.
    """

    is_here: Callable[[], bool]
    advice: str
    packages: tuple[str, ...] = ()
    ordinary: bool = False
    required: bool = True
    made: bool = False


def _programs(*names: str, packages: tuple[str, ...], ordinary: bool = False) -> Need:
    """A need for programs (a path stands for a file)."""
    return Need(
        lambda: all(shutil.which(name, path=_PATH) or Path(name).is_file() for name in names),
        f"sudo apt-get install {' '.join(packages)}",
        packages,
        ordinary,
    )


def _environment(name: str) -> Need:
    stamp = f".environments/{name}/environment.json"
    return Need((REPOSITORY / stamp).is_file, f"snakemake --cores 2 {stamp}", made=True)


def _sandboxes() -> bool:
    try:
        check_sandbox()
    except DdlbenchError:
        return False
    return True


def _divides_cores() -> bool:
    """Whether we may make control groups that divide the cores below our own, by the kernel's first version of them."""
    group = own_group_here()
    return group is not None and os.access(group, os.W_OK) and (group / "cpu.shares").exists()


NEEDS = {
    "root": Need(lambda: os.geteuid() == 0, "sudo make test-all"),
    "sandboxes": Need(_sandboxes, "sudo sysctl kernel.unprivileged_userns_clone=1", ordinary=True),
    "iperf3": _programs("iperf3", packages=("iperf3",), ordinary=True),
    "NPtcp": _programs("NPtcp", packages=("netpipe-tcp",), ordinary=True),
    "patch": _programs("patch", packages=("patch",), ordinary=True),
    "ucx_perftest": _programs("ucx_perftest", packages=("ucx-utils",), ordinary=True),
    "User-Mode Linux": _programs(
        *("linux.uml", "insmod", "gcc", "/usr/include/stdio.h"),
        packages=("user-mode-linux", "kmod", "gcc", "libc6-dev"),
    ),
    "SLURM": _programs(
        *("slurmctld", "slurmd", "sinfo", "munged", "mungekey", "nsenter"), packages=("slurm-wlm", "munge")
    ),
    "Docker": _programs("dockerd", "mmdebstrap", packages=("docker.io", "mmdebstrap")),
    "Podman": _programs("podman", "newuidmap", packages=("podman", "uidmap")),
    "Apptainer": Need(
        lambda: bool(shutil.which("apptainer") or shutil.which("singularity")),
        "sudo containers/install-apptainer",
    ),
    "Chromium": _programs("chromium", packages=("chromium",)),
    "PyTorch": Need(lambda: True, "", ordinary=True),  # its fixture makes its environment, soon
    "TensorFlow": _environment("tensorflow"),
    "Horovod": _environment("horovod"),
    "MXNet": _environment("mxnet"),
    "RO-Crate's validator": Need(lambda: True, "", made=True),  # as that of PyTorch, but not soon
    "a divided CPU controller": Need(
        _divides_cores,
        "root, on a kernel whose control groups divide the cores",
        required=False,
    ),
    "time": Need(lambda: True, ""),  # marked `long`
    "a GPU": Need(lambda: bool(gpus_here()), "a machine that has one", required=False),
}

OF_FIXTURES = {
    "torch_environment": ("sandboxes",),  # where its workers run
    "sandbox": ("sandboxes",),
    "tensorflow_environment": ("TensorFlow",),
    "horovod_environment": ("Horovod",),
    "mxnet_environment": ("MXNet",),
    "engine_address": ("root", "Docker"),
    "contained": ("Apptainer",),
    "podman_address": ("root", "Podman", "Docker"),  # mmdebstrap makes the base of its images
    "browser": ("Chromium",),
    "crate_validator": ("RO-Crate's validator",),
    "four_nodes": ("root", "SLURM"),
}


@cache
def is_here(name: str) -> bool:
    """Whether this machine has what a need is called by."""
    return NEEDS[name].is_here()


def missing_packages() -> list[str]:
    """The Debian packages of what this machine lacks."""
    return [package for name, need in NEEDS.items() if not is_here(name) for package in need.packages]


if __name__ == "__main__":
    print(*missing_packages())
