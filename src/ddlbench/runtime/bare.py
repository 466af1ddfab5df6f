"""The command of workers that run in a virtual environment on the host itself."""

import sys
from collections.abc import Mapping
from pathlib import Path

MODULES = {"torch": "ddlbench.workers.torch_worker"}


def workers_argv(python: str, framework: str) -> list[str]:
    """The argv of the process from which the framework's workers are forked."""
    return [python, "-m", "ddlbench.workers.fork_server", MODULES[framework]]


def workers_environment(inherited: Mapping[str, str], *, threads: int, interface: str) -> dict[str, str]:
    """The environment variables of workers: our package, its threads, and the interface for Gloo and NCCL.

    The C library keeps what a step has freed: given back to the kernel, it would come back page by page in the next
    one, which costs up to a third of a step, and not always (PyTorch's tuning guide advises such allocators too). It
    asks for huge pages, with which the first touch of a large batch takes a quarter of the time.
    """
    kept = {
        name: value
        for name, value in inherited.items()
        if name in ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH")
    }
    return kept | {
        "PYTHONPATH": package_root(),
        "PYTHONUNBUFFERED": "1",
        "OMP_NUM_THREADS": str(threads),
        "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
        "GLOO_SOCKET_IFNAME": interface,
        "NCCL_SOCKET_IFNAME": interface,
    }


def package_root() -> str:
    """The folder from which `ddlbench` is imported."""
    return str(Path(sys.modules["ddlbench"].__file__ or "").parent.parent)
