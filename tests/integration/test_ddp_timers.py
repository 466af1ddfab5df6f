"""DDP's own timers, as PyTorch's workers read them."""

import json
import subprocess
from pathlib import Path

from tests.support.repository import REPOSITORY

# A forward pass that takes longer in each step, at least by as much as it sleeps.
SCRIPT = """
import json
import os
import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ddlbench.workers.torch.ddp_timers import parts_of_last_step_ms


class Sleeper(torch.nn.Linear):
    def forward(self, images):
        time.sleep(self.pause_s)
        return super().forward(images)


dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
model = DistributedDataParallel(Sleeper(2, 2))
model._set_ddp_runtime_logging_sample_rate(1)
found = []
for pause_s in (0.01, 0.1, 0.2, 0.4):
    model.module.pause_s = pause_s
    model(torch.ones(1, 2)).sum().backward()
    found.append([1000 * pause_s, parts_of_last_step_ms(model)["forward_ms"]])
print(json.dumps(found[1:]), flush=True)  # DDP times no first step
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
    found = json.loads(said)
    assert len(found) == 3
    assert all(forward_ms >= pause_ms for pause_ms, forward_ms in found)
