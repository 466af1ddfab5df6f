"""The table of the models' parameters and operations, counted in PyTorch's environment."""

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from ddlbench.environments.failed_environments import read_description
from ddlbench.files import write_atomically
from ddlbench.probes.environment_answer import answer_of

MODULE = "ddlbench.workers.torch.flops"
TIMEOUT_S = 300.0


def write_counts(models: Sequence[str], image_shape: str, output: Path | str, *, environment: Path) -> None:
    """Count parameters and operations of models, and write a CSV with a row for each model.

    Columns: model, image_shape, parameters, bytes, flops, multiply_adds, counted_by (the library and its version).

    Args:
        models: names of models.
        image_shape: height x width x channels of an image, as the configuration has it.
        output: where the CSV goes.
        environment: the file that describes PyTorch's environment, in which the counting runs.

    Raises:
        DdlbenchError: the environment could not be made, or the counting fails or takes too long.
    """
    described = read_description(environment)
    counts: dict[str, dict[str, int]] = answer_of(
        described["python"],
        MODULE,
        [image_shape, *models],
        timeout_s=TIMEOUT_S,
        failure="models could not be counted",
    )
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
