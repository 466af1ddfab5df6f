"""Replayed compute by real workers of each framework: its own machinery and bytes, in the time that a device takes."""

import json
import subprocess
from collections.abc import Callable
from typing import Any

import pytest

from ddlbench.devices.step_division import parameter_arrays
from ddlbench.plan.catalogue import FRAMEWORKS
from ddlbench.system.package import package_root
from ddlbench.workers.common.memory import parameter_bytes
from ddlbench.workers.strategies import STRATEGIES
from tests.support.sandboxes import run_inside
from tests.support.selection import needing_environments

# For a byte of gradients: the last may be on their way, and each of a step's messages has a header.
LEAST, MOST = 0.99, 1.05
SMALL = (28, 28, 1)
MODEL = "cnn"
REPLAYED = [
    (name, strategy)
    for name, framework in FRAMEWORKS.items()
    for strategy in framework.replays
    if strategy != "hierarchical_allreduce"  # it has hosts of several workers: test_shared_cards
]
RINGS = [each for each in REPLAYED if not STRATEGIES[each[1]].servers]
SERVED = [each for each in REPLAYED if STRATEGIES[each[1]].servers]


def step(kind: str = "gpu", total_ms: float = 3.0) -> dict[str, Any]:
    """A point whose step takes so long on the device, the same for each parameter array."""
    arrays = parameter_arrays(MODEL, SMALL)
    return {
        "model": MODEL,
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
def run(tmp_path, request) -> Callable[..., Any]:
    """A function of `inside`, with the environment of the framework that is asked for."""

    def function_of_inside(function: str, framework: str, **more: Any) -> Any:
        environment = request.getfixturevalue(f"{FRAMEWORKS[framework].environment}_environment")
        given = {"python": environment["python"], "datasets": {}, "replayed": True, "framework": framework}
        return run_inside(tmp_path, function, **given, **more)

    return function_of_inside


@pytest.mark.parametrize(("framework", "strategy"), needing_environments(RINGS))
def test_a_replayed_ring_moves_two_n_minus_one_over_n_of_the_model(run, framework, strategy, monkeypatch):
    monkeypatch.setenv(
        "HOROVOD_CYCLE_TIME", "100"
    )  # ms: its ranks talk once a cycle for as long as a step lasts
    workers, share = 3, 0.5 if strategy.endswith("_fp16") else 1.0
    found = run("bytes_of_a_step", framework, strategy=strategy, point=step(), workers=workers, steps=4)
    expected = 2 * (workers - 1) / workers * share * parameter_bytes(MODEL, SMALL)
    for sent in found["sent"]:
        assert LEAST * expected < sent < MOST * expected


@pytest.mark.parametrize(("framework", "strategy"), needing_environments(SERVED))
def test_replayed_workers_send_all_gradients_to_their_server_and_take_all_parameters_from_it(
    run, framework, strategy
):
    given_out = (framework, strategy) == ("tensorflow", "parameter_server_async")
    workers = (
        1 if given_out else 2
    )  # TensorFlow gives steps to whoever is free, so each of two makes any number
    found = run(
        "bytes_of_a_step",
        framework,
        strategy=strategy,
        point=step(),
        workers=workers,
        servers=1,
        steps=4,
    )
    model = parameter_bytes(MODEL, SMALL)
    for moved in found.values():
        *of_workers, of_server = moved
        for each in (*of_workers, of_server / workers):
            assert LEAST * model < each < MOST * model


@pytest.mark.parametrize(("framework", "strategy"), needing_environments(REPLAYED))
def test_gradients_are_added_up_over_all_workers_and_steps_take_at_least_the_devices_time(
    run, framework, strategy
):
    workers = 3
    answers = run(
        "trainings",
        framework,
        strategy=strategy,
        workers=workers,
        points=[step(kind, total_ms=60.0) for kind in ("gpu", "cpu")],
    )
    for (
        answer
    ) in answers:  # each member has checked sums in concluding, and in each step that no part is left out
        assert all(answer["fits"])
        times = [times for member in answer["ranks"] for times in member["step_times_ms"]]
        assert len(times) == workers
        assert min(map(min, times)) >= 60
        assert not any("parameters_sha256" in member for member in answer["ranks"])


@pytest.mark.parametrize(
    ("framework", "strategy", "workers"),
    needing_environments(
        [
            ("torch", "ring_allreduce", 8),
            ("torch", "parameter_server_sync", 3),
            ("tensorflow", "ring_allreduce", 3),
            ("mxnet", "parameter_server_sync", 3),
        ]
    ),
)
def test_a_worker_that_dies_ends_its_group_with_its_name(run, framework, strategy, workers):
    told = run(
        "death", framework, strategy=strategy, workers=workers, point=step(total_ms=600.0), killed=workers - 1
    )
    assert told.startswith(f"rank {workers - 1} on host h{workers} died (SIGKILL) while training")


def test_a_cpus_compute_is_burnt(run):
    """That a GPU's is slept is `test_replayed_devices`'s."""
    (answer,) = run("trainings", "torch", workers=1, points=[step("cpu", total_ms=300.0)])
    # Three steps of 0.3 s; the kernel counts in hundredths of a second.
    assert answer["ranks"][0]["computed_s"] > 0.8


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
        if name == "replayed":
            network.compute.optimizer()
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
        timeout=800,
        check=True,
    )
    found = json.loads(done.stdout)
    assert len(found["real"]) > 3
    assert found["replayed"] == found["real"]
