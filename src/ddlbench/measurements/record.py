"""The measurement record: the result of one repetition of one point, with a checksum; and values derived from it."""

import json
import math
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from ddlbench.errors import DdlbenchError
from ddlbench.files import is_hashed, read_regular, sha256_json
from ddlbench.measurements.statistics import Total

SCHEMA = 1
WITHOUT_STEPS = ("does_not_fit", "stalled")  # statuses of repetitions that say nothing of a step's time
_CLEARLY_MORE = 1.1  # free memory always changes a little

REQUIRED: dict[str, type | tuple[type, ...]] = {
    "schema": int,
    "fingerprint": str,
    "point": dict,
    "repetition": int,
    "status": str,
    "run": str,
    "started": str,
    "ended": str,
    "dilation": (int, float),
    "step_times_ms": list,
    "metrics": dict,
    "provenance": dict,
}

Record = dict[str, Any]


class DamagedRecord(DdlbenchError):
    """A measurement file whose content is not what was written.

    Attributes:
        path: of the file.
        why: what is wrong.
    """

    def __init__(self, path: Path | str, why: str) -> None:
        """Compose the message from the file and what is wrong."""
        super().__init__(f"{path}: damaged: {why}")
        self.path = Path(path)
        self.why = why


def seal(record: Mapping[str, Any]) -> Record:
    """Make a record plain JSON data, with a checksum of everything else in it.

    Args:
        record: any mapping; a checksum in it is replaced.

    Returns:
        A new record. A loss of nan or inf (the training diverged), which JSON cannot hold, is None: not measured.
    """
    content = {key: value for key, value in record.items() if key != "checksum"}
    plain = json.loads(json.dumps(_finite(content)))
    return {**plain, "checksum": sha256_json(plain)}


def read_record(path: Path, name: Path | str | None = None) -> Record:
    """Read the record in a file.

    Args:
        path: any file, also one that holds something else.
        name: how messages name the file; None: by its path.

    Returns:
        The record, checked as by `parse`.

    Raises:
        FileNotFoundError: there is no such file.
        DamagedRecord: it is not a regular file, or `parse` refuses its content.
    """
    try:
        content = read_regular(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise DamagedRecord(name or path, str(error.strerror)) from None
    return parse(content, name or path)


def parse(text: str | bytes, path: Path | str) -> Record:
    """Read and check a record.

    Args:
        text: the content of the file.
        path: of the file, for errors.

    Returns:
        The record, with its checksum.

    Raises:
        DamagedRecord: it is not JSON, its checksum is wrong, or something in it is missing or not valid.
    """
    try:
        record = json.loads(text)
        if not isinstance(record, dict):
            raise ValueError("not an object")
        content = {key: value for key, value in record.items() if key != "checksum"}
        found = sha256_json(content)
    except (ValueError, RecursionError) as error:  # also bytes that are not UTF-8, NaN, and too deep nesting
        raise DamagedRecord(path, f"it is not JSON ({error})") from None
    if record.get("checksum") != found:
        raise DamagedRecord(path, f"its checksum says {record.get('checksum')}, its content is {found}")
    if why := _mistake(record):
        raise DamagedRecord(path, why)
    return record


def _mistake(record: Record) -> str | None:
    """Why a record cannot be used; None if it can."""
    for key, kind in REQUIRED.items():
        if not isinstance(record.get(key), kind):
            return f"it has no valid {key!r} ({record.get(key)!r:.60})"
    for key in ("started", "ended"):
        try:
            datetime.fromisoformat(record[key])
        except ValueError:
            return f"its {key!r} is no moment ({record[key]!r:.60})"
    telemetry = record.get("telemetry") or {}
    files = telemetry.get("files", []) if isinstance(telemetry, dict) else None
    if not isinstance(files, list) or not all(map(is_hashed, files)):
        return "it does not list the files of its telemetry"
    if record["schema"] != SCHEMA:
        return f"its schema is {record['schema']}, this version reads {SCHEMA}"
    if record["status"] in WITHOUT_STEPS:
        return None
    if record["status"] != "measured":
        return f"its status is {record['status']!r} (expected measured, {' or '.join(WITHOUT_STEPS)})"
    ranks = record["step_times_ms"]
    counts = {len(times) if isinstance(times, list) else 0 for times in ranks}
    if not counts or 0 in counts or (len(counts) > 1 and is_synchronous(record)):
        return "its ranks do not have the same number (at least 1) of step times"
    if not all(type(time) in (int, float) and time > 0 for times in ranks for time in times):
        return "one of its step times is no time"
    return None if record["dilation"] > 0 else f"its dilation is {record['dilation']}"


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return value


_USUAL = (("framework", "torch"), ("strategy", "ring_allreduce"), ("runtime", "bare"), ("devices", "cpu"))


def words(point: Mapping[str, Any]) -> str:
    """Describe a point for people as the plan does: `mlp, digits, batch 128, 2 workers, 400 Mbit/s, 0 ms, 0 % loss`.

    Args:
        point: as a record or a manifest holds it, which may lack keys.

    Returns:
        Model, data set, global batch size, workers, the link, the sites or the fabric, and what is not usual (another
        framework than torch, ...).
    """
    workers, of_a_host = point.get("workers"), point.get("workers_per_host", 1)
    on_other_fabric = point.get("fabric", "emulated") != "emulated" and (workers or 1) > of_a_host
    link = [("bandwidth_mbit", "Mbit/s"), ("latency_ms", "ms"), ("loss_percent", "% loss")]
    return ", ".join(
        [str(point.get("model")), str(point.get("dataset")), f"batch {point.get('batch_size')}"]
        + [f"{workers} worker" if workers == 1 else f"{workers} workers"]
        + ([f"{of_a_host} a host"] if of_a_host > 1 else [])
        + [f"{point[key]:g} {unit}" for key, unit in link if point.get(key) is not None]
        + ([str(point["sites"]["name"])] if point.get("sites") else [])
        + ([str(point["fabric"])] if on_other_fabric else [])
        + [str(point[key]).replace("_", " ") for key, usual in _USUAL if point.get(key, usual) != usual]
        + ([f"{point['replay']['device']} replayed"] if point.get("replay") else [])
        + ([str(point["uneven"]["name"])] if point.get("uneven") else [])
    )


def is_too_large(record: Mapping[str, Any], has_bytes: int) -> bool:
    """Tell whether a point did not fit into memory, and its hosts have no more of it now.

    Args:
        record: of any status. Older ones do not say what their hosts had; then nothing is more.
        has_bytes: the memory of each host now, of which this machine may give less than the study asks for.

    Returns:
        True if it need not be tried again.
    """
    had_bytes: float = record.get("host_memory_bytes", math.inf)
    return record["status"] == "does_not_fit" and has_bytes <= _CLEARLY_MORE * had_bytes


def is_synchronous(record: Mapping[str, Any]) -> bool:
    """Check whether the ranks took their steps together.

    Args:
        record: the measurement of one point.

    Returns:
        The value of the record's key `synchronous`; True if the record does not have it.
    """
    return bool(record.get("synchronous", True))


def step_time_ms(record: Mapping[str, Any]) -> float | None:
    """Compute the mean time in which the worker group processes one batch, as without time dilation.

    If ranks step together, it is the mean of the slowest rank over all steps. (The slowest rank of each step would be
    wrong: if one rank is late in a step and another waits for it in the next, the delay would count twice.) If ranks do
    not wait for each other, N ranks with mean step times t_i process the N shares of a batch in N / sum(1 / t_i).

    Args:
        record: one repetition; its step times are dilated.

    Returns:
        Milliseconds; None for a record without steps.
    """
    means = [math.fsum(times) / len(times) for times in record["step_times_ms"]]
    if not means:
        return None
    together = max(means) if is_synchronous(record) else len(means) / math.fsum(1 / mean for mean in means)
    return together / float(record["dilation"])


def timed(record: Mapping[str, Any]) -> Total | None:
    """The steps of a repetition and their time, as without time dilation.

    Args:
        record: of any status.

    Returns:
        Steps and milliseconds; None for a record without steps.
    """
    time_ms, count = step_time_ms(record), steps(record)
    return None if time_ms is None else Total(time_ms * count, count, _of_steps(record, time_ms))


def _of_steps(record: Mapping[str, Any], mean_ms: float) -> tuple[float, ...]:
    """The times of the slowest worker's steps, scaled to a mean, where the link loses packets; elsewhere none."""
    if not (record.get("link") or {}).get("is_lossy"):
        return ()
    slowest = max(record["step_times_ms"], key=math.fsum)
    factor = mean_ms * len(slowest) / math.fsum(slowest)
    return tuple(factor * time_ms for time_ms in slowest)


def steps(record: Mapping[str, Any]) -> int:
    """Count the timed steps of a repetition.

    Args:
        record: of any status.

    Returns:
        Those of its first worker; 0 if it has none.
    """
    return len(record["step_times_ms"][0]) if record["step_times_ms"] else 0


def epochs(record: Mapping[str, Any]) -> Iterator[tuple[int, Record]]:
    """Split a record into its epochs, for tables with a row for each epoch.

    Losses and accuracy were measured after the last epoch, and only its record keeps them. Means over all epochs, as
    those of telemetry, are dropped.

    Args:
        record: one repetition.

    Yields:
        The epoch's number, from 1, and a record of its steps alone.
    """
    point, total = record["point"], steps(record)
    count = max(1, point.get("epochs") or 1)
    length = point.get("steps_per_epoch") or math.ceil(total / count)
    if count == 1 or total == 0:
        yield 1, dict(record)
        return
    for epoch in range(1, count + 1):
        end = total - (count - epoch) * length
        times = [rank[max(0, end - length) : max(0, end)] for rank in record["step_times_ms"]]
        after = ("train_loss", "test_loss", "test_accuracy_percent") if epoch == count else ()
        metrics = {key: record["metrics"].get(key) if key in after else None for key in record["metrics"]}
        yield epoch, {**record, "step_times_ms": times, "metrics": metrics, "telemetry": None}
