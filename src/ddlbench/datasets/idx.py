"""The IDX format of MNIST: a magic number, the dimensions, and as many bytes as they say.

Format: two zero bytes, a type (8 = unsigned byte), the number of dimensions; each dimension as 4 bytes, big-endian;
then the values, the last dimension running fastest (Y. LeCun, C. Cortes, C. Burges, The MNIST Database, 1998).
"""

import gzip
import io
import math
import struct
import zlib
from typing import BinaryIO, cast

import numpy as np
from numpy.typing import NDArray

from ddlbench.errors import DdlbenchError

MAX_BYTES = 2**30  # of values; a header with more is damaged, or the file is too large for this reader
_UNSIGNED_BYTE = 8
_KINDS = {1: "labels", 3: "images"}


def parse(data: bytes, name: str, dimensions: int) -> NDArray[np.uint8]:
    """Read the array of an IDX file, with no more memory than its header says.

    Args:
        data: the content of the file, plain or gzip-compressed; its first bytes show which.
        name: of the file, for errors.
        dimensions: how many the array must have: 1 for labels, 3 for images.

    Returns:
        The array: labels `(images,)`, or images `(images, height, width)`.

    Raises:
        DdlbenchError: the file is of another kind, truncated or damaged; with what was expected and what was found.
    """
    stream: BinaryIO = io.BytesIO(data)
    if data[:2] == b"\x1f\x8b":
        stream = cast(BinaryIO, gzip.GzipFile(fileobj=stream))
    try:
        return _parse(stream, name, dimensions)
    except EOFError as error:
        raise DdlbenchError(f"{name} is truncated: its compressed data end too early") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DdlbenchError(f"{name} is damaged: {error}") from error


def _parse(stream: BinaryIO, name: str, dimensions: int) -> NDArray[np.uint8]:
    kind = _KINDS.get(dimensions, "values")
    magic = struct.pack(">HBB", 0, _UNSIGNED_BYTE, dimensions)
    found = stream.read(4)
    if found != magic:
        words = f"expected magic number 0x{magic.hex()}, found 0x{found.hex() or '(empty)'}"
        raise DdlbenchError(f"{name} is not an IDX file of {kind}: {words}")
    header = stream.read(4 * dimensions)
    if len(header) < 4 * dimensions:
        raise DdlbenchError(
            f"{name} is truncated: expected {dimensions} dimensions of 4 bytes, found {len(header)} bytes"
        )
    shape = struct.unpack(f">{dimensions}I", header)
    size = math.prod(shape)
    words = " x ".join(map(str, shape))
    if not 0 < size <= MAX_BYTES:
        raise DdlbenchError(
            f"{name} is damaged: its header says {words} values (expected 1 to {MAX_BYTES} bytes)"
        )
    values = stream.read(size)
    if len(values) < size:
        raise DdlbenchError(
            f"{name} is truncated: expected {size} bytes for {words} {kind}, found {len(values)}"
        )
    if stream.read(1):
        raise DdlbenchError(f"{name} is damaged: expected {size} bytes for {words} {kind}, found more")
    return np.frombuffer(values, dtype=np.uint8).reshape(shape)
