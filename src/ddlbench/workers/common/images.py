"""Images as networks take them: numbers around 0, made from bytes, the same in every framework.

Only additions, multiplications and copies of single numbers: they give the same bits with every version of NumPy.
"""

from typing import Literal

import numpy as np
from numpy.typing import NDArray

Layout = Literal["nhwc", "nchw"]  # what frameworks expect: channels last or first
Pixels = NDArray[np.uint8]
Inputs = NDArray[np.float32]

NORMAL = {  # by channels: mean and spread of pixels between 0 and 1
    1: (0.1307, 0.3081),  # of MNIST's, as PyTorch's own example has them
    3: (
        (0.485, 0.456, 0.406),
        (0.229, 0.224, 0.225),
    ),  # of ImageNet's red, green and blue, as everybody has them
}


def as_inputs(images: Pixels | Inputs, layout: Layout = "nhwc") -> Inputs:
    """Images [n, h, w, c] of values 0 to 255 as float32 with about mean 0 and spread 1, contiguous in `layout`."""
    mean, spread = (np.asarray(value, np.float32) for value in NORMAL[images.shape[-1]])
    if layout == "nchw":
        images = images.transpose(0, 3, 1, 2)
        mean, spread = (value.reshape(-1, 1, 1) for value in (mean, spread))
    inputs = images.astype(np.float32, order="C")
    inputs /= 255  # in place: a whole data set fits into memory once, and not three times
    inputs -= mean
    inputs /= spread
    return inputs


def enlarged(images: Pixels, height: int, width: int) -> Inputs:
    """Images [n, h, w, c] enlarged bilinearly to [n, height, width, c], still of values 0 to 255.

    Pixels are areas, and those at the edge go on beyond it, as in Pillow, PyTorch and TensorFlow.
    """
    return _stretched(_stretched(images, 1, height), 2, width)


def _stretched(images: Pixels | Inputs, axis: int, size: int) -> Inputs:
    last = images.shape[axis] - 1
    at = ((np.arange(size) + 0.5) * images.shape[axis] / size - 0.5).clip(0, last)
    below = np.floor(at).astype(np.intp)
    share = (at - below).astype(np.float32).reshape(-1, *[1] * (images.ndim - 1 - axis))
    return images.take(below, axis) * (1 - share) + images.take(np.minimum(below + 1, last), axis) * share
