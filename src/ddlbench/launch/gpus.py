"""The GPUs of this machine and their load, by NVIDIA's management library (NVML)."""

import math
import os
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import psutil
import pynvml

from ddlbench.system.gpu_shares import Gpu, visible


class GpuLoad(NamedTuple):
    """What all processes together use of a GPU.

    Attributes:
        percent: the share of time in which it was computing; NaN if the driver does not report it.
        memory_bytes: the memory in use; the machine's, of a GPU that has none of its own.
    """

    percent: float
    memory_bytes: int


class Gpus:
    """The GPUs of this machine by their UUIDs; none where there is no NVIDIA driver."""

    def __init__(self) -> None:
        self._handles: dict[str, Any] = {}
        try:
            pynvml.nvmlInit()
            for index in range(pynvml.nvmlDeviceGetCount()):
                handle = pynvml.nvmlDeviceGetHandleByIndex(index)
                self._handles[_text(pynvml.nvmlDeviceGetUUID(handle))] = handle
        except pynvml.NVMLError:
            self._handles = {}

    def all(self) -> list[Gpu]:
        """List the GPUs in NVML's order."""
        return [
            Gpu(
                index,
                uuid,
                _text(pynvml.nvmlDeviceGetName(handle)),
                int(_memory(handle).total),
                _pci_address(handle),
            )
            for index, (uuid, handle) in enumerate(self._handles.items())
        ]

    def read(self) -> dict[str, GpuLoad]:
        """Read the load of each GPU, in NVML's order."""
        return {
            uuid: GpuLoad(_percent(handle), int(_memory(handle).used))
            for uuid, handle in self._handles.items()
        }


@cache
def gpus_here() -> tuple[Gpu, ...]:
    """Find the GPUs that may be used on this machine: all, or those that CUDA_VISIBLE_DEVICES names."""
    return usable(os.environ)


def usable(variables: Mapping[str, str]) -> tuple[Gpu, ...]:
    """Find the GPUs that processes with some environment variables may use.

    Args:
        variables: of such a process; CUDA_VISIBLE_DEVICES counts.

    Returns:
        The GPUs, in the order of that variable.
    """
    return tuple(visible(Gpus().all(), variables.get("CUDA_VISIBLE_DEVICES")))


def _percent(handle: Any) -> float:
    try:
        return float(pynvml.nvmlDeviceGetUtilizationRates(handle).gpu)
    except pynvml.NVMLError:
        return math.nan


def _memory(handle: Any) -> Any:
    """Its memory, or the machine's, where the GPU has none of its own: `total` and `used`, in bytes."""
    try:
        return pynvml.nvmlDeviceGetMemoryInfo(handle)
    except pynvml.NVMLError_NotSupported:
        return psutil.virtual_memory()


def _pci_address(handle: Any) -> str:
    try:
        return _text(pynvml.nvmlDeviceGetPciInfo(handle).busId)
    except pynvml.NVMLError:  # as in some virtual machines
        return ""


def _text(answer: str | bytes) -> str:
    return answer.decode() if isinstance(answer, bytes) else answer
