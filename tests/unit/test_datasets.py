"""Data sets: what is written is what was read, the same bytes every time; what is damaged is named, never used."""

import gzip
import struct
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from ddlbench.datasets import check, mnist, prepare
from ddlbench.datasets.arrays import load
from ddlbench.errors import DdlbenchError
from tests.support.loopback_server import Serve

pytestmark = pytest.mark.unit

Bytes = NDArray[np.uint8]

TRAIN, TEST = 30, 10
NAMES = {part: file.name for part, file in mnist.FILES.items()}


def idx(array: Bytes, *, magic: int | None = None) -> bytes:
    """An IDX file as MNIST's authors wrote it."""
    header = struct.pack(">I", (8 << 8 | array.ndim) if magic is None else magic)
    return header + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@pytest.fixture
def parts() -> dict[str, Bytes]:
    random = np.random.default_rng(1)
    return {
        "train_images": random.integers(0, 256, (TRAIN, 28, 28), dtype=np.uint8),
        "train_labels": (np.arange(TRAIN) % 10).astype(np.uint8),
        "test_images": random.integers(0, 256, (TEST, 28, 28), dtype=np.uint8),
        "test_labels": (np.arange(TEST) % 10).astype(np.uint8),
    }


@pytest.fixture
def folder(tmp_path: Path, parts: dict[str, Bytes]) -> Path:
    """A folder with two plain and two compressed IDX files."""
    folder = tmp_path / "idx"
    folder.mkdir()
    for part, array in parts.items():
        if part.startswith("train"):
            (folder / NAMES[part]).write_bytes(idx(array))
        else:
            (folder / f"{NAMES[part]}.gz").write_bytes(gzip.compress(idx(array), mtime=0))
    return folder


# ------------------------------------------------------------------------------------------- digits, synthetic


def test_digits_are_split_1437_to_360_with_every_digit_in_its_share(tmp_path: Path) -> None:
    facts = prepare("digits", {}, tmp_path / "digits.npz")
    arrays = load(tmp_path / "digits.npz")
    assert arrays["train_images"].shape == (1437, 28, 28, 1)
    assert arrays["test_images"].shape == (360, 28, 28, 1)
    assert arrays["train_images"].dtype == np.uint8
    assert (arrays["train_images"].min(), arrays["train_images"].max()) == (0, 255)
    assert np.all(np.bincount(arrays["test_labels"], minlength=10) >= 34)
    assert facts["sha256"] == sha256((tmp_path / "digits.npz").read_bytes()).hexdigest()
    assert (facts["train_images"], facts["test_images"], facts["known"]) == (1437, 360, True)


def test_digits_lie_in_the_middle_of_their_frame(tmp_path: Path) -> None:
    prepare("digits", {}, tmp_path / "digits.npz")
    images = load(tmp_path / "digits.npz")["train_images"]
    assert not images[:, [0, 1, -1, -2]].any()
    assert not images[:, :, [0, 1, -1, -2]].any()
    mass = images.sum(axis=(0, 3), dtype=float)
    for axis in (0, 1):
        centre = np.average(np.arange(28), weights=mass.sum(axis=1 - axis))
        assert abs(centre - 13.5) < 0.5


def test_digits_have_one_shape_only(tmp_path: Path) -> None:
    with pytest.raises(DdlbenchError, match="28x28x1, not 32x32x3"):
        prepare("digits", {}, tmp_path / "digits.npz", (32, 32, 3))


@pytest.mark.parametrize("shape", [(28, 28, 1), (32, 32, 3), (7, 5, 2), (224, 224, 3)])
@pytest.mark.long
def test_synthetic_images_have_the_shape_asked_for(tmp_path: Path, shape: tuple[int, int, int]) -> None:
    facts = prepare("synthetic", None, tmp_path / "synthetic.npz", shape)
    arrays = load(tmp_path / "synthetic.npz")
    assert arrays["train_images"].shape == (facts["train_images"], *shape)
    assert arrays["train_images"].nbytes <= 64 * 2**20
    assert set(arrays["train_labels"]) == set(arrays["test_labels"]) == set(range(10))


def test_synthetic_images_can_be_learnt(tmp_path: Path) -> None:
    prepare("synthetic", {}, tmp_path / "synthetic.npz", (8, 8, 1))
    arrays = load(tmp_path / "synthetic.npz")
    train, test = (arrays[f"{part}_images"].reshape(-1, 64).astype(float) for part in ("train", "test"))
    centres = np.stack([train[arrays["train_labels"] == label].mean(axis=0) for label in range(10)])
    nearest = ((test[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    assert (nearest == arrays["test_labels"]).mean() > 0.9


def test_another_seed_makes_other_images(tmp_path: Path) -> None:
    hashes = {prepare("synthetic", {}, tmp_path / "synthetic.npz", seed=seed)["sha256"] for seed in (1, 2)}
    assert len(hashes) == 2


@pytest.mark.parametrize("name", ["digits", "synthetic"])
def test_the_same_data_are_the_same_bytes(tmp_path: Path, name: str) -> None:
    for copy in ("a.npz", "b.npz"):
        prepare(name, {}, tmp_path / copy)
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.npz", "b.npz"]


def test_an_unknown_data_set_is_named_with_the_nearest_known(tmp_path: Path) -> None:
    with pytest.raises(DdlbenchError, match=r"'mnits' is not a data set .*'mnist'"):
        prepare("mnits", {}, tmp_path / "x.npz")


# ------------------------------------------------------------------------------------------- mnist from a folder


def test_a_folder_of_plain_and_compressed_files_is_read(
    tmp_path: Path, folder: Path, parts: dict[str, Bytes]
) -> None:
    facts = prepare("mnist", {"folder": str(folder), "url": "https://unused.invalid"}, tmp_path / "mnist.npz")
    arrays = load(tmp_path / "mnist.npz")
    for part, array in parts.items():
        assert np.array_equal(arrays[part].reshape(array.shape), array)
    assert arrays["train_images"].shape == (TRAIN, 28, 28, 1)
    assert facts["known"] is False  # they are not MNIST's, and the record says so
    assert (
        facts["files"][NAMES["train_images"]]
        == sha256((folder / NAMES["train_images"]).read_bytes()).hexdigest()
    )


def test_the_files_of_mnist_are_known_plain_and_compressed(folder: Path) -> None:
    def known(part: str) -> mnist.IdxFile:
        name = NAMES[part] if part.startswith("train") else f"{NAMES[part]}.gz"
        digest = sha256((folder / name).read_bytes()).hexdigest()
        return replace(mnist.FILES[part], **{"gz_sha256" if name.endswith(".gz") else "sha256": digest})

    _, facts = mnist.read({"folder": str(folder)}, (28, 28, 1), 1, {part: known(part) for part in NAMES})
    assert facts["known"] is True


def damage(folder: Path, part: str, data: bytes) -> Path:
    (folder / NAMES[part]).write_bytes(data)
    return folder / NAMES[part]


@pytest.mark.parametrize(
    ("part", "data", "message"),
    [
        (
            "train_images",
            idx(np.zeros((TRAIN, 28, 28), np.uint8))[:-1],
            "truncated: expected 23520 bytes .*found 23519",
        ),
        (
            "train_images",
            idx(np.zeros((TRAIN, 28, 28), np.uint8)) + b"\0",
            "expected 23520 bytes .*found more",
        ),
        (
            "train_images",
            idx(np.zeros((TRAIN, 28, 28), np.uint8), magic=0x801),
            "magic number 0x00000803, found 0x00000801",
        ),
        ("train_images", b"<html>not found</html>", "magic number 0x00000803, found 0x3c68746d"),
        ("train_images", b"", r"found 0x\(empty\)"),
        ("train_images", idx(np.zeros((TRAIN, 28, 28), np.uint8))[:10], "truncated: expected 3 dimensions"),
        (
            "train_images",
            struct.pack(">IIII", 0x803, 2**32 - 1, 28, 28),
            "damaged: its header says 4294967295 x 28 x 28",
        ),
        ("train_images", idx(np.zeros((0, 28, 28), np.uint8)), "header says 0 x 28 x 28"),
        (
            "train_images",
            idx(np.zeros((TRAIN, 27, 28), np.uint8)),
            "expected images of 28x28x1, found 27x28x1",
        ),
        ("train_labels", idx(np.zeros(TRAIN - 1, np.uint8)), "expected 30 labels, one an image, found 29"),
        ("train_labels", idx(np.full(TRAIN, 47, np.uint8)), "expected labels 0 to 9, found 47"),
        (
            "train_labels",
            gzip.compress(idx(np.zeros(TRAIN, np.uint8)), mtime=0)[:-9],
            "truncated: its compressed data end too early",
        ),
        (
            "train_labels",
            gzip.compress(idx(np.zeros(TRAIN, np.uint8)), mtime=0)[:-8] + bytes(8),
            "is damaged: CRC check failed",
        ),
        ("train_labels", b"\x1f\x8b\x08\x00" + bytes(6) + b"\xff" * 20, "is damaged"),
    ],
)
def test_a_damaged_file_is_named_with_what_was_expected(
    tmp_path: Path, folder: Path, part: str, data: bytes, message: str
) -> None:
    path = damage(folder, part, data)
    with pytest.raises(DdlbenchError, match=message) as error:
        prepare("mnist", {"folder": str(folder)}, tmp_path / "mnist.npz")
    assert str(path) in str(error.value)
    assert not (tmp_path / "mnist.npz").exists()


def test_a_missing_file_is_named(tmp_path: Path, folder: Path) -> None:
    (folder / NAMES["train_labels"]).unlink()
    with pytest.raises(DdlbenchError, match=r"expected an IDX file train-labels-idx1-ubyte or .*\.gz"):
        prepare("mnist", {"folder": str(folder)}, tmp_path / "mnist.npz")


def test_mnist_without_folder_and_url_says_which_keys_to_set(tmp_path: Path) -> None:
    with pytest.raises(DdlbenchError, match="neither a folder nor a url"):
        prepare("mnist", {"folder": None, "url": None}, tmp_path / "mnist.npz")


# ------------------------------------------------------------------------------------------- mnist fetched


def compressed(parts: dict[str, Bytes]) -> dict[str, bytes]:
    return {f"{NAMES[part]}.gz": gzip.compress(idx(array), mtime=0) for part, array in parts.items()}


def expected(bodies: dict[str, bytes]) -> dict[str, mnist.IdxFile]:
    """What would be known of these files if they were MNIST's."""

    def known(file: mnist.IdxFile) -> mnist.IdxFile:
        body = bodies[f"{file.name}.gz"]
        return replace(file, gz_sha256=sha256(body).hexdigest(), gz_bytes=len(body))

    return {part: known(file) for part, file in mnist.FILES.items()}


def test_files_with_the_known_checksums_are_fetched(parts: dict[str, Bytes], serve: Serve) -> None:
    bodies = compressed(parts)
    arrays, facts = mnist.read({"folder": None, "url": serve(bodies) + "/"}, (28, 28, 1), 1, expected(bodies))
    for part, array in parts.items():
        assert np.array_equal(arrays[part].reshape(array.shape), array)
    assert facts["known"] is True
    assert sorted(facts["files"]) == sorted(bodies)


def test_a_fetched_file_with_another_checksum_is_refused(
    tmp_path: Path, parts: dict[str, Bytes], serve: Serve
) -> None:
    url = serve(compressed(parts))
    with pytest.raises(
        DdlbenchError, match=r"train-images-idx3-ubyte\.gz is not the file of MNIST: expected sha256 440fcab"
    ):
        prepare("mnist", {"url": url}, tmp_path / "mnist.npz")


# ------------------------------------------------------------------------------------------- check


def test_an_intact_file_passes(tmp_path: Path) -> None:
    facts = prepare("synthetic", {}, tmp_path / "synthetic.npz", (4, 4, 1))
    check(tmp_path / "synthetic.npz", facts["sha256"])


def test_a_changed_byte_is_noticed_and_the_file_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "synthetic.npz"
    facts = prepare("synthetic", {}, path, (4, 4, 1))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(DdlbenchError, match=r"synthetic\.npz: this data set is damaged .* Start again"):
        check(path, facts["sha256"])
    assert not path.exists()
    assert (tmp_path / "synthetic.npz.set-aside").read_bytes() == data


def test_a_missing_data_set_is_named(tmp_path: Path) -> None:
    with pytest.raises(DdlbenchError, match=r"gone\.npz: this data set is missing"):
        check(tmp_path / "gone.npz", "0" * 64)


def test_nothing_is_ever_unpickled(tmp_path: Path) -> None:
    np.savez(tmp_path / "evil.npz", train_images=np.array([{"a": 1}], dtype=object))
    with pytest.raises(ValueError, match="allow_pickle"):
        load(tmp_path / "evil.npz")
