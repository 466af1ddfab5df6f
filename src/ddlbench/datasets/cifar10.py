"""CIFAR-10's binary version: six files of records, from a folder, or fetched as one archive and checked.

Format: records of 3,073 bytes, the label and then the red, green and blue values of 32x32 pixels, row by row
(https://www.cs.toronto.edu/~kriz/cifar.html). The Python version is pickled, and so it is never read.
"""

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from ddlbench.datasets.arrays import CLASSES, Arrays, Shape, shape_words
from ddlbench.datasets.fetch import Expected, fetch
from ddlbench.errors import DdlbenchError
from ddlbench.files import read_regular

STORED: Shape = (32, 32, 3)
SHAPES = (STORED, (224, 224, 3))  # the latter are enlarged when they are used: stored, they would take 9 GB
RECORD_BYTES = 1 + 32 * 32 * 3
MOST_BYTES = 10_000 * RECORD_BYTES  # of a file
FETCH_S = 1800.0


@dataclass(frozen=True)
class Archive:
    """The published archive: its checksum and size, and the checksums of the files in it that are read."""

    sha256: str
    size_bytes: int
    files: Mapping[str, str]


NAME = "cifar-10-binary.tar.gz"
PUBLISHED = Archive(
    # The page gives its MD5, c32a1d4ab5d03f1284b67883e8d87530; several libraries pin this SHA-256 beside it.
    "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
    170_052_171,
    {
        "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
        "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
        "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
        "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
        "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
        "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
    },
)


def read(
    settings: Mapping[str, str | None], shape: Shape, seed: int, archive: Archive = PUBLISHED
) -> tuple[Arrays, dict[str, Any]]:
    """Read CIFAR-10 from a folder or fetch it.

    A fetched archive must have the known checksum. Files of a folder may be others than CIFAR-10's (a part of it).

    Args:
        settings: `folder`, with the six files or the archive; without it `url`, the archive's address.
        shape: height, width and channels that the model takes, one of `SHAPES`.
        seed: not used; all readers of data sets take the same arguments.
        archive: the checksums and size of the published archive.

    Returns:
        The arrays: images (uint8, `(images, 32, 32, 3)` whatever the shape) and labels (uint8, `(images,)`, 0 to 9) of
        both parts. Then the facts: source, known (whether all files have the published checksums), files
        ({name: sha256}).

    Raises:
        DdlbenchError: the shape is another, there is neither folder nor url, or the files are missing or damaged.
    """
    if shape not in SHAPES:
        known = " or ".join(map(shape_words, SHAPES))
        raise DdlbenchError(f"the data set cifar10 has images of {known}, not {shape_words(shape)}")
    folder, url = settings.get("folder"), settings.get("url")
    if folder:
        contents, source = _from_folder(Path(folder), archive), "a folder of CIFAR-10's binary version"
    elif url:
        contents, source = _unpacked(_fetched(str(url), archive), str(url), archive), str(url)
    else:
        raise DdlbenchError(
            "cifar10: there is neither a folder nor a url to take it from; "
            f"set datasets: cifar10: folder: (with {NAME}) or url: in the configuration"
        )
    hashes = {name: sha256(data).hexdigest() for name, data in contents.items()}
    train, test = ([name for name in contents if name.startswith(part)] for part in ("data", "test"))
    arrays = _records(contents, train, "train") | _records(contents, test, "test")
    return arrays, {"source": source, "known": hashes == archive.files, "files": hashes}


def _records(contents: Mapping[str, bytes], names: list[str], part: str) -> Arrays:
    """Images `(images, height, width, channels)` and labels of some of the files, one after another."""
    for name in names:
        size = len(contents[name])
        if not size or size % RECORD_BYTES:
            raise DdlbenchError(
                f"cifar10: {name} is truncated or damaged: expected records of {RECORD_BYTES} bytes, found {size} bytes"
            )
    records = np.frombuffer(b"".join(contents[name] for name in names), np.uint8).reshape(-1, RECORD_BYTES)
    labels = records[:, 0]
    if labels.max() >= CLASSES:
        raise DdlbenchError(
            f"cifar10: {', '.join(names)}: expected labels 0 to {CLASSES - 1}, found {labels.max()}"
        )
    images = records[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
    return {f"{part}_images": images, f"{part}_labels": labels}


def _from_folder(folder: Path, archive: Archive) -> dict[str, bytes]:
    """The files in the folder itself, in the folder that the archive unpacks to, or in the archive."""
    for place in (folder, folder / "cifar-10-batches-bin"):
        if all((place / name).is_file() for name in archive.files):
            return {name: _bytes(place / name, MOST_BYTES) for name in archive.files}
    if (folder / NAME).is_file():
        return _unpacked(_bytes(folder / NAME, archive.size_bytes), str(folder / NAME), archive)
    raise DdlbenchError(
        f"{folder}: expected {NAME} or its files {', '.join(archive.files)} (datasets: cifar10: folder:)"
    )


def _bytes(path: Path, most: int) -> bytes:
    try:
        return read_regular(path, most)
    except OSError as error:
        raise DdlbenchError(f"{path}: {error.strerror}") from error


def _fetched(url: str, archive: Archive) -> bytes:
    advice = f"Or fetch {NAME} by other means, put it into a folder and set datasets: cifar10: folder:"
    expected = Expected("the archive of CIFAR-10", archive.sha256, archive.size_bytes)
    return fetch(url, expected, advice=advice, total_s=FETCH_S)


class _Bounded(io.RawIOBase):
    """The unpacked content of an archive, read in pieces of a limited size, because a header may announce gigabytes."""

    def __init__(self, unpacking: gzip.GzipFile) -> None:
        self._unpacking = unpacking

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._unpacking.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return self._unpacking.seek(offset, whence)

    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= MOST_BYTES:
            raise tarfile.ReadError(
                f"it announces {size} bytes at once, and expected are at most {MOST_BYTES}"
            )
        return self._unpacking.read(size)


def _unpacked(data: bytes, where: str, archive: Archive) -> dict[str, bytes]:
    """Read the six files of an archive into memory; nothing is written, and no larger file is unpacked."""
    found: dict[str, bytes] = {}
    try:
        with (
            gzip.GzipFile(fileobj=io.BytesIO(data)) as unpacking,
            tarfile.open(fileobj=_Bounded(unpacking), mode="r:") as tar,
        ):
            for member in tar:
                if member.size > MOST_BYTES:
                    raise DdlbenchError(
                        f"{where} is not the archive of CIFAR-10: {member.name} has {member.size} bytes, "
                        f"and expected are at most {MOST_BYTES}"
                    )
                name = Path(member.name).name
                if name in archive.files and member.isreg() and (file := tar.extractfile(member)):
                    found[name] = file.read()
                if len(found) == len(archive.files):
                    return {name: found[name] for name in archive.files}
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DdlbenchError(f"{where} is damaged: {error}") from error
    missing = ", ".join(name for name in archive.files if name not in found)
    raise DdlbenchError(f"{where}: {missing} not found in this archive")
