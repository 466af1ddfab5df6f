"""Data sets as workers read them: one .npz file of images and labels each, the same bytes wherever it is made."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ddlbench.datasets import cifar10, digits, imagenet, mnist, synthetic
from ddlbench.datasets.arrays import Arrays, Shape, check, shape_words, write
from ddlbench.errors import DdlbenchError, nearest

__all__ = ["DATASETS", "Arrays", "check", "prepare"]

Reader = Callable[[Mapping[str, Any], Shape, int], tuple[Arrays, dict[str, Any]]]

DATASETS: Mapping[str, Reader] = {
    "digits": digits.read,
    "mnist": mnist.read,
    "cifar10": cifar10.read,
    "imagenet": imagenet.read,
    "synthetic": synthetic.read,
}


def prepare(
    name: str,
    settings: Mapping[str, Any] | None,
    output: Path | str,
    image_shape: Shape = (28, 28, 1),
    seed: int = 1,
) -> dict[str, Any]:
    """Write the data set `name` to `output` and return the facts about it.

    settings: the data set's entry in the configuration (folder, url; digits and synthetic need none).
    image_shape: height, width, channels. seed: what is made up (synthetic) is made from it.
    The file holds train_images, test_images (uint8, [n, h, w, c]) and train_labels, test_labels (uint8, [n], 0 to 9);
    cifar10's images are smaller than `image_shape` where that is larger, imagenet's are paths (see their modules).
    Facts: name, sha256 of the file, image_shape ("28x28x1"), train_images and test_images (how many), source (words),
    known (True where the bytes are those that everybody means by the name), files ({name: sha256} of what was read).
    Raises DdlbenchError where the data cannot be had, are damaged, or do not have this shape.
    """
    if name not in DATASETS:
        raise DdlbenchError(
            f"{name!r} is not a data set{nearest(name, DATASETS)}; there are {', '.join(DATASETS)}"
        )
    shape = (int(image_shape[0]), int(image_shape[1]), int(image_shape[2]))
    arrays, source = DATASETS[name](settings or {}, shape, seed)
    return {
        "name": name,
        "sha256": write(output, arrays),
        "image_shape": shape_words(shape),
        "train_images": len(arrays["train_images"]),
        "test_images": len(arrays["test_images"]),
        **source,
    }
