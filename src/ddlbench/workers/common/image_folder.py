"""Images in folders, decoded while a model trains. It needs Pillow, which is imported only for such images."""

import io
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from ddlbench.system.regular_files import open_regular
from ddlbench.workers.common.images import Pixels

SHORTER_SIDE = 256 / 224  # what an image is scaled to before it is cropped, relative to the crop
FORMATS = ("JPEG", "PNG")  # a PNG among ImageNet's files is called .JPEG


class ImageFolder:
    """The images of an index, decoded, scaled and cropped.

    Args:
        index: arrays of the data set's .npz: `folder`, and by part paths (`train_images`) and bytes (`train_sizes`).
        height: of each image, in pixels.
        width: of each image, in pixels.
    """

    def __init__(self, index: Mapping[str, NDArray[Any]], height: int, width: int) -> None:
        self.folder: bytes = index["folder"].item()
        self.paths = {part: index[f"{part}_images"] for part in ("train", "test")}
        self.sizes = {part: index[f"{part}_sizes"] for part in ("train", "test")}
        self.height, self.width = height, width

    def image(self, part: str, number: int, crop: tuple[float, float] = (0.5, 0.5)) -> Pixels:
        """Decode an image, scale it so that its shorter side has 256 pixels for 224 of the crop, and crop it.

        Args:
            part: `train` or `test`.
            number: of the image in the part, from 0.
            crop: the shares, 0 to 1, of what is cut off that lie above and to the left; (0.5, 0.5): the centre is kept.

        Returns:
            Pixels, uint8, (1, height, width, 3).

        Raises:
            ValueError: the file is not that of the index, or is no image; the text names the file.
        """
        path = os.path.join(self.folder, self.paths[part][number])
        data = self._bytes(path, int(self.sizes[part][number]))
        try:
            with Image.open(io.BytesIO(data), formats=FORMATS) as picture:
                colours = picture.convert("RGB")
        except UnidentifiedImageError as error:
            raise ValueError(f"{os.fsdecode(path)} is no image (expected {' or '.join(FORMATS)})") from error
        except (OSError, SyntaxError, Image.DecompressionBombError) as error:
            raise ValueError(f"{os.fsdecode(path)} cannot be decoded: {error}") from error
        scale = min(colours.height / self.height, colours.width / self.width) / SHORTER_SIDE
        height, width = self.height * scale, self.width * scale
        top, left = (colours.height - height) * crop[0], (colours.width - width) * crop[1]
        box = (left, top, min(left + width, colours.width), min(top + height, colours.height))
        return np.asarray(colours.resize((self.width, self.height), Image.Resampling.BILINEAR, box))[
            np.newaxis
        ]

    def _bytes(self, path: bytes, expected: int) -> bytes:
        try:
            with open_regular(path, follow=True) as file:
                data = file.read(expected + 1)
        except OSError as error:
            raise ValueError(f"{os.fsdecode(path)}: {error.strerror}. {_ANEW}") from error
        if len(data) != expected:
            raise ValueError(f"{os.fsdecode(path)} no longer has {expected} bytes. {_ANEW}")
        return data


_ANEW = (
    "The folder is not what it was: remove the data set's .npz in results/datasets, which is an index of it"
)
