"""Replayed compute by real workers: DDP's own buckets and bytes, on layers that take a device's time."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from ddlbench.devices.division import parameter_arrays
from ddlbench.system.package import package_root
from ddlbench.workers.common.memory import parameter_bytes
from tests.support.sandboxes import run_inside

WIRE = 1.04  # bytes of frames of 1,514 bytes with their acknowledgements, for a byte of data
SMALL = (32, 32, 3)


def step(model: str, kind: str = "gpu", total_ms: float = 3.0) -> dict[str, Any]:
    """A point whose step takes so long on the device, the same for each parameter array."""
    arrays = parameter_arrays(model, SMALL)
    return {
        "model": model,
        "image_shape": list(SMALL),
        "dataset": "synthetic",
        "batch_size": 8,
        "seed": 1,
        "steps": 3,
        "replay": {
            "kind": kind,
            "forward_ms": total_ms / 3,
            "backward_ms": [total_ms / 3 / arrays] * arrays,
            "optimizer_ms": total_ms / 3,
        },
    }


@pytest.fixture
def run(tmp_path, torch_environment) -> Callable[..., Any]:
    """A function of `inside`, with PyTorch."""
    return lambda function, **more: run_inside(
        tmp_path, function, python=torch_environment["python"], datasets={}, replayed=True, **more
    )


@pytest.mark.parametrize(("strategy", "share"), [("ring_allreduce", 1.0), ("ring_allreduce_fp16", 0.5)])
@pytest.mark.parametrize("workers", [2, 3])
def test_a_replayed_ring_moves_two_n_minus_one_over_n_of_the_model(run, strategy, share, workers):
    found = run("bytes_of_a_step", strategy=strategy, point=step("resnet18"), workers=workers, steps=4)
    expected = 2 * (workers - 1) / workers * share * parameter_bytes("resnet18", SMALL)
    for sent in found["sent"]:
        assert expected < sent < WIRE * expected


@pytest.mark.parametrize("kind", ["gpu", "cpu"])
def test_gradients_are_averaged_and_steps_take_at_least_the_devices_time(run, kind):
    (found,) = run("trainings", workers=3, points=[step("resnet18", kind, total_ms=30.0)])
    assert found["fits"] == [True] * 3
    for rank in found["ranks"]:  # each has checked, in concluding, that its gradients are the mean
        assert min(rank["step_times_ms"][0]) >= 30
        assert "parameters_sha256" not in rank


def test_a_cpus_compute_is_burnt_and_a_gpus_is_not(run):
    burnt, waited = (
        run("trainings", workers=1, points=[step("resnet18", kind, total_ms=300.0)])[0]["ranks"][0][
            "computed_s"
        ]
        for kind in ("cpu", "gpu")
    )
    assert burnt > 0.9 > 0.45 > waited


BUCKETS = """
import json, os, sys
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel
from ddlbench.workers.torch.models import MODELS
from ddlbench.workers.torch.replayed_network import Network, layers_with_parameters

torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=f"file://{sys.argv[1]}", rank=0, world_size=1)
shape = (32, 32, 3)
real = MODELS["resnet18"](shape)
network = Network("resnet18", shape)
found = {}
for name, module, inputs in (("real", real, [torch.zeros(2, 3, 32, 32)]), ("replayed", network, [])):
    order = []
    model = DistributedDataParallel(module, gradient_as_bucket_view=True, bucket_cap_mb=5, broadcast_buffers=False)
    of_layer = {id(each): number for number, layer in enumerate(layers_with_parameters(real)) for each in layer}
    parameters = zip(module.parameters(), real.parameters(), strict=True)
    layers = {id(each): of_layer[id(its)] for each, its in parameters}
    def hook(_, bucket):
        order.append([layers[id(each)] for each in bucket.parameters()])
        return allreduce_hook(dist.group.WORLD, bucket)
    model.register_comm_hook(None, hook)
    for _ in range(3):
        order.clear()
        if name == "replayed":
            network.fill_gradients(None)
        model(*inputs).sum().backward()
    found[name] = order
print(json.dumps(found))
sys.stdout.flush()
os._exit(0)
"""


def test_ddp_makes_the_same_buckets_of_layers_in_the_same_order_as_of_the_real_model(
    torch_environment, tmp_path
):
    done = subprocess.run(
        [torch_environment["python"], "-c", BUCKETS, str(tmp_path / "meeting")],
        env={"PYTHONPATH": package_root(), "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    found = json.loads(done.stdout)
    assert len(found["real"]) > 3
    assert found["replayed"] == found["real"]
