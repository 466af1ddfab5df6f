"""How a PyTorch worker joins the others of its group: over Gloo, or on GPUs over NCCL."""

from datetime import timedelta

import torch
import torch.distributed as dist

from ddlbench.protocol.messages import Assignment
from ddlbench.workers.common.listener import await_listener
from ddlbench.workers.torch.gpu import device_of


def join(assignment: Assignment) -> torch.device:
    """Join the process group of the assignment; returns the device that this rank computes on."""
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
    """The device as `new_group` wants it: NCCL then makes its connections at once, and not in a first collective."""
    return device if device.type == "cuda" else None


def indices(device: torch.device) -> list[int] | None:
    """The device as DDP and `barrier` want it."""
    return [device.index] if device.type == "cuda" else None
