"""The table of the models' parameters and operations, counted in PyTorch's environment."""

import csv
import io
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from ddlbench.errors import DdlbenchError
from ddlbench.files import read_json, write_atomically
from ddlbench.system.package import package_root
from ddlbench.system.processes import die_with_parent

MODULE = "ddlbench.workers.torch.flops"
TIMEOUT_S = 300.0
_SHOWN_LINES = 5


def write_counts(models: Sequence[str], image_shape: str, output: Path | str, *, environment: Path) -> None:
    """Count parameters and operations of models, and write a CSV with a row for each model.

    Columns: model, image_shape, parameters, bytes, flops, multiply_adds, counted_by (the library and its version).

    Args:
        models: names of models.
        image_shape: height x width x channels of an image, as the configuration has it.
        output: where the CSV goes.
        environment: the file that describes PyTorch's environment, in which the counting runs.

    Raises:
        DdlbenchError: the counting fails or takes too long.
    """
    described = read_json(environment)
    counts = _answer(described["python"], [image_shape, *models])
    counted_by = f"PyTorch {described['packages']['torch']}"
    rows = [
        {"model": name, "image_shape": image_shape, **counts[name], "counted_by": counted_by}
        for name in models
    ]
    table = io.StringIO()
    writer = csv.DictWriter(table, rows[0], lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(output, table.getvalue())


def _answer(python: str, arguments: Sequence[str]) -> dict[str, dict[str, int]]:
    try:
        done = subprocess.run(
            [python, "-m", MODULE, *arguments],
            env={**os.environ, "PYTHONPATH": package_root()},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            preexec_fn=die_with_parent,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DdlbenchError(f"models could not be counted: {error}") from error
    if done.returncode:
        last_lines = "\n  ".join(done.stderr.splitlines()[-_SHOWN_LINES:])
        raise DdlbenchError(f"models could not be counted: {python} -m {MODULE} failed:\n  {last_lines}")
    counts: dict[str, dict[str, int]] = json.loads(done.stdout)
    return counts
