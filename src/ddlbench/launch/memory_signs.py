"""Signs that a process lacks memory: its size, that its group stands still, what the kernel kills, texts in its log.

Of such texts frameworks and libraries have many.
"""

from collections.abc import Sequence
from math import fsum
from pathlib import Path
from time import monotonic

import psutil

_FILLED = 0.98  # of its limit; an allocation of some MB then fails
_LOOK_S = 5.0
_IDLE_S = 60.0  # longer than any time-out of TCP that follows a few lost packets
_IDLE_SHARE = 0.01  # of a core, for each process: what tells that it is alive takes less
_SIGNS = (
    "std::bad_alloc",  # C++
    "MemoryError",  # Python, NumPy
    "Cannot allocate memory",  # the kernel
    "can't allocate memory",  # PyTorch
    "ResourceExhaustedError",  # TensorFlow
    "could not create a primitive",  # oneDNN
    "could not execute a primitive",
    "Failed to allocate",  # MXNet
    "CUDA out of memory",  # on a GPU, PyTorch
    "_STATUS_ALLOC_FAILED",  # cuBLAS, cuDNN
    "OOM when allocating",  # TensorFlow
    "CUDA_ERROR_OUT_OF_MEMORY",  # the driver
    "'out of memory'",  # NCCL
    "failed: out of memory",  # MXNet's cudaMalloc
)


def sign_of_lacking_memory(log: str) -> str | None:
    """Find the last line of a log that reports a lack of memory.

    Args:
        log: its text.

    Returns:
        The line without spaces around it; None if there is none.
    """
    lines = (line.strip() for line in reversed(log.splitlines()))
    return next((line for line in lines if any(sign in line for sign in _SIGNS)), None)


def kernel_kills() -> int:
    """Count the processes that this machine's kernel has killed for want of memory since it was started.

    Returns:
        How many; 0 if the kernel does not tell.
    """
    try:
        counters = dict(line.split() for line in Path("/proc/vmstat").read_text().splitlines())
    except (OSError, ValueError):
        return 0
    return int(counters.get("oom_kill", 0))


def has_filled_its_memory(pid: int) -> bool:
    """Say whether hardly any memory is left of what a process may have.

    A framework may not notice that an allocation has failed in one of its threads, and wait for that for ever.

    Args:
        pid: of the process, on this machine.

    Returns:
        Whether its data are nearly as large as its limit (RLIMIT_DATA); False if it has none, or has ended.
    """
    try:
        process = psutil.Process(pid)
        limit_bytes, _ = process.rlimit(psutil.RLIMIT_DATA)
        used_bytes: int = process.memory_info().data
    except psutil.Error:
        return False
    return limit_bytes != psutil.RLIM_INFINITY and used_bytes >= _FILLED * limit_bytes


class FullAndIdle:
    """Watches the processes of a group for one that has filled its memory while none of them computes.

    Args:
        pids: of the processes, on this machine.
    """

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = pids
        self.restart()

    def restart(self) -> None:
        """Forget what was seen: who had nothing to do before waits for nobody."""
        self._looked_s = monotonic()
        self._idle_from: tuple[float, float] | None = None  # the time, and all CPU time so far

    def full(self) -> int | None:
        """Look, if the last look was some seconds ago.

        Returns:
            The place in `pids` of a process that has no memory left, once no process has computed for a minute; else
            None.
        """
        now_s = monotonic()
        if now_s < self._looked_s + _LOOK_S:
            return None
        self._looked_s = now_s
        full = next((place for place, pid in enumerate(self._pids) if has_filled_its_memory(pid)), None)
        if full is None:
            self._idle_from = None
            return None
        computed_s = fsum(map(_computed_s, self._pids))
        from_s, before_s = self._idle_from or (now_s, computed_s)
        if computed_s - before_s > _IDLE_SHARE * len(self._pids) * (now_s - from_s):
            from_s, before_s = now_s, computed_s
        self._idle_from = from_s, before_s
        return full if now_s - from_s >= _IDLE_S else None


def _computed_s(pid: int) -> float:
    """The CPU time of a process so far; 0 if it has ended."""
    try:
        times = psutil.Process(pid).cpu_times()
    except psutil.Error:
        return 0.0
    return float(times.user + times.system)
