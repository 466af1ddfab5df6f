"""The file of a data set: an uncompressed .npz whose bytes depend only on its arrays."""

import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ddlbench.errors import DdlbenchError
from ddlbench.files import sha256_file, write_atomically

Arrays = dict[str, NDArray[Any]]
Shape = tuple[int, int, int]  # height, width, channels

CLASSES = 10


def write(path: Path | str, arrays: Arrays) -> str:
    """Write arrays to a file, whole or not at all; equal arrays give equal bytes.

    Args:
        path: where the .npz goes.
        arrays: what it holds: {name: array}, in this order.

    Returns:
        The file's sha256.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            entry = zipfile.ZipInfo(f"{name}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            entry.create_system = 3  # Unix, wherever it is written
            entry.external_attr = 0o644 << 16
            with archive.open(entry, "w") as file:
                np.lib.format.write_array(file, np.asarray(array, order="C"), allow_pickle=False)
    write_atomically(path, buffer.getvalue())
    return sha256_file(path)


def load(path: Path | str) -> Arrays:
    """Read the arrays of a file. Nothing is unpickled.

    Args:
        path: a .npz, as `write` makes it.

    Returns:
        The arrays: {name: array}.
    """
    with np.load(path, allow_pickle=False) as archive:
        return {name: archive[name] for name in archive.files}


def check(path: Path | str, sha256: str) -> None:
    """Check that a file is as it was when it was made.

    A file that has changed is renamed to `<name>.set-aside`, so that nothing uses it and the next start makes it again.

    Args:
        path: where the .npz is.
        sha256: the checksum that it had.

    Raises:
        DdlbenchError: the file is missing, or does not match.
    """
    path = Path(path)
    if not path.is_file():
        raise DdlbenchError(f"{path}: this data set is missing. Start again: it will be made anew.")
    found = sha256_file(path)
    if found == sha256:
        return
    aside = path.with_name(f"{path.name}.set-aside")
    os.replace(path, aside)
    raise DdlbenchError(
        f"{path}: this data set is damaged (sha256 {found[:12]}..., expected {sha256[:12]}...). "
        f"It is now {aside}. Start again: it will be made anew."
    )


def shape_words(shape: Shape) -> str:
    """Write a shape in words.

    Args:
        shape: height, width, channels.

    Returns:
        The numbers with `x` between them, for instance `28x28x1`.
    """
    return "x".join(map(str, shape))
