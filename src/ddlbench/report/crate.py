"""The archive of all results: a Workflow Run RO-Crate with each file that the page was made from, and its hash."""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from rocrate.model import ContextEntity
from rocrate.rocrate import ROCrate

import ddlbench
from ddlbench.errors import DdlbenchError
from ddlbench.files import read_regular, sha256_file
from ddlbench.measurements.lineage import is_record
from ddlbench.measurements.provenance import SUFFIX
from ddlbench.measurements.record import read_record
from ddlbench.measurements.whole_results import check_files

WORKFLOW = "Snakefile"
BESIDE_THE_WORKFLOW = ("workflow", "config", "LICENSE", "CITATION.cff")
PROFILES = {
    "https://w3id.org/ro/wfrun/process/0.5": ("Process Run Crate", "0.5"),
    "https://w3id.org/ro/wfrun/workflow/0.5": ("Workflow Run Crate", "0.5"),
    "https://w3id.org/workflowhub/workflow-ro-crate/1.0": ("Workflow RO-Crate", "1.0"),
}
WORKFLOW_PROFILE = "https://bioschemas.org/profiles/ComputationalWorkflow/1.0-RELEASE"
LICENSE = "https://spdx.org/licenses/Apache-2.0"
HASH_TERM = {"sha256": "https://schema.org/sha256"}  # RO-Crate 1.1's own terms lack it
FORMATS = {
    ".html": "text/html",
    ".json": "application/json",
    ".csv": "text/csv",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".pdf": "application/pdf",
    ".md": "text/markdown",
    ".rst": "text/x-rst",
    ".yaml": "application/yaml",
    ".parquet": "application/vnd.apache.parquet",
    ".npz": "application/zip",
}
README = """# Results of ddlbench

Open `{page}` in a browser: claims, figures, and what they were made from. It needs no network.

`ddlbench verify ARCHIVE` hashes everything in this archive again, and compares it with what each result says of
where it comes from.
"""


class Run(NamedTuple):
    """What the archive is about; paths of results are below the repository's root.

    Attributes:
        page: that tells of everything.
        results: figures, tables and claims that the page was made from.
        configurations: files that said what to measure, wherever they are.
    """

    page: str
    results: Sequence[str]
    configurations: Sequence[Path]


def write_archive(archive: Path, run: Run, root: Path) -> None:
    """Write the archive, whole or not at all.

    Args:
        archive: where the zip file goes.
        run: what it is about.
        root: the repository.

    Raises:
        DdlbenchError: a file differs from what its provenance says or lies outside of the repository, or it cannot be
            written.
    """
    names = {*_files_behind([run.page, *run.results], root), *_workflow_files(root)}
    crate = _crate(run, {name: root / name for name in names}, root)
    unfinished = f".{archive.name}."
    # What a killed call has left, with all that it had packed.
    for left in archive.parent.glob(f"{unfinished}*"):
        shutil.rmtree(left, ignore_errors=True)
    try:
        with tempfile.TemporaryDirectory(dir=archive.parent, prefix=unfinished) as folder:
            whole = Path(folder) / archive.name
            crate.write_zip(whole)
            os.chmod(whole, 0o644)
            os.replace(whole, archive)
    except OSError as error:
        raise DdlbenchError(f"{archive}: the archive could not be written ({error.strerror})") from error


def _files_behind(results: Iterable[str], root: Path) -> set[str]:
    """All files that results were made from, with their sidecars; each as its provenance says."""
    found = check_files([root / name for name in results], inside_only=True)
    if found.damage:
        listed = "\n".join(f"  {mismatch}" for mismatch in found.damage)
        raise DdlbenchError(
            f"these files are not as their provenance says, so no archive was made of them:\n{listed}\n"
            "  `ddlbench verify --repair` mends results."
        )
    names = {name for name, sha256 in found.comparison.hashes.items() if isinstance(sha256, str)}
    return names | {sidecar for name in names if (root / (sidecar := f"{name}{SUFFIX}")).is_file()}


def _workflow_files(root: Path) -> Iterable[str]:
    for name in (WORKFLOW, *BESIDE_THE_WORKFLOW):
        place = root / name
        files = [place] if place.is_file() else place.rglob("*")
        yield from (
            file.relative_to(root).as_posix()
            for file in files
            if file.is_file() and not file.is_symlink() and "__pycache__" not in file.parts
        )


def _crate(run: Run, files: dict[str, Path], root: Path) -> ROCrate:
    configurations = {_name_of(file, root): file for file in run.configurations}
    crate = ROCrate(version="1.1")
    crate.metadata.extra_terms.update(HASH_TERM)
    crate.name = "Measurements of distributed deep learning, by ddlbench"
    crate.description = (
        "Which claims of papers hold, figures with captions, and every measurement that they were made from."
    )
    started, ended = (moment.isoformat(timespec="seconds") for moment in _moments(files))
    crate.datePublished = ended
    crate.license = crate.add(_context(crate, LICENSE, "Apache License 2.0"))
    crate.root_dataset["conformsTo"] = [
        crate.add(_context(crate, profile, name, version=number))
        for profile, (name, number) in PROFILES.items()
    ]
    crate.add(_context(crate, WORKFLOW_PROFILE, "ComputationalWorkflow", version="1.0-RELEASE"))
    workflow = crate.add_workflow(
        root / WORKFLOW,
        WORKFLOW,
        main=True,
        lang="snakemake",
        properties={
            **_described(root / WORKFLOW),
            "name": "ddlbench",
            "version": ddlbench.__version__,
            "conformsTo": {"@id": WORKFLOW_PROFILE},
        },
    )
    added = {
        name: crate.add_file(file, name, properties=_described(file))
        for name, file in sorted((files | configurations).items())
        if name != WORKFLOW
    }
    readme = README.format(page=run.page)
    crate.add_file(
        StringIO(readme),
        "README.md",
        properties={
            "name": "README",
            "about": {"@id": "./"},
            "encodingFormat": FORMATS[".md"],
            "sha256": hashlib.sha256(readme.encode()).hexdigest(),
        },
    )
    action = crate.add_action(
        workflow,
        identifier="#run",
        object=[added[name] for name in configurations],
        result=[added[name] for name in (run.page, *run.results)],
        properties={
            "name": "Measuring, and drawing what was measured",
            "description": "Snakemake measured what was missing, made tables and figures of it, and judged claims.",
            "startTime": started,
            "endTime": ended,
            "actionStatus": "http://schema.org/CompletedActionStatus",
        },
    )
    crate.root_dataset["mentions"] = action
    return crate


def _moments(files: Mapping[str, Path]) -> tuple[datetime, datetime]:
    """When the first measurement began, and when the last result was made."""
    sidecars = [json.loads(read_regular(file)) for name, file in files.items() if name.endswith(SUFFIX)]
    records = [read_record(file) for file in files.values() if is_record(file)]
    started = [datetime.fromisoformat(each["started"]) for each in (*records, *sidecars)]
    return min(started), max(datetime.fromisoformat(each["ended"]) for each in sidecars)


def _name_of(configuration: Path, root: Path) -> str:
    """Where a configuration lies in the archive: as in the repository, or in a folder of its own."""
    file = configuration.absolute()
    return file.relative_to(root).as_posix() if file.is_relative_to(root) else f"configuration/{file.name}"


def _context(crate: ROCrate, identifier: str, name: str, **properties: str) -> ContextEntity:
    return ContextEntity(crate, identifier, {"@type": "CreativeWork", "name": name, **properties})


def _described(file: Path) -> dict[str, Any]:
    return {
        "name": file.name,
        "sha256": sha256_file(file, follow=False),
        "contentSize": str(file.stat().st_size),
        "encodingFormat": FORMATS.get(file.suffix, "text/plain"),
    }
