"""How a PyTorch worker joins the others of its group: over Gloo, or on GPUs over NCCL."""

from datetime import timedelta

import torch
import torch.distributed as dist

from ddlbench.protocol.messages import Assignment
from ddlbench.workers.common.listener import await_listener
from ddlbench.workers.torch.gpu import device_of


def join(assignment: Assignment) -> torch.device:
    """Join the process group, over Gloo or, on GPUs, over NCCL.

    Args:
        assignment: of this rank.

    Returns:
        The device that this rank computes on.
    """
    device = device_of(assignment)
    torch.set_num_threads(assignment.threads)
    if assignment.rank > 0:
        await_listener(assignment.rendezvous, assignment.timeout_s)
    dist.init_process_group(
        "nccl" if device.type == "cuda" else "gloo",
        init_method=f"tcp://{assignment.rendezvous}",
        rank=assignment.rank,
        world_size=assignment.world_size,
        timeout=timedelta(seconds=assignment.timeout_s),
    )
    return device


def accelerator(device: torch.device) -> torch.device | None:
    """Convert a device to what `new_group` takes; NCCL then connects at once, and not in the first collective.

    Args:
        device: of this rank.

    Returns:
        The GPU; None on a CPU.
    """
    return device if device.type == "cuda" else None


def indices(device: torch.device) -> list[int] | None:
    """Convert a device to what DDP and `barrier` take.

    Args:
        device: of this rank.

    Returns:
        The GPU's index; None on a CPU.
    """
    return [device.index] if device.type == "cuda" else None
