"""The files of `--output NAME`: `NAME.json`, `NAME.csv` with the series, and `NAME.json.prov.json`, its sidecar."""

import json
import os
import shutil
from datetime import datetime
from pathlib import Path
from tempfile import TemporaryFile

from ddlbench.emulate.emulation import Emulated, Emulation
from ddlbench.errors import ConfigError
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


def check_writable(output: Path) -> None:
    """Check, before anything starts, that the files can be written.

    Args:
        output: NAME.

    Raises:
        ConfigError: they cannot; with the reason.
    """
    try:
        with TemporaryFile(dir=output.parent):
            pass
    except OSError as error:
        raise ConfigError(
            f"--output {output}: cannot write into {output.parent}/ ({error.strerror})"
        ) from None
    for file in (_result(output), series_file(output)):
        if not output.name or file.is_dir():
            raise ConfigError(f"--output {output}: {file} is not the name of a file")


def write(output: Path, emulation: Emulation, found: Emulated, started: datetime) -> None:
    """Write what came of an emulation, and its sidecar.

    Args:
        output: NAME; the series is there.
        emulation: what was asked for.
        found: what came of it.
        started: when it began.
    """
    asked, result = json.loads(written(emulation)), _result(output)
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


def _result(output: Path) -> Path:
    return Path(f"{output}.json")


def _files(emulation: Emulation) -> list[Path]:
    """The program and the files that the command line names, unless they are large."""
    program, *arguments = emulation.command
    named = [Path(each) for each in (shutil.which(program) or program, *arguments) if os.path.isfile(each)]
    return [file for file in named if file.stat().st_size <= _MOST_HASHED_BYTES]
