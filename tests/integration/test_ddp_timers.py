"""DDP's own timers, as PyTorch's workers read them."""

import json
import subprocess
from pathlib import Path

from tests.support.repository import REPOSITORY

# DDP's data have the number of the step that they are of: no time is compared.
SCRIPT = """
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ddlbench.workers.torch.ddp_timers import parts_of_last_step_ms


dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
model = DistributedDataParallel(torch.nn.Linear(2, 2))
model._set_ddp_runtime_logging_sample_rate(1)
found = []
for step in range(1, 5):
    model(torch.ones(1, 2)).sum().backward()
    parts = parts_of_last_step_ms(model)
    found.append([step, model._get_ddp_logging_data()["iteration"], sorted(parts)])
print(json.dumps(found), flush=True)
os._exit(0)  # PyTorch 2's interpreter sometimes aborts at its end, while a thread of Gloo's still runs
"""


def test_the_parts_are_those_of_the_step_that_has_just_ended(
    tmp_path: Path, torch_environment: object
) -> None:
    python = REPOSITORY / ".environments/torch/bin/python"
    command = [python, "-c", SCRIPT, str(tmp_path / "store")]
    said = subprocess.run(
        command, cwd=REPOSITORY, env={"PYTHONPATH": "src"}, capture_output=True, text=True, check=True
    ).stdout
    names = ["backward_ms", "communication_ms", "forward_ms"]
    assert json.loads(said) == [[step, step, names] for step in (1, 2, 3, 4)]
