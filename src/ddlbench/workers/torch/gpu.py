"""The GPU of a PyTorch worker: whether it can be used, how much of its memory is the worker's, and its libraries."""

import os

import torch

from ddlbench.protocol.messages import Assignment
from ddlbench.workers.common.devices import no_gpu_found, not_built_for_gpus, on_gpu, shared_memory_bytes

CPU = torch.device("cpu")


def why_not(assignment: Assignment) -> str | None:
    """Why this member cannot compute on what its assignment says; None where it can."""
    if not on_gpu(assignment):
        return None
    if torch.version.cuda is None:
        return not_built_for_gpus("PyTorch", torch.__version__, "torch")
    os.environ.pop("PYTORCH_NVML_BASED_CUDA_CHECK", None)  # from here on CUDA itself is asked
    if not torch.cuda.is_available():
        return no_gpu_found(f"PyTorch {torch.__version__}", f"CUDA {torch.version.cuda}")
    return None


def device_of(assignment: Assignment) -> torch.device:
    """What this member computes on; a GPU that it shares it fills no further than its share."""
    if not on_gpu(assignment):
        return CPU
    device = torch.device("cuda", 0)  # the only one that it sees, or the first that a scheduler gave it
    torch.cuda.set_device(device)
    if limit := shared_memory_bytes(assignment):
        total = torch.cuda.get_device_properties(device).total_memory
        torch.cuda.set_per_process_memory_fraction(min(1.0, limit / total), device)
    return device


def finish(device: torch.device) -> None:
    """Wait until all that a GPU was told is done; on a CPU it is."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def release() -> None:
    """Give back the GPU's memory that PyTorch keeps for arrays which are not there yet."""
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def versions(assignment: Assignment) -> dict[str, str]:
    """PyTorch's version, and on a GPU those of the libraries that it computes with there."""
    found = {"torch": torch.__version__}
    if on_gpu(assignment):
        found |= {
            "cuda": str(torch.version.cuda),
            "cudnn": str(torch.backends.cudnn.version()),
            "nccl": ".".join(map(str, torch.cuda.nccl.version())),
        }
    return found
