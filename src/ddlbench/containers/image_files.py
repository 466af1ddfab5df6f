"""The files that describe images: each is written when its image is complete, or states why that could not be made.

An image is in a container engine, where Snakemake does not see it. So each start checks that what is described exists.
"""

import json
import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from ddlbench.containers import engine
from ddlbench.containers.engines import answering
from ddlbench.containers.image import is_there
from ddlbench.containers.sif import apptainer, check_sif, is_untouched
from ddlbench.environments.failed_environments import record_failure
from ddlbench.errors import DdlbenchError
from ddlbench.files import read_json, write_atomically
from ddlbench.measurements import provenance
from ddlbench.system.processes import die_with_parent


def write_description(
    output: Path,
    make: Callable[..., dict[str, Any]],
    *,
    log: Path,
    made_by: str,
    inputs: Mapping[str, Path | str | list[str]],
    parameters: Mapping[str, Any],
) -> str | None:
    """Make an image, and write its description and sidecar; if that fails, write the reason in their place.

    Args:
        output: the file of the description.
        make: makes the image and returns its description. It is called with a `folder` to work in, which is removed
            afterwards, and with `report`, a function for lines about the progress.
        log: a file to which the progress and the reason of a failure are appended.
        made_by: of the sidecar: the rule.
        inputs: of the sidecar.
        parameters: of the sidecar.

    Returns:
        The reason; None if the image was made.
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


def _report(log: Path, text: str) -> None:
    """Print a line about the progress, and append it to the log."""
    print(text, file=sys.stderr, flush=True)
    with log.open("a") as file:
        file.write(f"{text}\n")


def check_makeable(descriptions: Iterable[Path]) -> None:
    """Check that this machine can make images, before runs that need them are submitted.

    Args:
        descriptions: the files of the images that are to be made, as `.images/torch/apptainer.json`.

    Raises:
        DdlbenchError: it cannot: no container engine answers, or Apptainer is not here; with what to do.
    """
    missing = sorted(descriptions)
    if not missing:
        return
    try:
        engine.connect().close()
        if any(path.stem == "apptainer" for path in missing):
            apptainer()
    except DdlbenchError as error:
        raise DdlbenchError(
            f"{missing[0]}: this image is missing, and no way to make it is here, so nothing is submitted: {error}\n"
            "  An image that was made elsewhere can be brought here: copy .images/ (docs/runtimes.md)."
        ) from error


def has_vanished(stamp: Path) -> bool:
    """Check whether a described image is missing or damaged; if so, print the reason on standard error.

    Args:
        stamp: the file that describes the image, for instance docker.json.

    Returns:
        True if it is missing or damaged. False if it is there, or if no container engine answers.
    """
    described = read_json(stamp)
    if why := _why_vanished(described):
        print(why, file=sys.stderr)
    return bool(why)


def _why_vanished(described: Mapping[str, Any]) -> str | None:
    if "sif" in described:
        try:
            if not is_untouched(described):
                check_sif(Path(described["sif"]), described["sif_sha256"])
        except DdlbenchError as error:
            return str(error)
        return None
    try:
        with answering() as client:
            if is_there(described["image_id"], client):
                return None
    except DdlbenchError:  # a rule that needs the image reports the missing engine
        return None
    return f"{described['image']} is not in the container engine any more; making it again"
