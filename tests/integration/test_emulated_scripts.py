"""Scripts of users on emulated hosts: torchrun's, Horovod's, and a pair of iperf3."""

import csv
import json
from pathlib import Path

import pytest

from ddlbench.files import sha256_file
from tests.support.emulate_command import EMULATE, LINK, lines_of, run
from tests.support.repository import REPOSITORY

pytestmark = [pytest.mark.needs("sandboxes")]

DDP = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(100, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(8, 100)).square().mean().backward()
    optimizer.step()
print(f"{size} ranks agree on {sum(each.abs().sum().item() for each in model.parameters()):.4f}", flush=True)
dist.barrier()
os._exit(0)  # PyTorch 2's interpreter sometimes aborts at its end, while a thread of Gloo's still runs
"""
HOROVOD = """
import horovod.torch as hvd
import torch

for _ in range(2):
    hvd.init()
    total = hvd.allreduce(torch.full((1000,), hvd.rank() + 1.0), op=hvd.Sum)
    print(f"{hvd.size()} ranks, sum {total[0].item():g}")
    hvd.shutdown()
"""
# With --json iperf3 ends with 0, also where nobody listens yet.
IPERF3 = """
if [ $RANK = 0 ]; then exec iperf3 --server --one-off > server.log; fi
until iperf3 --client h1 --time 1 --json > client.log && grep -q sum_received client.log; do sleep 0.2; done
"""


def test_a_script_for_torchrun_trains_on_the_hosts(tmp_path: Path, torch_environment: object) -> None:
    python = str(REPOSITORY / ".environments/torch/bin/python")
    (tmp_path / "train.py").write_text(DDP)
    for launcher in ([], ["-m", "torch.distributed.run"]):
        ended = run(*EMULATE, *LINK, "--", python, *launcher, "train.py", folder=tmp_path)
        assert ended.returncode == 0, ended.stderr
        (first,), (second,) = (lines_of(host, ended.stdout) for host in ("h1", "h2"))
        assert first == second
        assert first.startswith("2 ranks agree on")


def test_a_script_for_horovod_finds_its_peers_again_and_again(
    tmp_path: Path, horovod_environment: object
) -> None:
    python = str(REPOSITORY / ".environments/horovod/bin/python")
    (tmp_path / "train.py").write_text(HOROVOD)
    ended = run(*EMULATE, *LINK, "--", python, "train.py", folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    assert lines_of("h1", ended.stdout) == ["2 ranks, sum 3"] * 2
    assert lines_of("h2", ended.stdout) == ["2 ranks, sum 3"] * 2


@pytest.mark.needs("iperf3")
def test_a_pair_of_iperf3_gets_through_and_the_summary_counts_it(tmp_path: Path) -> None:
    ended = run(*EMULATE, *LINK, "--output", "pair", "--", "sh", "-c", IPERF3, folder=tmp_path)
    assert ended.returncode == 0, ended.stderr
    received = json.loads((tmp_path / "client.log").read_text())["end"]["sum_received"]
    result = json.loads((tmp_path / "pair.json").read_text())
    server, client = result["found"]["hosts"]
    assert client["sent_bytes"] > received["bytes"] > 0
    assert server["received_bytes"] > received["bytes"]
    assert result["found"]["before"]["rate_mbit"] > 0  # how much, the check has judged
    rows = list(csv.DictReader((tmp_path / "pair.csv").read_text().splitlines()))
    assert {row["host"] for row in rows} == {"h1", "h2"}
    assert max(int(row["received_bytes"]) for row in rows) <= server["received_bytes"]
    sidecar = json.loads((tmp_path / "pair.json.prov.json").read_text())
    assert sidecar["sha256"] == sha256_file(tmp_path / "pair.json")
    assert sidecar["parameters"]["link"]["bandwidth_mbit"] == 50
