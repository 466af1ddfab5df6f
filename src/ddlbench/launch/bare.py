"""The command of workers that run in a virtual environment on the host itself."""

from collections.abc import Mapping

from ddlbench.launch.network_variables import network_variables
from ddlbench.system.package import package_root
from ddlbench.workers.modules import MODULES


def workers_argv(python: str, worker: str) -> list[str]:
    """The argv of the process from which workers are forked; `worker` is a name of MODULES."""
    return [python, "-m", "ddlbench.workers.common.fork_server", MODULES[worker]]


def workers_environment(
    inherited: Mapping[str, str], *, threads: int, interface: str, infiniband_port: str | None = None
) -> dict[str, str]:
    """The environment variables of workers: our package, its threads, and the interface to talk over.

    The C library keeps what a step has freed: given back to the kernel, it would come back page by page in the next
    one, which costs up to a third of a step, and not always (PyTorch's tuning guide advises such allocators too). It
    asks for huge pages, with which the first touch of a large batch takes a quarter of the time. PyTorch looks for GPUs
    without starting CUDA, which does not survive that workers are forked.
    """
    kept = {
        name: value
        for name, value in inherited.items()
        if name in ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
    }
    return (
        kept
        | {
            "PYTHONPATH": package_root(),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": str(threads),
            "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
            "MALLOC_MMAP_MAX_": "0",
            "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        }
        | network_variables(interface, infiniband_port)
    )
