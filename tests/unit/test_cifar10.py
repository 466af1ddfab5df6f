"""CIFAR-10 as its authors publish it: what is read, however it lies there, and what is refused."""

import io
import tarfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ddlbench.datasets import cifar10, prepare
from ddlbench.datasets.arrays import load
from ddlbench.errors import DdlbenchError
from tests.support.loopback_server import Serve

pytestmark = pytest.mark.unit

Bytes = NDArray[np.uint8]

CIFAR10_FILES = list(cifar10.PUBLISHED.files)


@pytest.fixture
def records() -> dict[str, Bytes]:
    """Seven images a file: a label, and then the red, green and blue values."""
    random = np.random.default_rng(1)
    files = {
        name: random.integers(0, 256, (7, cifar10.RECORD_BYTES), dtype=np.uint8) for name in CIFAR10_FILES
    }
    for array in files.values():
        array[:, 0] %= 10
    return files


@pytest.fixture
def cifar10_folder(tmp_path: Path, records: dict[str, Bytes]) -> Path:
    folder = tmp_path / "cifar"
    folder.mkdir()
    for name, array in records.items():
        (folder / name).write_bytes(array.tobytes())
    return folder


def packed(files: dict[str, bytes], kind: bytes = tarfile.REGTYPE) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as tar:
        for name, data in files.items():
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{name}")
            member.size, member.type = len(data), kind
            tar.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def archive_of(records: dict[str, Bytes]) -> bytes:
    """As the authors pack it, with two files more."""
    files = {name: array.tobytes() for name, array in records.items()}
    return packed({"batches.meta.txt": b"airplane\n", "readme.html": b"<html>", **files})


def test_records_become_images_with_channels_last(
    tmp_path: Path, cifar10_folder: Path, records: dict[str, Bytes]
) -> None:
    facts = prepare("cifar10", {"folder": str(cifar10_folder)}, tmp_path / "cifar10.npz", (32, 32, 3))
    arrays = load(tmp_path / "cifar10.npz")
    assert arrays["train_images"].shape == (35, 32, 32, 3)
    assert arrays["test_images"].shape == (7, 32, 32, 3)
    third = records["data_batch_2.bin"][3]
    assert arrays["train_labels"][10] == third[0]
    for channel in range(3):
        plane = third[1 + 1024 * channel : 1 + 1024 * (channel + 1)]
        assert np.array_equal(arrays["train_images"][10, :, :, channel].ravel(), plane)
    assert (facts["train_images"], facts["test_images"], facts["known"]) == (35, 7, False)
    assert (
        facts["files"]["test_batch.bin"]
        == sha256((cifar10_folder / "test_batch.bin").read_bytes()).hexdigest()
    )


def test_enlarged_images_are_stored_as_they_are(tmp_path: Path, cifar10_folder: Path) -> None:
    settings = {"folder": str(cifar10_folder)}
    facts = prepare("cifar10", settings, tmp_path / "large.npz", (224, 224, 3))
    assert facts["image_shape"] == "224x224x3"
    assert facts["sha256"] == prepare("cifar10", settings, tmp_path / "small.npz", (32, 32, 3))["sha256"]
    with pytest.raises(DdlbenchError, match="cifar10 has images of 32x32x3 or 224x224x3, not 28x28x1"):
        prepare("cifar10", settings, tmp_path / "other.npz", (28, 28, 1))


@pytest.mark.parametrize("place", [".", "cifar-10-batches-bin", "archive"])
def test_cifar10_is_read_from_a_folder_however_it_lies_there(
    tmp_path: Path, cifar10_folder: Path, records: dict[str, Bytes], place: str
) -> None:
    folder = cifar10_folder
    if place == "archive":
        folder = tmp_path / "packed"
        folder.mkdir()
        (folder / cifar10.NAME).write_bytes(archive_of(records))
    elif place != ".":
        folder = tmp_path / "unpacked"
        folder.mkdir()
        cifar10_folder.rename(folder / place)
    arrays, facts = cifar10.read({"folder": str(folder)}, (32, 32, 3), 1)
    assert np.array_equal(arrays["test_labels"], records["test_batch.bin"][:, 0])
    assert list(facts["files"]) == CIFAR10_FILES


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda array: array.tobytes()[:-1], "test_batch.bin is truncated .* 3073 bytes, found 21510"),
        (lambda array: b"", "test_batch.bin is truncated .* found 0 bytes"),
        (lambda array: b"\x80\x02}q\x00(U" + bytes(3066), "expected labels 0 to 9, found 128"),
    ],
)
def test_damaged_records_are_named(
    tmp_path: Path,
    cifar10_folder: Path,
    records: dict[str, Bytes],
    change: Callable[[Bytes], bytes],
    message: str,
) -> None:
    (cifar10_folder / "test_batch.bin").write_bytes(change(records["test_batch.bin"]))
    with pytest.raises(DdlbenchError, match=message):
        prepare("cifar10", {"folder": str(cifar10_folder)}, tmp_path / "cifar10.npz", (32, 32, 3))
    assert not (tmp_path / "cifar10.npz").exists()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (packed({"test_batch.bin": bytes(3073)}), "data_batch_1.bin, .* not found in this archive"),
        (packed(dict.fromkeys(CIFAR10_FILES, b""), tarfile.SYMTYPE), "not found in this archive"),
        (packed({"huge": bytes(cifar10.MOST_BYTES + 1)}), "cifar-10-batches-bin/huge has 30730001 bytes"),
        (b"<html>not found</html>", "is damaged: Not a gzipped file"),
        (packed({"test_batch.bin": bytes(3073)})[:40], "is damaged: "),
    ],
    ids=[
        "a file short",
        "a link",
        "a huge file",
        "a page",
        "cut",
    ],  # an archive has the time in it, a test's id must not
)
def test_a_wrong_archive_is_named(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / cifar10.NAME).write_bytes(data)
    with pytest.raises(DdlbenchError, match=message):
        cifar10.read({"folder": str(tmp_path)}, (32, 32, 3), 1)


def test_an_empty_folder_is_told_what_belongs_there(tmp_path: Path) -> None:
    with pytest.raises(DdlbenchError, match=r"expected cifar-10-binary.tar.gz or its files data_batch_1.bin"):
        cifar10.read({"folder": str(tmp_path)}, (32, 32, 3), 1)
    with pytest.raises(DdlbenchError, match="neither a folder nor a url"):
        cifar10.read({"folder": None, "url": None}, (32, 32, 3), 1)


def test_the_archive_with_the_known_checksum_is_fetched(
    records: dict[str, Bytes],
    serve: Serve,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("ddlbench.datasets.fetch.SAID_EVERY_S", 0.0)
    data = archive_of(records)
    files = {name: sha256(array.tobytes()).hexdigest() for name, array in records.items()}
    archive = cifar10.Archive(sha256(data).hexdigest(), len(data), files)
    url = f"{serve({'file': data})}/file"
    arrays, facts = cifar10.read({"folder": None, "url": url}, (32, 32, 3), 1, archive)
    assert np.array_equal(arrays["test_labels"], records["test_batch.bin"][:, 0])
    assert facts["known"] is True
    assert f" of {len(data) / 1e6:.1f} MB" in capsys.readouterr().err


def test_a_fetched_archive_with_another_checksum_is_refused(records: dict[str, Bytes], serve: Serve) -> None:
    url = f"{serve({'file': archive_of(records)})}/file"
    message = r"not the archive of CIFAR-10: expected sha256 c4a38c50.*put it into a folder"
    with pytest.raises(DdlbenchError, match=message):
        cifar10.read({"url": url}, (32, 32, 3), 1)
