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
    insert(pipeline, "training.py", before="import numpy as np\n", code=imports)
    insert(pipeline, "training.py", after="if command.from_fresh:\n", code=code)


def insert(pipeline: Pipeline, module: str, code: str, *, before: str = "", after: str = "") -> None:
    """Insert code into a module of a pipeline's PyTorch workers."""
    path = pipeline.root / "src/ddlbench/workers/torch" / module
    text = path.read_text()
    assert text.count(before or after) == 1
    path.write_text(text.replace(before or after, after + code + before))


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
    study["grids"]["bandwidth"] |= {"bandwidth_mbit": 200, "batch_size": [32, 33, 34]}
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


def test_models_that_hosts_cannot_hold_are_gaps_and_the_others_are_measured_by_the_same_workers(prepared):
    study = copy.deepcopy(TINY_STUDY)
    study["grids"]["bandwidth"] |= {"bandwidth_mbit": 200, "model": ["mlp", "conv1", "conv2"]}
    prepared.configure(study=study)
    build = "        for each in command.models:\n"
    insert(
        prepared,
        "ring_allreduce.py",
        after=build,
        code="            assert each.model == 'conv2' or torch.empty(2**43)\n",
    )
    prepared.run(prepared.manifest("bandwidth"))
    told = {record["point"]["model"]: record for record in prepared.records()}
    assert {model: record["status"] for model, record in told.items()} == {
        "mlp": "does_not_fit",
        "conv1": "does_not_fit",
        "conv2": "measured",
    }
    why = r"its model does not fit into memory: rank [01] on host h[12] ran out of memory while connecting: .*memory"
    assert all(re.match(why, told[model]["reason"]) for model in ("conv1", "mlp"))
    assert len({record["launch"] for record in prepared.records()}) == 1
