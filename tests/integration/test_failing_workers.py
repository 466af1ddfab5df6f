"""Workers that crash or lack memory in the middle of a sweep, which goes on with new ones.

Each fails of itself, at a moment that is the same however busy the machine is.
"""

import copy
import re

import pytest

from tests.support.pipeline import Pipeline
from tests.support.tiny_study import TINY_STUDY

POINTS, REPETITIONS = 2, 2  # of the tiny study


def in_training(pipeline: Pipeline, imports: str, code: str) -> None:
    """Have each PyTorch worker of a pipeline do something more when it begins to train from fresh parameters."""
    worker = pipeline.root / "src/ddlbench/workers/torch/training.py"
    before, begins = worker.read_text(), "if command.from_fresh:\n"
    assert before.count(begins) == before.count("import numpy as np\n") == 1
    changed = before.replace("import numpy as np\n", f"{imports}import numpy as np\n")
    worker.write_text(changed.replace(begins, begins + code))


def test_a_sweep_goes_on_with_new_workers_when_one_crashes(prepared):
    prepared.configure()
    crash = "            if self.assignment.rank == 1 and not os.path.exists('crashed'):\n"
    crash += "                open('crashed', 'w').close()\n                os.kill(os.getpid(), 11)\n"
    in_training(prepared, "import os\n", crash)
    said = prepared.run(prepared.manifest("bandwidth"))
    assert "rank 1 on host h2 died (SIGSEGV) while " in said
    assert len(prepared.records()) == POINTS * REPETITIONS


@pytest.mark.long
def test_a_worker_that_runs_out_of_memory_in_training_is_a_gap_and_new_workers_measure_the_rest(prepared):
    study = copy.deepcopy(TINY_STUDY)
    study["grids"]["bandwidth"] |= {"bandwidth_mbit": 400, "batch_size": [32, 33, 34]}
    prepared.configure(study=study)
    in_training(
        prepared, "", "            assert self.point.share.batches.batch_size != 33 or torch.empty(2**33)\n"
    )
    prepared.run(prepared.manifest("bandwidth"))
    told = {record["point"]["batch_size"]: record for record in prepared.records()}
    assert {batch: record["status"] for batch, record in told.items()} == {
        32: "measured",
        33: "does_not_fit",
        34: "measured",
    }
    assert re.match(r"rank [01] on host h[12] ran out of memory while training: .*memory", told[33]["reason"])
