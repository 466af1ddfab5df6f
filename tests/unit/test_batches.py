"""Batches: what is in each depends on the seed alone, whatever the framework, the workers and their number."""

from collections.abc import Callable
from hashlib import sha256
from itertools import islice, pairwise

import numpy as np
import pytest

from ddlbench.datasets import prepare
from ddlbench.workers.common.batches import AHEAD, Batches, Choice, Data, order
from ddlbench.workers.common.images import Inputs

pytestmark = pytest.mark.unit

SHAPE = (28, 28, 1)
PARTS = ("train", "test")


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("digits") / "digits.npz"
    prepare("digits", {}, path)
    return str(path)


def test_the_order_of_images_is_the_same_on_every_machine_and_in_every_framework() -> None:
    digest = sha256()
    for chosen in islice(order(1437, 64, seed=1), 100):
        digest.update(chosen.astype("<i8").tobytes())
    assert digest.hexdigest() == "3f9f73cb3808439b0d5cb26def6a834dac0e5b5a43f67899fdffec4ed6990007"


def test_every_image_is_seen_once_before_any_is_seen_again() -> None:
    seen = np.concatenate(list(islice(order(10, 4, seed=3), 5)))
    assert sorted(seen[:10]) == sorted(seen[10:]) == list(range(10))


def test_a_batch_may_be_larger_than_the_data_set() -> None:
    chosen = next(order(10, 25, seed=3))
    assert np.bincount(chosen).min() >= 2
    assert len(chosen) == 25


def test_another_seed_is_another_order() -> None:
    assert not np.array_equal(next(order(1437, 64, seed=1)), next(order(1437, 64, seed=2)))


def test_shares_of_all_workers_make_the_batch_of_one(digits: str) -> None:
    bounds = [0, 21, 42, 64]
    whole = Batches(digits, SHAPE, seed=1, batch_size=64, share=slice(0, 64))
    shares = [Batches(digits, SHAPE, seed=1, batch_size=64, share=slice(*pair)) for pair in pairwise(bounds)]
    for _ in range(30):  # beyond the first order
        images, labels = next(whole)
        parts = [next(each) for each in shares]
        assert np.array_equal(np.concatenate([part[0] for part in parts]), images)
        assert np.array_equal(np.concatenate([part[1] for part in parts]), labels)


def test_starting_again_gives_the_first_batch_again(digits: str) -> None:
    batches = Batches(digits, SHAPE, seed=1, batch_size=64, share=slice(0, 64))
    first, second = next(batches)[0], next(batches)[0]
    batches.start_again()
    assert np.array_equal(next(batches)[0], first)
    assert not np.array_equal(first, second)


def test_images_are_numbers_around_zero_in_the_layout_asked_for(digits: str) -> None:
    last = Batches(digits, SHAPE, seed=1, batch_size=64, share=slice(8, 16))
    first = Batches(digits, SHAPE, seed=1, batch_size=64, share=slice(8, 16), layout="nchw")
    (images, labels), (transposed, same) = next(last), next(first)
    assert (images.shape, transposed.shape) == ((8, 28, 28, 1), (8, 1, 28, 28))
    assert (images.dtype, labels.dtype) == (np.float32, np.int64)
    assert np.array_equal(images.transpose(0, 3, 1, 2), transposed)
    assert np.array_equal(labels, same)
    assert abs(images.mean()) < 0.5
    assert transposed.flags.c_contiguous


def test_the_parts_of_the_test_set_are_all_of_it(digits: str) -> None:
    batches = Batches(digits, SHAPE, seed=1, batch_size=64, share=slice(0, 64))
    parts = list(batches.test_parts(100))
    assert [len(labels) for _, labels in parts] == [100, 100, 100, 60]
    assert [images.shape[1:] for images, _ in parts] == [SHAPE] * 4


# ------------------------------------------------------------------------------------------- enlarged

LARGE = (48, 40, 3)


@pytest.fixture(scope="module")
def colours(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Images of 8x8x3, fewer than two batches of them."""
    random = np.random.default_rng(1)
    path = tmp_path_factory.mktemp("colours") / "colours.npz"
    parts = {f"{part}_images": random.integers(0, 256, (20, 8, 8, 3), dtype=np.uint8) for part in PARTS}
    np.savez(path, **parts, **{f"{part}_labels": np.arange(20, dtype=np.uint8) % 10 for part in PARTS})
    return str(path)


def test_images_are_enlarged_to_the_shape_asked_for_in_the_same_order(colours: str) -> None:
    large = Batches(colours, LARGE, seed=1, batch_size=16, share=slice(4, 12), layout="nchw")
    small = Batches(colours, (8, 8, 3), seed=1, batch_size=16, share=slice(4, 12))
    for _ in range(3):
        (images, labels), (as_stored, same) = next(large), next(small)
        assert images.shape == (8, 3, 48, 40)
        assert np.array_equal(labels, same)
        corners = images[:, :, [0, 0, -1, -1], [0, -1, 0, -1]]
        assert np.allclose(corners, as_stored[:, [0, 0, -1, -1], [0, -1, 0, -1]].transpose(0, 2, 1))


def test_all_test_images_are_enlarged_too(colours: str) -> None:
    parts = list(Batches(colours, LARGE, seed=1, batch_size=16, share=slice(0, 16)).test_parts(8))
    assert [images.shape for images, _ in parts] == [(8, *LARGE), (8, *LARGE), (4, *LARGE)]
    assert np.array_equal(np.concatenate([labels for _, labels in parts]), np.arange(20) % 10)


def test_the_next_batch_is_begun_before_this_one_is_asked_for(colours: str) -> None:
    begun: list[Choice] = []

    def begin(choice: Choice) -> Callable[[], Inputs]:
        begun.append(choice)
        return lambda: np.zeros(0, np.float32)

    labels = {part: np.arange(20) for part in PARTS}
    training = Data(labels, begin).batches(Choice("train", np.arange(3)) for _ in range(10))
    next(training)
    assert len(begun) == 1 + AHEAD
    assert len(list(training)) == 9
    assert len(begun) == 10
