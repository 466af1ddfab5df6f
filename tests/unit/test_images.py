"""Images: bytes become the same numbers in every framework, enlarged as everybody enlarges."""

from hashlib import sha256

import numpy as np
import pytest
from PIL import Image

from ddlbench.workers.common.images import as_inputs, enlarged

pytestmark = pytest.mark.unit

COLOURS = np.random.default_rng(0).integers(0, 256, (4, 32, 32, 3), dtype=np.uint8)


def test_enlarging_is_what_pillow_does_to_half_a_grey_level_a_direction() -> None:
    by_pillow = [Image.fromarray(image).resize((224, 224), Image.Resampling.BILINEAR) for image in COLOURS]
    assert (
        np.abs(enlarged(COLOURS, 224, 224) - np.stack([np.asarray(image) for image in by_pillow])).max()
        < 1.01
    )


def test_images_of_the_size_asked_for_stay_as_they_are() -> None:
    assert np.array_equal(enlarged(COLOURS, 32, 32), COLOURS)


def test_an_even_image_stays_even_to_its_edges() -> None:
    assert np.all(enlarged(np.full((1, 2, 3, 1), 200, np.uint8), 7, 10) == 200)


def test_height_and_width_are_told_apart() -> None:
    stripes = np.array([[0, 100], [0, 100]], np.uint8).reshape(1, 2, 2, 1)
    assert np.array_equal(enlarged(stripes, 1, 4)[0, 0, :, 0], [0, 25, 75, 100])


def test_the_numbers_are_the_same_bits_everywhere() -> None:
    numbers = as_inputs(enlarged(COLOURS, 224, 224), "nchw")
    assert numbers.shape == (4, 3, 224, 224)
    assert sha256(numbers.astype("<f4").tobytes()).hexdigest().startswith("2a6bc307f5d246c1")


def test_grey_and_coloured_pixels_are_normalised_by_channel() -> None:
    grey = as_inputs(np.array([0, 255], np.uint8).reshape(1, 1, 2, 1))
    assert grey.ravel() == pytest.approx([-0.1307 / 0.3081, (1 - 0.1307) / 0.3081])
    white = as_inputs(np.full((1, 1, 1, 3), 255, np.uint8))
    assert white.ravel() == pytest.approx([(1 - 0.485) / 0.229, (1 - 0.456) / 0.224, (1 - 0.406) / 0.225])
