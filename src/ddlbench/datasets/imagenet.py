"""ImageNet, or any images in such folders: train/<class>/<image>.JPEG and val/<class>/<image>.JPEG.

The data set's file is an index of them: which images there are, of how many bytes, and of which class. The images stay
where they are; `workers.image_folder` decodes them while a model trains.
"""

import errno
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ddlbench.datasets.arrays import Arrays, Shape, shape_words
from ddlbench.errors import DdlbenchError

SHAPE: Shape = (224, 224, 3)
CLASSES = 1000
SUFFIXES = (".jpeg", ".jpg", ".png")
FOLDERS = {"train": "train", "test": "val"}


def read(settings: Mapping[str, str | None], shape: Shape, seed: int) -> tuple[Arrays, dict[str, Any]]:
    """Make the index of a folder of images.

    Equal names and sizes at the same place give equal bytes. A worker refuses an image that has another size later.

    Args:
        settings: `folder`, with the folders train and val, each with a folder of images for each class.
        shape: height, width, channels; only 224x224x3.
        seed: not used; all readers of data sets take the same arguments.

    Returns:
        The arrays: folder (its absolute path), classes (names in order), and of both parts images (paths in the
        folder), sizes (int64, bytes) and labels (int64, positions in classes), each `(images,)`. Then the facts:
        source, known (False), files (none).

    Raises:
        DdlbenchError: there is no folder, its content is not as expected, or another shape is wanted.
    """
    if shape != SHAPE:
        raise DdlbenchError(f"the data set imagenet has images of 224x224x3, not {shape_words(shape)}")
    if not settings.get("folder"):
        raise DdlbenchError(
            "imagenet: there is no folder to take it from; set datasets: imagenet: folder: in the configuration "
            "(to a folder with train and val, each with a folder of JPEG files a class)"
        )
    folder = Path(os.path.abspath(str(settings["folder"])))
    names = _classes(folder / FOLDERS["train"])
    if len(names) > CLASSES:
        raise DdlbenchError(
            f"{folder / 'train'}: expected at most {CLASSES} folders, one a class, found {len(names)}"
        )
    if unknown := sorted(set(_classes(folder / FOLDERS["test"])) - set(names)):
        raise DdlbenchError(f"{folder / 'val'}: there is no folder {unknown[0]} in {folder / 'train'}")
    arrays = {
        "folder": np.array(os.fsencode(folder)),
        "classes": np.array([os.fsencode(name) for name in names]),
    }
    for part, below in FOLDERS.items():
        images = [
            (os.fsencode(os.path.join(below, name, image)), size, label)
            for label, name in enumerate(names)
            for image, size in _images(folder / below / name)
        ]
        if not images:
            raise DdlbenchError(
                f"{folder / below}: expected images ({', '.join(SUFFIXES)}) in folders of a class"
            )
        paths, sizes, labels = zip(*images, strict=True)
        arrays |= {
            f"{part}_images": np.array(paths),
            f"{part}_sizes": np.array(sizes, np.int64),
            f"{part}_labels": np.array(labels, np.int64),
        }
    return arrays, {"source": f"a folder of {len(names)} classes", "known": False, "files": {}}


def _classes(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(
                entry.name for entry in entries if entry.is_dir() and not entry.name.startswith(".")
            )
    except OSError as error:
        raise DdlbenchError(
            f"{folder}: {error.strerror} (expected a folder with a folder of JPEG files a class)"
        ) from error


def _images(folder: Path) -> Iterator[tuple[str, int]]:
    """The names and sizes (bytes) of the images in a class's folder, in order; none if it does not exist."""
    if not folder.is_dir():
        return
    try:
        with os.scandir(folder) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                if entry.name.lower().endswith(SUFFIXES) and not entry.name.startswith("."):
                    found = entry.stat()
                    if not stat.S_ISREG(found.st_mode):
                        raise OSError(errno.EINVAL, "is no regular file", entry.path)
                    yield entry.name, found.st_size
    except OSError as error:
        raise DdlbenchError(
            f"{error.filename}: {error.strerror} (expected images, or links to images, that this user may read)"
        ) from error
