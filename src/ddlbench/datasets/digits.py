"""The embedded default: 1,797 real handwritten digits that come with scikit-learn, enlarged to the size of MNIST's.

Source: E. Alpaydin and C. Kaynak, Optical Recognition of Handwritten Digits, UCI Machine Learning Repository, 1998
(its test set): 8x8 images of 17 grey levels.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ddlbench.datasets.arrays import Arrays, Shape, shape_words
from ddlbench.errors import DdlbenchError

SHAPE: Shape = (28, 28, 1)
TEST_IMAGES = 360  # of 1,797; 1,437 are left for training
SPLIT_SEED = 1  # the split is the same in all studies and does not depend on the measurements' seed
ENLARGED = 3  # 8x8 becomes 24x24, in a frame of 2, much as MNIST's 20x20 digits lie in a frame of 4
LEVELS = 16


def read(settings: Mapping[str, str | None], shape: Shape, seed: int) -> tuple[Arrays, dict[str, Any]]:
    """Read the digits of scikit-learn.

    They are enlarged to 24x24 (bilinear) and framed to 28x28. The split is stratified: 1,437 images for training, 360
    for tests.

    Args:
        settings: not used; all readers of data sets take the same arguments.
        shape: height, width, channels; only 28x28x1.
        seed: not used; the split has a seed of its own.

    Returns:
        The arrays: images (uint8, `(images, 28, 28, 1)`, 0 to 255) and labels (uint8, `(images,)`, 0 to 9) of both
        parts. Then the facts: source, known (True), files (none).

    Raises:
        DdlbenchError: another shape is wanted.
    """
    from scipy import ndimage
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split

    if shape != SHAPE:
        raise DdlbenchError(f"the data set digits has images of 28x28x1, not {shape_words(shape)}")
    digits = load_digits()
    large = ndimage.zoom(digits.images, (1, ENLARGED, ENLARGED), order=1, mode="nearest", grid_mode=True)
    frame = (SHAPE[0] - large.shape[1]) // 2
    grey = np.rint(np.clip(large / LEVELS, 0, 1) * 255).astype(np.uint8)
    images = np.pad(grey, ((0, 0), (frame, frame), (frame, frame)))[..., np.newaxis]
    labels = digits.target.astype(np.uint8)
    train_images, test_images, train_labels, test_labels = train_test_split(
        images, labels, test_size=TEST_IMAGES, stratify=labels, random_state=SPLIT_SEED
    )
    arrays = {
        "train_images": train_images,
        "train_labels": train_labels,
        "test_images": test_images,
        "test_labels": test_labels,
    }
    return arrays, {"source": "scikit-learn's load_digits", "known": True, "files": {}}
