"""PowerSGD over Gloo, of a model that DDP divides into several buckets, against a plain mean of gradients."""

import json
import subprocess
from pathlib import Path
from typing import Any

from ddlbench.system.package import package_root

# A layer's gradient is the mean of outer products with the same input on both ranks, so it has rank 1: what PowerSGD
# keeps of it is all of it, and every step must give the mean of what the ranks have by themselves.
RANK = """
import json, sys
import torch
import torch.distributed as dist
from torch import nn
from ddlbench.workers.torch.ring_allreduce import Reduction

rank, meeting = int(sys.argv[1]), sys.argv[2]
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
torch.manual_seed(1)
layers = nn.Sequential(*[nn.Linear(400, 400) for _ in range(8)])
model = nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=1)
reduction = Reduction("ring_allreduce_powersgd", dist.group.WORLD)
model.register_comm_hook(None, reduction.reduce)
x = torch.ones(1, 400)
for _ in range(2):  # after these DDP has settled its buckets
    model(x).sum().backward()
reduction.start_again()
worst = 0.0
for step in range(40):
    weights = torch.randn(2, 1, 400, generator=torch.Generator().manual_seed(step))
    model.zero_grad()
    (model(x) * weights[rank]).sum().backward()
    mean = torch.autograd.grad(sum((layers(x) * each).sum() for each in weights) / 2, list(layers.parameters()))
    for parameter, expected in zip(layers.parameters(), mean, strict=True):
        worst = max(worst, ((parameter.grad - expected).norm() / expected.norm()).item())
buckets = model._get_ddp_logging_data()["rebuilt_bucket_sizes"].split(",")
print(json.dumps({"buckets": len(buckets), "worst": worst}))
sys.stdout.flush()
import os
os._exit(0)  # Gloo may abort while it is torn down
"""


def test_powersgd_of_several_buckets_is_the_mean_of_gradients_that_have_rank_one(
    torch_environment: dict[str, Any], tmp_path: Path
) -> None:
    ranks = [
        subprocess.Popen(
            [torch_environment["python"], "-c", RANK, str(rank), str(tmp_path / "meeting")],
            env={"PYTHONPATH": package_root(), "GLOO_SOCKET_IFNAME": "lo"},
            stdout=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        found = [json.loads(rank.communicate(timeout=800)[0]) for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    for each in found:
        assert each["buckets"] >= 3
        assert each["worst"] < 1e-3
