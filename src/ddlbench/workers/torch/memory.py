"""Whether a point fits into a host's memory, found out before the memory is filled."""

import gc
import resource
from collections.abc import Callable
from functools import cache

import torch
from torch.nn.functional import cross_entropy

from ddlbench.protocol.messages import Shape, TrainingPoint
from ddlbench.workers.common.memory import refuse
from ddlbench.workers.torch.gpu import release
from ddlbench.workers.torch.models import MODELS


def refuse_what_cannot_fit(point: TrainingPoint, world_size: int) -> None:
    """Refuse a point whose backward pass alone would need more memory than this process may have.

    Trying it would fill the memory first, which takes seconds for each gigabyte on some virtual machines.

    Args:
        point: its model, image shape and global batch size.
        world_size: how many workers share the batch.

    Raises:
        MemoryError: it cannot fit.
    """
    if resource.getrlimit(resource.RLIMIT_DATA)[0] == resource.RLIM_INFINITY:
        return
    kept = kept_bytes(*point.key, point.batch_size // world_size)
    refuse(kept, "what a step keeps for its backward pass is")


def fits(attempt: Callable[[], None]) -> bool:
    """Make an attempt that may need too much memory; free what it held if it fails.

    Args:
        attempt: what may raise for lack of memory; other errors pass through.

    Returns:
        False where memory was too small.
    """
    try:
        attempt()
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
    else:
        return True
    gc.collect()  # what the error held is free now
    release()
    return False


@cache
def kept_bytes(name: str, shape: Shape, images: int) -> int:
    """Count what autograd keeps of a forward pass, on tensors that have a shape and no content.

    Args:
        name: of the model, a key of MODELS.
        shape: of an image, (height, width, channels).
        images: of the batch.

    Returns:
        Bytes.
    """
    height, width, channels = shape
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        kept[storage._cdata] = storage  # held, so that no other can take its place
        return tensor

    with torch.device("meta"), torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model = MODELS[name](shape)
        outputs = model(torch.empty(images, channels, height, width))
        cross_entropy(outputs, torch.empty(images, dtype=torch.int64))
    return sum(storage.nbytes() for storage in kept.values())


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error reports a lack of memory; the framework has several texts for that.

    Args:
        error: raised by PyTorch or Python.

    Returns:
        True for a lack of the host's memory or the GPU's.
    """
    text = str(error).lower()
    return isinstance(error, (MemoryError, torch.OutOfMemoryError)) or any(
        sign in text
        for sign in ("can't allocate memory", "bad_alloc", "out of memory", "cannot allocate", "alloc_failed")
    )
