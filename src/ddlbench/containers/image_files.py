"""The files that describe images: written when an image is whole, or with why it could not be made; kept true.

An image lies in a container engine, out of sight of Snakemake. So each start asks whether what is described is there.
"""

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from ddlbench.containers import engine
from ddlbench.containers.image import is_there
from ddlbench.containers.sif import check_sif, is_untouched
from ddlbench.environments.failed_environments import record_failure
from ddlbench.errors import DdlbenchError
from ddlbench.files import write_atomically
from ddlbench.measurements import provenance
from ddlbench.system.processes import die_with_parent

FOLDER = Path(".images")


def write_description(
    output: Path,
    make: Callable[..., dict[str, Any]],
    *,
    log: Path,
    made_by: str,
    inputs: Mapping[str, Path | str | list[str]],
    parameters: Mapping[str, Any],
) -> str | None:
    """Write what `make` says of the image that it makes, or why it cannot, and the sidecar. Returns that, or None.

    make: is given a `folder` to work in, which goes afterwards, or before the next time, and whom to `say` to how far
    it is. log: what it says, and why it failed, goes here too.
    """
    die_with_parent()
    started = datetime.now(UTC)
    folder = output.with_suffix(".making")
    shutil.rmtree(folder, ignore_errors=True)
    failure = None
    try:
        described = make(folder=folder, report=partial(_report, log))
        write_atomically(output, json.dumps(described, indent=2, sort_keys=True) + "\n")
    except DdlbenchError as error:
        failure = str(error)
    except engine.FAILURES as error:
        failure = f"{output}: the container engine has failed: {error}"
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if failure:
        record_failure(output, output.stem, failure)
        _report(log, failure)
    provenance.write_sidecar(output, made_by=made_by, inputs=inputs, parameters=parameters, started=started)
    return failure


def _report(log: Path, words: str) -> None:
    """Tell how far it is, now and in the log."""
    print(words, file=sys.stderr, flush=True)
    with log.open("a") as file:
        file.write(f"{words}\n")


def forget_vanished(folder: Path = FOLDER) -> list[str]:
    """Have images made again that are described below `folder` and not there any more, or damaged; says which."""
    told = []
    images = _descriptions(folder, "docker")
    if images:
        try:
            client = engine.connect()
        except DdlbenchError:  # who needs an image is told so
            images = {}
    for stamp, described in images.items():
        if not is_there(described["image_id"], client):
            told.append(f"{described['image']} is not in the container engine any more; making it again")
            stamp.unlink(missing_ok=True)
    for stamp, described in _descriptions(folder, "apptainer").items():
        try:
            if not is_untouched(described):
                check_sif(Path(described["sif"]), described["sif_sha256"])
        except DdlbenchError as error:
            told.append(str(error))
            stamp.unlink(missing_ok=True)
    return told


def _descriptions(folder: Path, runtime: str) -> dict[Path, dict[str, Any]]:
    """The descriptions of images that were made; what cannot be read is no description."""
    found = {}
    for stamp in sorted(folder.glob(f"*/{runtime}.json")):
        try:
            said = json.loads(stamp.read_text())
        except (OSError, ValueError):
            stamp.unlink(missing_ok=True)
            continue
        if "failure" not in said:
            found[stamp] = said
    return found
