"""Files from outside: what is no plain file of a bounded size is refused in words, and nobody waits for it."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from ddlbench.datasets import prepare
from ddlbench.datasets.arrays import load
from ddlbench.errors import DdlbenchError
from ddlbench.files import read_regular, sha256_file
from ddlbench.measurements.store import Store
from ddlbench.measurements.trace_tree import trace
from ddlbench.workers.common.image_folder import ImageFolder
from tests.support.measurement_samples import POINT, a_fingerprint, a_record


def put(path: Path, kind: str) -> None:
    """Put something of a kind that is no measurement there."""
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "brackets":
            path.write_text("[" * 100_000)


KINDS = ("folder", "pipe", "device", "brackets")


@pytest.mark.parametrize("kind", KINDS[:3])
def test_nothing_but_a_regular_file_is_read(tmp_path, kind):
    put(tmp_path / "x", kind)
    with pytest.raises(OSError, match=r"regular file|symbolic link"):
        read_regular(tmp_path / "x")
    with pytest.raises(OSError, match="no regular file"):
        sha256_file(tmp_path / "x")


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    (tmp_path / "x").write_bytes(b"12345")
    assert read_regular(tmp_path / "x", 5) == b"12345"
    with pytest.raises(OSError, match="larger than the 4 bytes"):
        read_regular(tmp_path / "x", 4)


@pytest.mark.parametrize("kind", KINDS)
def test_the_store_sets_aside_what_is_no_record_and_gives_the_others(tmp_path, capsys, kind):
    store = Store(tmp_path / "store")
    record = a_record()
    good = store.add(record)
    put(good.with_name("7-odd.json"), kind)
    assert [path for path, _ in store.measurements(record["fingerprint"])] == [good]
    assert not good.with_name("7-odd.json").exists()
    assert "It is not used; it is now" in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS[:3])
@pytest.mark.parametrize("name", ["train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"])
def test_a_data_set_that_is_no_file_is_named(tmp_path, kind, name):
    put(tmp_path / name, kind)
    with pytest.raises(DdlbenchError, match=name):
        prepare("mnist", {"folder": str(tmp_path)}, tmp_path / "out.npz")


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """ImageNet's folders with an image in each part; that of val is a link, as in collections made of links."""
    for part in ("train", "val"):
        (tmp_path / "images" / part / "a").mkdir(parents=True)
    image = tmp_path / "images" / "train" / "a" / "1.jpeg"
    Image.fromarray(np.zeros((8, 8, 3), np.uint8)).save(image)
    (tmp_path / "images" / "val" / "a" / "1.jpeg").symlink_to(image)
    return tmp_path / "images"


@pytest.mark.parametrize("kind", KINDS[:3])
def test_what_has_the_name_of_an_image_and_is_no_file_is_named(images, tmp_path, kind):
    put(images / "train" / "a" / "2.jpeg", kind)
    with pytest.raises(DdlbenchError, match=r"a/2\.jpeg: is no regular file"):
        prepare("imagenet", {"folder": str(images)}, tmp_path / "out.npz", (224, 224, 3))


@pytest.mark.parametrize("kind", KINDS[:3])
def test_a_worker_names_an_image_that_has_become_no_file(images, tmp_path, kind):
    prepare("imagenet", {"folder": str(images)}, tmp_path / "out.npz", (224, 224, 3))
    folder = ImageFolder(load(tmp_path / "out.npz"), 224, 224)
    assert folder.image("test", 0).shape == (1, 224, 224, 3)
    shutil.rmtree(images / "val" / "a")
    (images / "val" / "a").mkdir()
    put(images / "val" / "a" / "1.jpeg", kind)
    with pytest.raises(
        ValueError, match=r"val/a/1\.jpeg: is no regular file\. The folder is not what it was"
    ):
        folder.image("test", 0)


def test_what_has_endless_brackets_has_no_origin(tmp_path):
    path = tmp_path / "x.json"
    path.write_text("[" * 100_000 + '"step_times_ms"')
    with pytest.raises(DdlbenchError):
        trace(path)


def test_the_fingerprint_of_the_samples_is_that_of_their_point():
    assert a_record()["fingerprint"] == a_fingerprint(POINT)
