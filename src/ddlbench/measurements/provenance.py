"""Where a result comes from: the sidecar `<file>.prov.json` beside a result file, with the hashes of what made it.

Paths in it are relative to the repository root, the folder that holds the Snakefile. `lineage` reads it.
"""

import json
import os
import subprocess
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import ddlbench
from ddlbench.code.closure import Code
from ddlbench.code.purposes import PACKAGE, whole_package
from ddlbench.files import sha256_file, write_atomically
from ddlbench.measurements import facts
from ddlbench.measurements.record import seal

SUFFIX = ".prov.json"


def repository_root(file: Path | str) -> Path:
    """Find the root of the repository that a file is in.

    Args:
        file: it need not exist.

    Returns:
        The nearest folder above it that holds a Snakefile; the working directory if there is none.
    """
    for folder in Path(os.path.abspath(file)).parents:
        if (folder / "Snakefile").is_file():
            return folder
    return Path.cwd()


def code_version(code: Code | None = None) -> dict[str, Any]:
    """Describe the version of our code that makes a result.

    Args:
        code: the code that decides the result; None for the whole package.

    Returns:
        version of the package; commit, and whether anything in the working tree differs from it (dirty), both None
        without git or outside a repository; sha256 of the code's content; purpose, what it decides, or None.
    """
    commit, dirty = _commit(PACKAGE)
    code = code or whole_package()
    return {
        "version": ddlbench.__version__,
        "commit": commit,
        "dirty": dirty,
        "sha256": code.sha256,
        "purpose": code.purpose or None,
    }


def _commit(folder: Path) -> tuple[str | None, bool | None]:
    """Commit and dirty flag of the repository that holds `folder`."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    command = ["git", "-C", str(folder), "status", "--porcelain=v2", "--branch"]
    try:
        answer = subprocess.run(command, env=environment, capture_output=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None, None
    lines = answer.stdout.decode(errors="replace").splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid")), "(initial)")
    return None if commit == "(initial)" else commit, any(not line.startswith("#") for line in lines)


def write_sidecar(
    file: Path | str,
    *,
    made_by: str,
    inputs: Mapping[str, Path | str | Sequence[Path | str]],
    code: Code | None = None,
    parameters: Mapping[str, Any] | None = None,
    outputs: Sequence[Path | str] = (),
    started: datetime | str,
) -> Path:
    """Write the sidecar of a file that is complete.

    Args:
        file: the result.
        made_by: the rule's name.
        inputs: role (table, manifest, measurement, dataset, ...) -> its file or files.
        code: the code that decides the result; None for the whole package, which `ddlbench verify` does not compare.
        parameters: the settings that the result depends on.
        outputs: files made together with `file`.
        started: when the work began (text: ISO 8601); its end is the moment of this call.

    Returns:
        The sidecar's path.

    Raises:
        OSError: the file, an input or an output is missing.
        DdlbenchError: the disk is full.
    """
    root = repository_root(file)
    listed = [(role, Path(path)) for role, paths in inputs.items() for path in _several(paths)]
    sidecar = {
        "file": relative_name(file, root),
        "sha256": sha256_file(file),
        "made_by": made_by,
        "inputs": [{**_hashed(path, root), "role": role} for role, path in listed],
        "outputs": [_hashed(path, root) for path in outputs],
        "parameters": dict(parameters or {}),
        "code": {**code_version(code), "modules": dict(code.modules) if code else {}},
        "host": facts.gather(),
        "started": started if isinstance(started, str) else started.isoformat(),
        "ended": datetime.now(UTC).isoformat(),
    }
    target = sidecar_path(file)
    write_atomically(target, json.dumps(seal(sidecar), indent=1) + "\n")
    return target


def sidecar_path(file: Path | str) -> Path:
    """Name the sidecar of a file.

    Args:
        file: the result; it need not exist.

    Returns:
        The sidecar's path, beside the file.
    """
    return Path(f"{file}{SUFFIX}")


def _several(paths: Path | str | Sequence[Path | str]) -> Sequence[Path | str]:
    return [paths] if isinstance(paths, Path | str) else paths


def _hashed(file: Path | str, root: Path) -> dict[str, str]:
    return {"path": relative_name(file, root), "sha256": sha256_file(file)}


def relative_name(file: Path | str, root: Path) -> str:
    """Write a file's path as sidecars do.

    Args:
        file: absolute, or relative to the working directory.
        root: the repository's, absolute.

    Returns:
        The path below the root, with `/`; a file outside of the root keeps its absolute path.
    """
    path = Path(os.path.abspath(file))
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()
