"""The measurement store: a file for each repetition, found by the fingerprint of everything that determines it.

    <root>/<fp[:2]>/<fp>/<repetition>-<started>.json      append-only; a file is whole or absent
    <root>/<fp[:2]>/<fp>/since                            a measurement that began before this moment does not count
    <root>/set-aside/                                     damaged files, and those whose link was found to be wrong

Nothing is locked: files are created in one step and never changed, so pipelines may share a store.
"""

import os
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from ddlbench.files import canonical_json, create_once, read_regular, write_atomically
from ddlbench.measurements.fingerprint import difference
from ddlbench.measurements.record import DamagedRecord, Record, read_record, seal

STORE = "store"  # below the results
SET_ASIDE = "set-aside"
SINCE = "since"


class Store:
    """The measurements below a folder, which is made when the first one is added."""

    def __init__(self, root: Path | str, measure: Mapping[str, Any] | None = None) -> None:
        """Open the store below the folder `root`.

        Args:
            root: it need not exist.
            measure: the configuration's section of those who ask, which is part of each fingerprint. None: records are
                believed what they say of their fingerprint; for those who only add some.
        """
        self.root = Path(root)
        self.measure = measure

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
        name = f"{sealed['repetition']}-{moment(sealed['started']):%Y%m%dT%H%M%S.%fZ}"
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

        A file that is damaged, or that states other conditions than those asked for, is named on stderr and moved into
        `set-aside/`.

        Args:
            fingerprint: as `fingerprint.fingerprint` computes it.

        Returns:
            Each record with its file, sorted by repetition, then by when it began.
        """
        found = []
        since = self._since(fingerprint)
        for path in self._files(fingerprint):
            try:
                record = read_record(path)
                if why := difference(record, fingerprint, self.measure):
                    raise DamagedRecord(path, why)
            except FileNotFoundError:  # another pipeline has set it aside in the meantime
                continue
            except DamagedRecord as damage:
                self._set_aside(damage.path, str(damage))
                continue
            started = moment(record["started"])
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
        path = self._folder(fingerprint) / SINCE
        try:
            return moment(read_regular(path, 1000).decode())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            self._set_aside(path, f"{path}: it holds no moment ({error}), so older measurements count again")
            return None

    def _set_aside(self, path: Path, why: str) -> None:
        set_aside(path, self.root, f"{path.parent.name[:12]}-{path.stem}", why)


def set_aside(path: Path, folder: Path, name: str, why: str) -> None:
    """Move a file that must not be used into the folder `set-aside`, and say so on stderr.

    Args:
        path: the file; if it is missing, nothing is done.
        folder: where `set-aside` is or is made.
        name: how the file is called there; the present moment and its suffix are appended.
        why: the message: which file, and what is wrong with it.
    """
    target = folder / SET_ASIDE / f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%S.%fZ}{path.suffix}"
    try:
        target.parent.mkdir(exist_ok=True)
        os.replace(path, target)
    except FileNotFoundError:
        return
    except OSError as error:
        where = f"it could not be moved ({error.strerror})"
    else:
        where = f"it is now {target}"
    print(f"warning: {why}. It is not used; {where}.", file=sys.stderr, flush=True)


def moment(text: str) -> datetime:
    """Read a moment as records and `since` hold it.

    Args:
        text: in the form of ISO 8601; without a time zone it is UTC.

    Returns:
        The moment in UTC.

    Raises:
        ValueError: it is something else.
    """
    return _utc(datetime.fromisoformat(text))


def _utc(when: datetime) -> datetime:
    """The moment in UTC; a moment without a time zone is taken as UTC."""
    return when.replace(tzinfo=UTC) if when.tzinfo is None else when.astimezone(UTC)
