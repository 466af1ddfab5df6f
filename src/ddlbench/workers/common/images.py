"""Images as networks take them: numbers around 0, made from bytes, the same in every framework.

Only additions, multiplications and copies of single numbers are used: they give the same bits with every version of
NumPy.
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
    ),  # of ImageNet's red, green and blue, the usual ones
}


def as_inputs(images: Pixels | Inputs, layout: Layout = "nhwc") -> Inputs:
    """Normalise images by the mean and spread of MNIST (one channel) or ImageNet (three channels).

    Args:
        images: values from 0 to 255, (n, height, width, channels).
        layout: where the channels of the result are.

    Returns:
        Numbers of about mean 0 and spread 1, float32, contiguous, (n, height, width, channels) or (n, channels, height,
        width).
    """
    mean, spread = (np.asarray(value, np.float32) for value in NORMAL[images.shape[-1]])
    if layout == "nchw":
        images = images.transpose(0, 3, 1, 2)
        mean, spread = (value.reshape(-1, 1, 1) for value in (mean, spread))
    inputs = images.astype(np.float32, order="C")
    inputs /= 255  # in place, because a whole data set may fit into memory only once
    inputs -= mean
    inputs /= spread
    return inputs


def enlarged(images: Pixels, height: int, width: int) -> Inputs:
    """Enlarge images bilinearly, with pixels as areas and edges continued, as in Pillow, PyTorch and TensorFlow.

    Args:
        images: values from 0 to 255, (n, h, w, channels).
        height: of the results, in pixels.
        width: of the results, in pixels.

    Returns:
        Images of values from 0 to 255, float32, (n, height, width, channels).
    """
    return _stretched(_stretched(images, 1, height), 2, width)


def _stretched(images: Pixels | Inputs, axis: int, size: int) -> Inputs:
    last = images.shape[axis] - 1
    at = ((np.arange(size) + 0.5) * images.shape[axis] / size - 0.5).clip(0, last)
    below = np.floor(at).astype(np.intp)
    share = (at - below).astype(np.float32).reshape(-1, *[1] * (images.ndim - 1 - axis))
    return images.take(below, axis) * (1 - share) + images.take(np.minimum(below + 1, last), axis) * share
