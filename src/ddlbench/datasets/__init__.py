"""Data sets as workers read them: a .npz file of images and labels for each, with the same bytes on every machine."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from ddlbench.datasets import cifar10, digits, imagenet, mnist, synthetic
from ddlbench.datasets.arrays import Arrays, Shape, check, shape_words, write
from ddlbench.errors import DdlbenchError, nearest

__all__ = ["DATASETS", "Arrays", "check", "prepare"]

Reader = Callable[[Mapping[str, str | None], Shape, int], tuple[Arrays, dict[str, Any]]]

DATASETS: Mapping[str, Reader] = {
    "digits": digits.read,
    "mnist": mnist.read,
    "cifar10": cifar10.read,
    "imagenet": imagenet.read,
    "synthetic": synthetic.read,
}


def prepare(
    name: str,
    settings: Mapping[str, str | None] | None,
    output: Path | str,
    image_shape: Shape = (28, 28, 1),
    seed: int = 1,
) -> dict[str, Any]:
    """Write the file of a data set.

    The file holds train_images, test_images (uint8, `(images, height, width, channels)`) and train_labels, test_labels
    (uint8, `(images,)`, 0 to 9). cifar10's images are always 32x32x3. imagenet's are paths, and its labels are int64
    (see its module).

    Args:
        name: of the data set.
        settings: its entry in the configuration (folder or url; digits and synthetic need none).
        output: where the .npz goes.
        image_shape: height, width, channels.
        seed: of made-up images (synthetic).

    Returns:
        Facts: name, sha256 of the file, image_shape ("28x28x1"), train_images and test_images (how many), source (in
        words), known (whether the bytes are those of the published data set), files ({name: sha256} of what was read).

    Raises:
        DdlbenchError: the data cannot be read or fetched, are damaged, or do not have this shape.
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
