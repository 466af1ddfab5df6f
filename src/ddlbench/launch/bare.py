"""The command of workers that run in a virtual environment on the host itself."""

from collections.abc import Mapping, Sequence

from ddlbench.launch.network_variables import network_variables
from ddlbench.system.package import package_root
from ddlbench.workers.modules import MODULES

OF_WORKERS = ("PATH", "HOME", "LANG", "TMPDIR", "LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES")
# The C library keeps memory that a step has freed: given back to the kernel, it would return page by page in the next
# step. That costs up to a third of a step, but not always (PyTorch's tuning guide recommends such allocators too). It
# asks for huge pages, with which the first use of a large batch takes a quarter of the time.
KEEPS_MEMORY = {
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
}


def workers_argv(python: str, worker: str) -> list[str]:
    """Write the command of the fork server.

    Args:
        python: the interpreter of the workers' environment.
        worker: a name of MODULES.

    Returns:
        Its argv.
    """
    return [python, "-m", "ddlbench.workers.common.fork_server", MODULES[worker]]


def workers_environment(
    inherited: Mapping[str, str], *, threads: int, interface: str, infiniband_ports: Sequence[str] = ()
) -> dict[str, str]:
    """Choose the environment variables of workers: our package, their threads, and the network interface.

    PyTorch looks for GPUs without starting CUDA, because CUDA does not survive a fork.

    Args:
        inherited: the driver's variables, of which a few are kept.
        threads: that a worker computes with.
        interface: the name of the network interface.
        infiniband_ports: those that NCCL may use (`mlx5_0:1`); none over Ethernet.

    Returns:
        Values by name.
    """
    kept = {name: value for name, value in inherited.items() if name in OF_WORKERS}
    return (
        kept
        | {
            "PYTHONPATH": package_root(),
            "PYTHONUNBUFFERED": "1",
            "OMP_NUM_THREADS": str(threads),
            **KEEPS_MEMORY,
            "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        }
        | network_variables(interface, infiniband_ports)
    )
