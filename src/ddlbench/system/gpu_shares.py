"""Which GPU of this machine each worker computes on, and how much of its memory is the worker's."""

from collections.abc import Sequence
from dataclasses import dataclass

from ddlbench.protocol.messages import GpuShare

# Of a GPU that workers share: the rest is for what each process has there besides its arrays (context, NCCL's buffers).
SHARED = 0.9


@dataclass(frozen=True)
class Gpu:
    """A GPU by its place on the PCI bus among those of its machine, from 0, as NVML and CUDA's PCI_BUS_ID have it."""

    index: int
    uuid: str
    name: str
    memory_bytes: int


def share_out(gpus: Sequence[Gpu], workers: int) -> tuple[GpuShare, ...]:
    """Each worker's share: a GPU of its own where there are enough, else worker i is on GPU i modulo their number.

    Without GPUs there are no shares.
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
    """Those of the machine's GPUs that CUDA_VISIBLE_DEVICES names, in its order (None: all of them).

    As CUDA has it, names are indices or beginnings of UUIDs, and the first that is none ends the list.
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
