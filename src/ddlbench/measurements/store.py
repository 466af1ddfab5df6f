"""The measurement store: a file for each repetition, found by the fingerprint of everything that determines it.

    <root>/<fp[:2]>/<fp>/<repetition>-<started>.json      append-only; a file is whole or absent
    <root>/<fp[:2]>/<fp>/since                            a measurement that began before this moment does not count
    <root>/set-aside/                                     damaged files, and those whose link was found to be wrong

Nothing is locked: files are created in one step and never changed, so pipelines may share a store.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ddlbench.files import canonical_json, create_once, read_regular, sha256_json, write_atomically
from ddlbench.measurements.record import DamagedRecord, Record, read_record, seal

SINCE = "since"
MEASURE_KEYS = ("warmup_steps", "min_steps", "max_steps", "step_budget_s")


def fingerprint(
    point: Mapping[str, Any],
    *,
    measure: Mapping[str, Any],
    dilation: float,
    environment_sha256: str,
    code_sha256: str,
    dataset_sha256: str,
    machine: Mapping[str, Any],
    gpus: Sequence[str] = (),
) -> str:
    """Hash everything that determines a measurement: a point with the same fingerprint is not measured again.

    400 and 400.0 are the same value.

    Args:
        point: a point of the plan.
        measure: the configuration's section. Only MEASURE_KEYS count; how often to repeat does not.
        dilation: the factor of time dilation.
        environment_sha256: of the framework's locked environment.
        code_sha256: of the code that decides a measurement.
        dataset_sha256: of the data set's files.
        machine: facts of the node. Only cpu_model and cores count.
        gpus: the GPUs that compute, in words. Empty: the fingerprint is the same as before GPUs were supported.

    Returns:
        The sha256 in hexadecimal digits.
    """
    return sha256_json(
        _integral(
            {
                "point": point,
                "measure": {key: measure[key] for key in MEASURE_KEYS},
                "dilation": dilation,
                "environment": environment_sha256,
                "code": code_sha256,
                "dataset": dataset_sha256,
                "machine": {key: machine[key] for key in ("cpu_model", "cores")},
                **({"gpus": list(gpus)} if gpus else {}),
            }
        )
    )


def _integral(value: Any) -> Any:
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _integral(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_integral(each) for each in value]
    return value


class Store:
    """The measurements below a folder, which is made when the first one is added."""

    def __init__(self, root: Path | str) -> None:
        """Open the store below the folder `root`."""
        self.root = Path(root)

    def add(self, record: Mapping[str, Any]) -> Path:
        """Keep a record.

        Args:
            record: not sealed yet.

        Returns:
            Its file.

        Raises:
            DdlbenchError: the disk is full.
        """
        sealed = seal(record)
        text = canonical_json(sealed) + "\n"
        name = f"{sealed['repetition']}-{_instant(sealed['started']):%Y%m%dT%H%M%S.%fZ}"
        folder = self._folder(sealed["fingerprint"])
        path, others = folder / f"{name}.json", 1
        while not create_once(path, text):  # another pipeline measured the same in the same microsecond
            others += 1
            path = folder / f"{name}-{others}.json"
        return path

    def start_afresh(self, fingerprint: str, when: datetime) -> None:
        """Ignore, in future, measurements that began before a moment. It can be moved later, and not earlier.

        Args:
            fingerprint: whose measurements; if there are none, nothing is done.
            when: the moment; without a time zone it is UTC.
        """
        known = self._since(fingerprint)
        if self._folder(fingerprint).is_dir() and (known is None or known < _utc(when)):
            write_atomically(self._folder(fingerprint) / SINCE, _utc(when).isoformat())

    def measurements(self, fingerprint: str) -> list[tuple[Path, Record]]:
        """Read the records of a fingerprint that count.

        A damaged file is named on stderr and moved into `set-aside/`.

        Args:
            fingerprint: as `fingerprint` computes it.

        Returns:
            Each record with its file, sorted by repetition, then by when it began.
        """
        found = []
        since = self._since(fingerprint)
        for path in self._files(fingerprint):
            try:
                record = read_record(path)
                if record["fingerprint"] != fingerprint:
                    raise DamagedRecord(path, f"it belongs to the fingerprint {record['fingerprint']}")
            except FileNotFoundError:  # another pipeline has set it aside in the meantime
                continue
            except DamagedRecord as damage:
                self._set_aside(damage.path, str(damage))
                continue
            started = _instant(record["started"])
            if since is None or started >= since:
                found.append((record["repetition"], started, path, record))
        found.sort(key=lambda each: each[:3])
        return [(path, record) for _, _, path, record in found]

    def withdraw(self, path: Path, why: str) -> None:
        """Move a measurement that must not count into `set-aside/`, and name it on stderr.

        Args:
            path: its file; if it is missing, nothing is done.
            why: the reason for the user, to follow the file's path and a colon.
        """
        self._set_aside(path, f"{path}: {why}")

    def _folder(self, fingerprint: str) -> Path:
        return self.root / fingerprint[:2] / fingerprint

    def _files(self, fingerprint: str) -> list[Path]:
        try:
            return [
                Path(entry.path)
                for entry in os.scandir(self._folder(fingerprint))
                if entry.name.endswith(".json") and not entry.name.startswith(".")
            ]
        except FileNotFoundError:
            return []

    def _since(self, fingerprint: str) -> datetime | None:
        try:
            return _instant(read_regular(self._folder(fingerprint) / SINCE, 1000).decode())
        except (OSError, ValueError):
            return None

    def _set_aside(self, path: Path, why: str) -> None:
        name = f"{path.parent.name[:12]}-{path.stem}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}.json"
        target = self.root / "set-aside" / name
        try:
            target.parent.mkdir(exist_ok=True)
            os.replace(path, target)
        except FileNotFoundError:
            return
        except OSError as error:
            where = f"it could not be moved ({error.strerror})"
        else:
            where = f"it is now {target}"
        print(f"warning: {why}. It is not used; {where}.", file=sys.stderr)


def _instant(text: str) -> datetime:
    return _utc(datetime.fromisoformat(text))


def _utc(moment: datetime) -> datetime:
    """The moment in UTC; a moment without a time zone is taken as UTC."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
