"""Texts in a log by which a process reports that it lacked memory; frameworks and their libraries have many."""

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
