"""The GPU of a PyTorch worker: whether it can be used, how much of its memory is the worker's, and its libraries."""

import os

import torch

from ddlbench.protocol.messages import Assignment
from ddlbench.workers.common.devices import no_gpu_found, not_built_for_gpus, on_gpu, shared_memory_bytes

CPU = torch.device("cpu")


def why_not(assignment: Assignment) -> str | None:
    """Check that a member can compute on what its assignment says.

    Args:
        assignment: of the member.

    Returns:
        Why it cannot, for a person; None where it can.
    """
    return why_no_gpu() if on_gpu(assignment) else None


def why_no_gpu() -> str | None:
    """Check that PyTorch can compute on a GPU here.

    Returns:
        Why it cannot, for a person; None where it can.
    """
    if torch.version.cuda is None:
        return not_built_for_gpus("PyTorch", torch.__version__, "torch")
    os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)  # CUDA itself may be used from here on
    if not torch.cuda.is_available():
        return no_gpu_found(f"PyTorch {torch.__version__}", f"CUDA {torch.version.cuda}")
    return None


def device_of(assignment: Assignment) -> torch.device:
    """Choose what a member computes on; if it shares a GPU, limit it to its share of the memory.

    Args:
        assignment: of the member.

    Returns:
        The CPU, or the GPU, which is then CUDA's current device.
    """
    if not on_gpu(assignment):
        return CPU
    device = torch.device("cuda", 0)  # the only one that it sees, or the first that a scheduler gave it
    torch.cuda.set_device(device)
    if limit := shared_memory_bytes(assignment):
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), device)
    return device


def finish(device: torch.device) -> None:
    """Wait until a GPU has done all its work; on a CPU nothing is left to do.

    Args:
        device: of the member.
    """
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def release() -> None:
    """Give back the GPU's memory that PyTorch keeps for future arrays."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def versions(assignment: Assignment) -> dict[str, str]:
    """Find the versions of the libraries that a member computes with.

    Args:
        assignment: of the member.

    Returns:
        By library: `torch`, and on a GPU also `cuda`, `cudnn` and `nccl`.
    """
    found = {"torch": torch.__version__}
    if on_gpu(assignment):
        found |= {
            "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        }
    return found
