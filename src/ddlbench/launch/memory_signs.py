"""Signs that a process lacks memory: its size, and texts in its log, of which frameworks and libraries have many."""

import psutil

_FILLED = 0.98  # of its limit; an allocation of some MB then fails
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
