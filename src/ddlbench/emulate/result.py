"""The files of `--output NAME`: `NAME.json`, `NAME.csv` with the series, and `NAME.json.prov.json`, its sidecar."""

import json
import os
import shutil
from datetime import datetime
from pathlib import Path

from ddlbench.emulate.emulation import Emulated, Emulation
from ddlbench.files import write_atomically
from ddlbench.measurements.provenance import write_sidecar
from ddlbench.protocol.codec import written

_MOST_HASHED_BYTES = 1 << 28  # of a file that the command line names; data sets are not hashed


def series_file(output: Path) -> Path:
    """Name the file of the series.

    Args:
        output: NAME.

    Returns:
        NAME.csv.
    """
    return Path(f"{output}.csv")


def result_file(output: Path) -> Path:
    """Name the file of what was asked and found.

    Args:
        output: NAME.

    Returns:
        NAME.json.
    """
    return Path(f"{output}.json")


def write(output: Path, emulation: Emulation, found: Emulated, started: datetime) -> None:
    """Write what came of an emulation, and its sidecar.

    Args:
        output: NAME; the series is there.
        emulation: what was asked for.
        found: what came of it.
        started: when it began.
    """
    asked, result = json.loads(written(emulation)), result_file(output)
    content = {"asked": asked, "found": json.loads(written(found)), "exit_code": found.exit_code}
    write_atomically(result, json.dumps(content, indent=1) + "\n")
    write_sidecar(
        result,
        made_by="ddlbench emulate",
        inputs={"command": _files(emulation)},
        parameters=asked,
        outputs=[series_file(output)],
        started=started,
    )


def _files(emulation: Emulation) -> list[Path]:
    """The program and the files that the command line names, unless they are large."""
    program, *arguments = emulation.command
    named = [Path(each) for each in (shutil.which(program) or program, *arguments) if os.path.isfile(each)]
    return [file for file in named if file.stat().st_size <= _MOST_HASHED_BYTES]
