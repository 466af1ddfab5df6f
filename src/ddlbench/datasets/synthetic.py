"""Made-up images of any shape, for timing: ten classes that can be learnt, from a seed."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ddlbench.datasets.arrays import CLASSES, Arrays, Shape, shape_words
from ddlbench.errors import DdlbenchError

TRAIN_IMAGES, TEST_IMAGES = 4096, 512
MAX_BYTES = 64 * 2**20  # of training images; large shapes get fewer, at least MIN_IMAGES
MIN_IMAGES = 64
PATTERN = 4  # a class is a pattern of 4x4 random patches, enlarged smoothly
NOISE = 40.0  # grey levels


def read(settings: Mapping[str, str | None], shape: Shape, seed: int) -> tuple[Arrays, dict[str, Any]]:
    """Make images: each is the pattern of its class with noise. All classes have the same number, in random order.

    Args:
        settings: not used; all readers of data sets take the same arguments.
        shape: height, width, channels, each at least 1.
        seed: of the patterns, the order and the noise.

    Returns:
        The arrays: images (uint8, `(images, height, width, channels)`) and labels (uint8, `(images,)`, 0 to 9) of both
        parts. Large shapes get fewer images. Then the facts: source, known (True), files (none).

    Raises:
        DdlbenchError: a number of the shape is less than 1.
    """
    if min(shape) < 1:
        raise DdlbenchError(
            f"{shape_words(shape)} is not a shape of images (height, width, channels, each at least 1)"
        )
    random = np.random.Generator(np.random.PCG64(seed))
    patterns = _patterns(random, shape)
    arrays: Arrays = {}
    for part, count in zip(("train", "test"), image_counts(math.prod(shape)), strict=True):
        labels = random.permutation(np.arange(count) % CLASSES)
        images = np.empty((count, *shape), dtype=np.uint8)
        for image, label in zip(
            images, labels, strict=True
        ):  # one at a time: large shapes stay small in memory
            noisy = patterns[label] + NOISE * random.standard_normal(shape, dtype=np.float32)
            image[...] = np.clip(np.rint(noisy), 0, 255)
        arrays[f"{part}_images"], arrays[f"{part}_labels"] = images, labels.astype(np.uint8)
    return arrays, {"source": f"made up from seed {seed}", "known": True, "files": {}}


def image_counts(numbers: int) -> tuple[int, int]:
    """Count the images for training and for the test.

    Args:
        numbers: of an image: height x width x channels.

    Returns:
        Both counts.
    """
    train = max(MIN_IMAGES, min(TRAIN_IMAGES, MAX_BYTES // numbers))
    return train, max(MIN_IMAGES, train * TEST_IMAGES // TRAIN_IMAGES)


def _patterns(random: np.random.Generator, shape: Shape) -> np.ndarray[Any, np.dtype[np.float32]]:
    """A smooth pattern for each class, `(classes, height, width, channels)`, grey levels 64 to 192."""
    height, width, channels = shape
    coarse = random.uniform(64, 192, (CLASSES, PATTERN, PATTERN, channels)).astype(np.float32)
    from scipy import ndimage

    factors = (1, height / PATTERN, width / PATTERN, 1)
    return np.asarray(
        ndimage.zoom(coarse, factors, order=1, mode="nearest", grid_mode=True), dtype=np.float32
    )
