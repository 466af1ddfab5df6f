"""Which of a node's processors and GPUs each of its workers has: by NUMA node, near its GPU."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ddlbench.protocol.agent_messages import Binding

_SYSFS = Path("/sys")


def bindings(
    cores: Sequence[int], gpus: Sequence[str], workers: int, numa: Mapping[int, int], of_gpus: Sequence[int]
) -> list[Binding]:
    """Divide a node among its workers: GPU i for worker i, and as many processors for each.

    Workers take processors of the NUMA node that their GPU is at; those whose node has none left take what is left.

    Args:
        cores: that may be used.
        gpus: names for CUDA_VISIBLE_DEVICES, in order; empty: workers compute on processors.
        workers: of this node.
        numa: the NUMA node of each processor.
        of_gpus: the NUMA node of each GPU; -1 where it is not known.

    Returns:
        A binding for each worker.
    """
    each = len(cores) // workers
    left = sorted(cores, key=lambda core: (numa.get(core, 0), core))
    found: dict[int, tuple[int, ...]] = {}
    near = [of_gpus[worker] if worker < len(of_gpus) else -1 for worker in range(workers)]
    for worker in sorted(range(workers), key=lambda worker: near[worker] < 0):  # who has a wish comes first
        wished = [core for core in left if numa.get(core, 0) == near[worker]]
        taken = (wished if len(wished) >= each else left)[:each]
        found[worker] = tuple(sorted(taken))
        left = [core for core in left if core not in taken]
    return [Binding(found[worker], gpus[worker] if worker < len(gpus) else None) for worker in range(workers)]


def numa_of_cores(sysfs: Path = _SYSFS) -> dict[int, int]:
    """Find the NUMA node of each processor.

    Args:
        sysfs: where the kernel's sysfs is mounted.

    Returns:
        Processor -> node; empty where the kernel has no NUMA.
    """
    return {
        core: int(node.name.removeprefix("node"))
        for node in (sysfs / "devices/system/node").glob("node[0-9]*")
        for core in listed((node / "cpulist").read_text())
    }


def numa_of_device(pci_address: str, sysfs: Path = _SYSFS) -> int:
    """Find the NUMA node of a PCI device.

    Args:
        pci_address: as `00000000:3B:00.0` or `0000:3b:00.0`.
        sysfs: where the kernel's sysfs is mounted.

    Returns:
        The node; -1 if it is not known, as of a GPU of a virtual machine that has no such address.
    """
    try:
        domain, rest = pci_address.lower().split(":", 1)
        return int((sysfs / "bus/pci/devices" / f"{domain[-4:]}:{rest}" / "numa_node").read_text())
    except (OSError, ValueError):
        return -1


def listed(text: str) -> list[int]:
    """Read a list of processors as the kernel writes it.

    Args:
        text: `0-3,8`.

    Returns:
        The numbers: 0, 1, 2, 3, 8.
    """
    parts = (part.split("-") for part in text.strip().split(",") if part)
    return [core for first, *last in parts for core in range(int(first), int(last[0] if last else first) + 1)]
