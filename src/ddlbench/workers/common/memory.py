"""The memory that training takes, from a model's description alone; a point that cannot fit is refused in advance.

Frameworks do not always report that memory is too small: some of their libraries abort or crash.
"""

import resource

from ddlbench.workers.common.models.architectures import layers
from ddlbench.workers.common.models.layers import Shape, flat, parameter_count

_FLOAT_BYTES = 4


def refuse(needed_bytes: int, what: str) -> None:
    """Refuse what needs more memory than this process may have (RLIMIT_DATA).

    Args:
        needed_bytes: all that the process will need.
        what: the beginning of the error's text, before the number of bytes.

    Raises:
        MemoryError: the limit is lower.
    """
    limit, _ = resource.getrlimit(resource.RLIMIT_DATA)
    if limit != resource.RLIM_INFINITY and needed_bytes > limit:
        raise MemoryError(f"{what} {needed_bytes} bytes, and there are {limit}")


def used_bytes() -> int:
    """Read how many bytes this process uses of what RLIMIT_DATA limits."""
    with open("/proc/self/status") as status:
        (line,) = (line for line in status if line.startswith("VmData:"))
    return 1024 * int(line.split()[1])


def parameter_bytes(name: str, shape: Shape) -> int:
    """Count the bytes of a model's parameters.

    Args:
        name: of the model, a key of `architectures.ARCHITECTURES`.
        shape: of an image, (height, width, channels).

    Returns:
        Bytes, with float32 numbers.
    """
    return _FLOAT_BYTES * sum(map(parameter_count, flat(layers(name, shape))))
