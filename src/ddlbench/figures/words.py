"""Values of a table's columns, and numbers, in words."""

import re
from collections.abc import Iterable
from typing import Any

import pandas as pd

# Of what has another name in the configuration.
NAMES = {
    "cpu": "CPU",
    "gpu": "GPU",
    "bare": "no container",
    "torch": "PyTorch",
    "tensorflow": "TensorFlow",
    "horovod_torch": "Horovod with PyTorch",
    "horovod_tensorflow": "Horovod with TensorFlow",
    "mxnet": "MXNet",
    "ring_allreduce": "ring all-reduce",
    "parameter_server_sync": "synchronous parameter server",
    "parameter_server_async": "asynchronous parameter server",
}


def span_of(counts: "pd.Series[Any]") -> str:
    """Write the range of some counts.

    Args:
        counts: whole numbers, at least one.

    Returns:
        `5`, or `3 to 5` if they differ.
    """
    low, high = int(counts.min()), int(counts.max())
    return f"{low}" if low == high else f"{low} to {high}"


def values_of(rows: pd.DataFrame, column: str) -> list[Any]:
    """List the distinct values of a column, without empty ones.

    Args:
        rows: any table.
        column: of the table or not.

    Returns:
        Numbers sorted, other values in the order of the rows; empty if there is no such column.
    """
    if column not in rows:
        return []
    values = list(dict.fromkeys(rows[column].dropna()))
    return sorted(values) if pd.api.types.is_numeric_dtype(rows[column]) else values


def listed(values: Iterable[Any]) -> str:
    """Join values to one line.

    Args:
        values: numbers or anything else.

    Returns:
        The values with commas between them; numbers have at most six digits.
    """
    return ", ".join(f"{value:g}" if isinstance(value, int | float) else str(value) for value in values)


def counted(count: int, noun: str) -> str:
    """Write a count with its noun.

    Args:
        count: how many.
        noun: in the singular; its plural ends in s.

    Returns:
        `1 point`, `2 points`.
    """
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def escaped(text: str) -> str:
    """Escape what reStructuredText would read as markup.

    Args:
        text: plain text, in one line or several.

    Returns:
        One line; between words there is one space.
    """
    return re.sub(r"([\\*`_|<>])", r"\\\1", " ".join(text.split()))
