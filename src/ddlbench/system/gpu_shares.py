"""Which GPU of this machine each worker computes on, and how much of its memory is the worker's."""

from collections.abc import Sequence
from dataclasses import dataclass

from ddlbench.protocol.messages import GpuShare

# Of a GPU that workers share. The rest is for what each process needs besides its arrays (context, NCCL's buffers).
SHARED = 0.9


@dataclass(frozen=True)
class Gpu:
    """A GPU of this machine.

    Attributes:
        index: from 0, in the order of the PCI bus, as NVML and CUDA's PCI_BUS_ID number GPUs.
        pci_address: on that bus, `00000000:3B:00.0`; empty: not known.
    """

    index: int
    uuid: str
    name: str
    memory_bytes: int
    pci_address: str = ""


def share_out(gpus: Sequence[Gpu], workers: int) -> tuple[GpuShare, ...]:
    """Give each worker a GPU of its own; if there are too few, worker i computes on GPU i modulo their number.

    Args:
        gpus: the GPUs that may be used.
        workers: how many there are.

    Returns:
        One share for each worker, in order; none at all if there are no GPUs.
    """
    counts = [len(range(place, workers, len(gpus))) for place in range(len(gpus))]
    each = [
        (gpus[worker % len(gpus)], counts[worker % len(gpus)]) for worker in range(workers if gpus else 0)
    ]
    return tuple(
        GpuShare(
            index=gpu.index,
            uuid=gpu.uuid,
            name=gpu.name,
            workers=count,
            memory_bytes=gpu.memory_bytes if count == 1 else int(gpu.memory_bytes * SHARED / count),
        )
        for gpu, count in each
    )


def visible(gpus: Sequence[Gpu], named: str | None) -> list[Gpu]:
    """Select the GPUs that CUDA_VISIBLE_DEVICES makes visible.

    As in CUDA, a name is an index or the beginning of a UUID, and the first unknown name ends the list.

    Args:
        gpus: all GPUs of the machine.
        named: the value of CUDA_VISIBLE_DEVICES; None: it is not set, and all GPUs are visible.

    Returns:
        The visible ones, in the order of the variable.
    """
    if named is None:
        return list(gpus)
    found: list[Gpu] = []
    for name in (each.strip() for each in named.split(",")):
        chosen = [gpu for gpu in gpus if name == str(gpu.index) or (name and gpu.uuid.startswith(name))]
        if len(chosen) != 1 or chosen[0] in found:
            break
        found += chosen
    return found
