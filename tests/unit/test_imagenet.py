"""Images in folders: an index says which, threads decode them, and every rank and framework gets the same."""

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ddlbench.datasets import prepare
from ddlbench.datasets.arrays import load
from ddlbench.errors import DdlbenchError
from ddlbench.workers.common.batches import Batches
from ddlbench.workers.common.image_folder import ImageFolder

pytestmark = pytest.mark.unit

SHAPE = (224, 224, 3)
CLASSES = ("n01440764", "n01443537", "n02085936")
SIZES = ((300, 240), (240, 300), (60, 80))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three classes, of three images each in train and one in val."""
    random = np.random.default_rng(1)
    for part, images in (("train", 3), ("val", 1)):
        for number, name in enumerate(CLASSES):
            (tmp_path / part / name).mkdir(parents=True)
            for i in range(images):
                coarse = random.integers(0, 256, (4, 4, 3), dtype=np.uint8)
                image = Image.fromarray(coarse).resize(SIZES[i], Image.Resampling.BILINEAR)
                image.save(tmp_path / part / name / f"{name}_{number}{i}.JPEG", quality=95)
    return tmp_path


def index_of(folder: Path) -> str:
    prepare("imagenet", {"folder": str(folder)}, folder / "index.npz", SHAPE)
    return str(folder / "index.npz")


def batches(index: str, share: slice = slice(0, 6), seed: int = 1) -> Batches:
    return Batches(index, SHAPE, seed=seed, batch_size=6, share=share)


def test_the_index_says_which_images_there_are(folder: Path) -> None:
    (folder / "train" / CLASSES[0] / "notes.txt").write_text("not an image")
    facts = prepare("imagenet", {"folder": str(folder)}, folder / "index.npz", SHAPE)
    arrays = load(folder / "index.npz")
    assert [name.decode() for name in arrays["classes"]] == list(CLASSES)
    assert arrays["train_images"][4] == b"train/n01443537/n01443537_11.JPEG"
    assert list(arrays["train_labels"]) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    assert arrays["train_sizes"][4] == (folder / arrays["train_images"][4].decode()).stat().st_size
    assert (facts["train_images"], facts["test_images"], facts["known"]) == (9, 3, False)


def test_another_image_is_another_index(folder: Path) -> None:
    first = prepare("imagenet", {"folder": str(folder)}, folder / "index.npz", SHAPE)["sha256"]
    assert prepare("imagenet", {"folder": str(folder)}, folder / "index.npz", SHAPE)["sha256"] == first
    with (folder / "val" / CLASSES[1] / "n01443537_10.JPEG").open("ab") as file:
        file.write(b"\0")
    assert prepare("imagenet", {"folder": str(folder)}, folder / "index.npz", SHAPE)["sha256"] != first


def test_shares_of_all_workers_make_the_batch_of_one(folder: Path) -> None:
    index = index_of(folder)
    whole, halves = batches(index), [batches(index, slice(0, 3)), batches(index, slice(3, 6))]
    for _ in range(3):
        images, labels = next(whole)
        parts = [next(each) for each in halves]
        assert images.shape == (6, *SHAPE)
        assert np.array_equal(np.concatenate([part[0] for part in parts]), images)
        assert np.array_equal(np.concatenate([part[1] for part in parts]), labels)


@pytest.mark.long
def test_training_images_are_cropped_at_random_by_the_seed_and_otherwise_each_time(folder: Path) -> None:
    index = index_of(folder)
    again, other = batches(index), batches(index, seed=2)
    first = [next(again) for _ in range(6)]
    again.start_again()
    assert all(np.array_equal(next(again)[0], images) for images, _ in first)
    assert not np.array_equal(next(other)[0], first[0][0])
    kept = np.concatenate([images for images, _ in first])
    assert len(np.unique(kept, axis=0)) > 9  # of nine images, some of them seen with two crops


def test_test_images_are_cropped_in_their_middle(folder: Path) -> None:
    stripes = np.zeros((256, 512, 3), np.uint8)
    stripes[:, 256 - 112 : 256 + 112] = 255
    stripes[:16], stripes[-16:] = 0, 0
    (path,) = (folder / "val" / CLASSES[0]).iterdir()
    Image.fromarray(stripes).save(path, "PNG")  # as one of ImageNet's is, whatever its name says
    index = index_of(folder)
    assert np.all(ImageFolder(load(index), 224, 224).image("test", 0) == 255)
    ((images, labels),) = batches(index).test_parts(10)
    assert images.shape == (3, *SHAPE)
    assert list(labels) == [0, 1, 2]
    assert np.unique(images[0]).size == 3  # white, in three normalised channels


@pytest.mark.parametrize("mode", ["L", "CMYK"])
def test_images_of_other_colours_become_red_green_and_blue(folder: Path, mode: str) -> None:
    (path,) = (folder / "val" / CLASSES[0]).iterdir()
    Image.new(mode, (300, 300), 0).save(path, "JPEG")
    assert ImageFolder(load(index_of(folder)), 224, 224).image("test", 0).shape == (1, *SHAPE)


@pytest.mark.parametrize("size", [(1, 1), (3, 5000), (337, 500), (224, 224), (1023, 257)])
def test_every_crop_lies_within_the_image(folder: Path, size: tuple[int, int]) -> None:
    (path,) = (folder / "val" / CLASSES[0]).iterdir()
    Image.new("RGB", size, (9, 9, 9)).save(path, "PNG")
    images = ImageFolder(load(index_of(folder)), 224, 224)
    for crop in ((0.0, 0.0), (1.0, 1.0), (0.3, 0.7), (1 - 2**-53, 1 - 2**-53)):
        assert np.all(images.image("test", 0, crop) == 9)


def huge() -> bytes:
    """A PNG of 300,000 x 300,000 pixels in a few bytes."""
    chunks = (
        (b"IHDR", struct.pack(">IIBBBBB", 300_000, 300_000, 8, 2, 0, 0, 0)),
        (b"IDAT", zlib.compress(b"")),
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in chunks
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data: data[:-200], "cannot be decoded: .*truncated"),
        (lambda data: b"<html>not found</html>", r"is no image \(expected JPEG or PNG\)"),
        (lambda data: b"", "is no image"),
        (lambda data: b"GIF89a" + bytes(100), "is no image"),
        (lambda data: huge(), "cannot be decoded: Image size .* exceeds limit"),
    ],
)
def test_an_image_that_cannot_be_decoded_is_named(folder: Path, change, message: str) -> None:
    (path,) = (folder / "val" / CLASSES[0]).iterdir()
    path.write_bytes(change(path.read_bytes()))
    index = index_of(folder)
    with pytest.raises(ValueError, match=message) as error:
        list(batches(index).test_parts(3))
    assert str(path) in str(error.value)


def test_an_image_that_has_changed_since_is_named(folder: Path) -> None:
    index = index_of(folder)
    path = folder / "train" / CLASSES[1] / "n01443537_11.JPEG"
    path.write_bytes(path.read_bytes() + b"\0")
    with pytest.raises(ValueError, match=rf"{path} no longer has \d+ bytes\. .* remove the data set's \.npz"):
        [next(each) for each in [batches(index)] * 3]
    path.unlink()
    with pytest.raises(ValueError, match=f"{path}: No such file"):
        [next(each) for each in [batches(index)] * 3]


def test_a_link_to_an_image_that_is_gone_is_named(folder: Path) -> None:
    (folder / "train" / CLASSES[1] / "gone.JPEG").symlink_to(folder / "nowhere.JPEG")
    with pytest.raises(
        DdlbenchError, match=r"n01443537/gone\.JPEG: No such file or directory \(expected images"
    ):
        index_of(folder)


def test_a_folder_that_is_not_one_of_images_is_told_what_belongs_there(tmp_path: Path) -> None:
    def message(settings: dict[str, str | None], shape: tuple[int, int, int] = SHAPE) -> str:
        with pytest.raises(DdlbenchError) as error:
            prepare("imagenet", settings, tmp_path / "index.npz", shape)
        return str(error.value)

    assert "set datasets: imagenet: folder:" in message({"folder": None})
    assert f"{tmp_path / 'gone' / 'train'}: No such file" in message({"folder": str(tmp_path / "gone")})
    assert "224x224x3, not 32x32x3" in message({"folder": str(tmp_path)}, (32, 32, 3))
    (tmp_path / "train" / "a").mkdir(parents=True)
    (tmp_path / "val" / "b").mkdir(parents=True)
    assert f"{tmp_path / 'val'}: there is no folder b in" in message({"folder": str(tmp_path)})
    (tmp_path / "train" / "b").mkdir()
    assert f"{tmp_path / 'train'}: expected images (.jpeg, .jpg, .png)" in message({"folder": str(tmp_path)})
    for number in range(999):
        (tmp_path / "train" / f"c{number}").mkdir()
    assert "expected at most 1000 folders, one a class, found 1001" in message({"folder": str(tmp_path)})
