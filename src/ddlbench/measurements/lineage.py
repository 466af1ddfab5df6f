"""Where a file comes from: read from its sidecar, or from the file itself.

A sidecar lists the inputs of its file with their hashes. An input can have a sidecar too, so sidecars form a tree. Two
kinds of files need no sidecar: a manifest lists its measurements, and a measurement contains its own provenance.
"""

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ddlbench.errors import DdlbenchError
from ddlbench.files import is_hashed, is_path, read_regular, sha256_json
from ddlbench.measurements.provenance import SUFFIX, relative_name, repository_root
from ddlbench.measurements.record import DamagedRecord, Record

_SIDECAR = {
    "file": str,
    "sha256": str,
    "made_by": str,
    "inputs": list,
    "code": dict,
    "host": dict,
    "ended": str,
}
_OPTIONAL: dict[str, Any] = {"outputs": [], "parameters": {}}


class Input(NamedTuple):
    """A file that another one was made from; sha256 is None if no sidecar has its hash."""

    path: str
    sha256: str | None
    role: str


class Claim(NamedTuple):
    """What is said of a measurement: its fingerprint, its point and the section `measure`; None: nothing is said."""

    fingerprint: str
    point: Mapping[str, Any] | None
    measure: Mapping[str, Any] | None


@dataclass
class Origin:
    """What is known about where a file comes from.

    Attributes:
        made: how and when it was made, by which code, on which host, as its sidecar says; None without a sidecar.
        inputs: the files that it was made from.
        siblings: the file itself and those that were made together with it, each a path and a sha256.
        manifest: the content of the file, if it is a manifest.
    """

    made: Mapping[str, Any] | None = None
    inputs: list[Input] = field(default_factory=list)
    siblings: list[tuple[str, str]] = field(default_factory=list)
    manifest: dict[str, Any] | None = None

    @property
    def code(self) -> Mapping[str, Any]:
        """The version of the code that made the file, as its sidecar says; empty without a sidecar."""
        return self.made["code"] if self.made else {}


def origin_of(root: Path, name: str) -> Origin | None:
    """Read where a file comes from: from its sidecar, and from the file itself if it is a manifest.

    Args:
        root: the repository.
        name: the file's path below it.

    Returns:
        The origin; None if the file has no sidecar and is no manifest.

    Raises:
        DamagedRecord: the sidecar cannot be read.
    """
    manifest = read_manifest(root / name)
    sidecar = _sidecar_path(root, name)
    if sidecar is None:
        if manifest is None:
            return None
        return Origin(inputs=_as_inputs(measurements_of(manifest)), manifest=manifest)
    content = _read_sidecar(root, sidecar)
    inputs = [Input(each["path"], each["sha256"], each["role"]) for each in content["inputs"]]
    hashed = {each.path for each in inputs}
    inputs += _as_inputs(path for path in measurements_of(manifest or {}) if path not in hashed)
    together = [(each["path"], each["sha256"]) for each in content["outputs"]]
    return Origin(content, inputs, [(content["file"], content["sha256"]), *together], manifest)


def _as_inputs(measurements: Iterable[str]) -> list[Input]:
    return [Input(path, None, "measurement") for path in measurements]


def _sidecar_path(root: Path, name: str) -> str | None:
    """The sidecar of a file, or of the file that it was made together with (a figure's SVG for its PDF)."""
    if (root / f"{name}{SUFFIX}").is_file():
        return f"{name}{SUFFIX}"
    for candidate in sidecars_beside(root / name):
        relative = relative_name(candidate, root)
        if any(each["path"] == name for each in _read_sidecar(root, relative)["outputs"]):
            return relative
    return None


def sidecars_beside(file: Path) -> Iterator[Path]:
    """List the sidecars that may say of a file that it was made together with another one.

    Args:
        file: it need not exist.

    Yields:
        Those of files that are called the same but for one ending, and then but for two (`x.caption.rst`, `x.svg`).
    """
    for stem in dict.fromkeys((file.stem, Path(file.stem).stem)):
        yield from sorted(file.parent.glob(f"{stem}.*{SUFFIX}"))


def _read_sidecar(root: Path, name: str) -> dict[str, Any]:
    try:
        content = json.loads(read_regular(root / name))
        checksum = content.pop("checksum", None)
        if checksum is not None and checksum != sha256_json(content):
            raise ValueError("its checksum does not match its content")
        sidecar = _OPTIONAL | content
        _require_kinds(sidecar)
        if sidecar["file"] != name.removesuffix(SUFFIX):
            raise ValueError(f"it is that of {sidecar['file']!r:.200}")
        return dict(sidecar)
    except FileNotFoundError:
        raise
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedRecord(name, f"this sidecar cannot be read ({error}); make its file again") from None


def _require_kinds(sidecar: Mapping[str, Any]) -> None:
    """Refuse a sidecar that holds other kinds of values than are written: it may be of an archive from anywhere."""
    kinds = _SIDECAR | {key: type(value) for key, value in _OPTIONAL.items()}
    if wrong := [key for key, kind in kinds.items() if not isinstance(sidecar[key], kind)]:
        raise ValueError(f"its {wrong[0]!r} is {sidecar[wrong[0]]!r:.60}")
    if not all(is_hashed(each) for each in [*sidecar["inputs"], *sidecar["outputs"]]):
        raise ValueError("it lists something that is no file")
    if not all(isinstance(each["role"], str) for each in sidecar["inputs"]):
        raise ValueError("it does not say what a file is for")
    if not isinstance(sidecar["code"].get("modules", {}), dict):
        raise ValueError("it does not list the modules of its code")


def read_manifest(file: Path) -> dict[str, Any] | None:
    """Read a run's manifest.

    Args:
        file: a file that may be a manifest or not.

    Returns:
        The manifest's content; None if the file is something else or cannot be read.
    """
    if file.suffix != ".json":
        return None
    try:
        content = json.loads(read_regular(file))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(content, dict) or "run" not in content or not isinstance(content.get("points"), list):
        return None
    return content if all(map(_is_entry, content["points"])) else None


def _is_entry(value: Any) -> bool:
    """Whether a value is what a manifest says of a point."""
    if not isinstance(value, dict):
        return False
    measurements, fingerprint = value.get("measurements") or [], value.get("fingerprint") or ""
    return isinstance(fingerprint, str) and isinstance(measurements, list) and all(map(is_path, measurements))


def measurements_of(manifest: Mapping[str, Any]) -> Iterator[str]:
    """List the measurements of a manifest.

    Args:
        manifest: the content of one; it may be empty.

    Yields:
        Their paths, below the repository's root.
    """
    for entry in manifest.get("points", []):
        yield from entry.get("measurements") or []


def claims_of(manifest: Mapping[str, Any]) -> dict[str, Claim]:
    """Collect what a manifest says of its measurements.

    Args:
        manifest: the content of one; it may be empty.

    Returns:
        The claim of each measurement, by its path below the repository's root.
    """
    return {
        path: Claim(
            entry.get("fingerprint") or Path(path).parent.name, entry.get("point"), manifest.get("measure")
        )
        for entry in manifest.get("points", [])
        for path in entry.get("measurements") or []
    }


def telemetry_files(record: Record) -> Iterator[tuple[str, str]]:
    """List the files that hold the telemetry of a record.

    Args:
        record: one repetition.

    Yields:
        The path of each file, below the repository's root, and its sha256.
    """
    for each in (record.get("telemetry") or {}).get("files", []):
        yield each["path"], each["sha256"]


def is_record(file: Path) -> bool:
    """Say whether a file holds a measurement.

    Args:
        file: an existing regular file.

    Returns:
        True if it is JSON by its name and contains the key `step_times_ms`.

    Raises:
        OSError: it is JSON by its name and cannot be read.
    """
    return file.suffix == ".json" and b'"step_times_ms"' in read_regular(file)


def find(file: Path | str) -> tuple[Path, str]:
    """Find the repository of a file that has an origin.

    Args:
        file: a figure, a table, a manifest, a measurement or another file with a sidecar.

    Returns:
        The repository's root, and the file's path below it.

    Raises:
        DdlbenchError: the file is missing, or has no origin.
        DamagedRecord: a sidecar that could be the file's cannot be read.
    """
    path = Path(os.path.abspath(file))
    root = repository_root(path)
    name = relative_name(path, root)
    if not path.is_file():
        raise DdlbenchError(f"{file}: there is no such file")
    if path.is_symlink():
        raise DdlbenchError(
            f"{file}: it is a symbolic link; name the file that it leads to, {path.resolve()}"
        )
    if not is_record(path) and _sidecar_path(root, name) is None and read_manifest(path) is None:
        raise DdlbenchError(
            f"{file}: no sidecar ({path.name}{SUFFIX}) says where this file comes from. "
            "Name a figure, a table, a manifest or a measurement that the pipeline made."
        )
    return root, name
