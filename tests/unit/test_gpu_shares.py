"""Which GPU each worker gets, and how much of its memory."""

from dataclasses import replace

import pytest

from ddlbench.errors import ConfigError
from ddlbench.network.hosts import place
from ddlbench.plan import Point
from ddlbench.runs.placement import on_gpus
from ddlbench.system.gpu_shares import Gpu, share_out, visible

GB = 10**9
GPUS = [Gpu(index, f"GPU-{index}{index}a{index}", "NVIDIA A100", 80 * GB) for index in range(4)]
POINT = Point(
    framework="torch", strategy="ring_allreduce", runtime="bare", devices="gpu", fabric="emulated", model="mlp",
    dataset="digits", image_shape=(28, 28, 1), batch_size=128, workers=2, host_count=2, vcpus=1, memory_gb=4.0,
    bandwidth_mbit=400.0, latency_ms=0.0, loss_percent=0.0, congestion_control="cubic", learning_rate=0.01,
    momentum=0.0, epochs=0, steps_per_epoch=None, seed=1,
)  # fmt: skip


@pytest.mark.parametrize(
    ("gpus", "workers", "indices", "together"),
    [
        (1, 1, [0], [1]),
        (4, 2, [0, 1], [1, 1]),
        (4, 4, [0, 1, 2, 3], [1, 1, 1, 1]),
        (1, 3, [0, 0, 0], [3, 3, 3]),
        (2, 3, [0, 1, 0], [2, 1, 2]),
        (2, 4, [0, 1, 0, 1], [2, 2, 2, 2]),
        (0, 2, [], []),
    ],
)
def test_each_worker_has_a_gpu_of_its_own_while_there_are_enough_and_else_shares_one(
    gpus, workers, indices, together
):
    shares = share_out(GPUS[:gpus], workers)
    assert [share.index for share in shares] == indices
    assert [share.uuid for share in shares] == [GPUS[index].uuid for index in indices]
    assert [share.workers for share in shares] == together


@pytest.mark.parametrize("workers", [1, 2, 3, 8])
def test_workers_that_share_a_gpu_fit_into_its_memory_together_with_room_for_what_is_not_theirs(workers):
    shares = share_out(GPUS[:1], workers)
    taken = sum(share.memory_bytes for share in shares)
    assert taken == 80 * GB if workers == 1 else 0.89 * 80 * GB < taken <= 0.9 * 80 * GB


@pytest.mark.parametrize(
    ("named", "indices"),
    [
        (None, [0, 1, 2, 3]),
        ("", []),
        ("2,0", [2, 0]),
        ("GPU-11a1, GPU-3", [1, 3]),
        ("1,7,2", [1]),  # the first that is none ends the list
        ("NoDevFiles", []),
        ("GPU-", []),  # which one?
        ("1,1", [1]),
    ],
)
def test_cuda_visible_devices_is_read_as_cuda_reads_it(named, indices):
    assert [gpu.index for gpu in visible(GPUS, named)] == indices


def placed(count: int, cores: int):
    return place(
        count,
        vcpus=1,
        memory_gb=4,
        host_count=count,
        cores=list(range(cores)),
        available_memory_bytes=64 * GB,
    )


def test_in_real_time_every_worker_is_placed_on_its_gpu():
    found = on_gpus(placed(2, cores=2), POINT, GPUS[:1])
    assert [(share.uuid, share.workers) for share in found.gpus] == [(GPUS[0].uuid, 2)] * 2
    assert found.hosts == placed(2, cores=2).hosts


def test_a_server_on_a_host_of_its_own_needs_no_gpu():
    with_server = replace(POINT, strategy="parameter_server_sync", host_count=3)
    assert len(on_gpus(placed(3, cores=4), with_server, GPUS).gpus) == 2


def test_gpus_are_refused_where_time_must_be_dilated_and_it_is_said_what_is_possible():
    with pytest.raises(ConfigError) as caught:
        on_gpus(placed(4, cores=2), replace(POINT, workers=4, host_count=4), GPUS)
    assert str(caught.value) == (
        "devices: gpu cannot be had in dilated time, which slows processors and links down and no GPU: 4 hosts of "
        "1 vCPU need 4 cores of their own, and have 2 (possible are dilation auto or 1, and fewer hosts or vcpus)"
    )


def test_without_gpus_nothing_is_refused_as_nothing_is_measured():
    assert on_gpus(placed(4, cores=2), POINT, []).gpus == ()
