"""The kinds of figures, and which keys and columns belong to each."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ddlbench.plan.catalogue import MODELS


@dataclass(frozen=True)
class Kind:
    """What belongs to figures of a kind.

    Attributes:
        words: the kind for messages.
        needed: keys that they must have.
        more: keys that they may have.
        x: the columns that can be on their x axis; empty: any that does not belong to another kind.
        y: the same for the y axis.
    """

    words: str
    needed: tuple[str, ...]
    more: tuple[str, ...]
    x: tuple[str, ...] = ()
    y: tuple[str, ...] = ()


SCALES = ("x_scale", "y_scale")
NAMES = ("model", "sites", "link")  # columns of an x axis that are no numbers
OF_GRIDS = Kind("this kind of figure", ("grids",), ("lines", "columns", "where", *SCALES))
KINDS = {
    "probe": Kind(
        "a probe's figure",
        ("links",),
        ("dilation", *SCALES),
        ("size_bytes",),
        ("throughput_mbit", "one_way_us"),
    ),
    "telemetry": Kind(
        *("a figure of telemetry", ("grids",), ("where",), ("time_s",)),
        (
            *("cpu_percent", "memory_gb", "received_packets_per_s", "sent_packets_per_s", "received_mbit"),
            *("sent_mbit", "retransmits_per_s", "gpu_percent", "gpu_memory_gb"),
        ),
    ),
    "models": Kind("a table of models", ("published", "image_shape"), (), ("model",), ("multiply_adds",)),
    "faults": Kind("a table of faults", ("faults",), (), ("killed",), ("outcome",)),
    "runtimes": Kind("a table of runtimes", (), (), ("network",), ("one_way_us",)),
}
OWN_COLUMNS = {  # column -> the kind that shows it; if there are several, the first
    column: name
    for name, kind in KINDS.items()
    for column in (*kind.x, *kind.y)
    if column not in ("model", "one_way_us")
}


def misfits(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """List what does not belong to a figure's kind: it shows grids, probes, models or faults.

    Args:
        given: the figure, as a study's file has it.

    Yields:
        A key, and what is wrong with it.
    """
    name = given.get("kind", "line")
    kind = KINDS.get(name, OF_GRIDS)
    for key in kind.needed:
        if key not in given:
            yield key, f"is missing ({kind.words} needs its {key})"
    own = {*kind.needed, *kind.more}
    every = dict.fromkeys(
        key for other in (OF_GRIDS, *KINDS.values()) for key in (*other.needed, *other.more)
    )
    for key in every:
        if key in given and key not in own:
            yield key, f"has no place in {kind.words}"
    for axis, columns in (("x", kind.x), ("y", kind.y)):
        column = given[axis]
        if columns and column not in columns:
            expected = f"{' or '.join(columns)} and nothing else"
        elif not columns and OWN_COLUMNS.get(column, name) != name:
            expected = f"`kind: {OWN_COLUMNS[column]}` for it"
        else:
            continue
        yield axis, f"{column!r} cannot be shown by {kind.words} (expected {expected})"
    if name == "line" and given["x"] in NAMES:
        yield "x", f"{given['x']!r} is no number, and a line's axis has numbers (expected `kind: bar` for it)"
    for model in given.get("published", ()):
        if (shape := given.get("image_shape")) and shape not in MODELS[model]:
            text = f"{model} does not take images of {shape} (expected {' or '.join(MODELS[model])})"
            yield "image_shape", text
