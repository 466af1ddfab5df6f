"""What tells a member which GPU is its own, and NCCL what it may use."""

import pytest

from ddlbench.launch.gpu_variables import gpu_variables
from ddlbench.system.gpu_shares import Gpu, share_out

A100 = Gpu(0, "GPU-5a", "NVIDIA A100", 80 * 10**9)
(ALONE,) = share_out([A100], 1)
SHARED, _ = share_out([A100], 2)
OWN = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "GPU-5a"}
BY_SOCKETS = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket"}


@pytest.mark.parametrize("share", [ALONE, SHARED])
def test_on_emulated_hosts_nccl_has_nothing_but_the_links(share):
    found = gpu_variables(share, computes_on_gpu=True, host="h2", fabric="emulated")
    assert found == OWN | BY_SOCKETS | {"NCCL_HOSTID": "h2"}


def test_on_one_real_host_nccl_is_free():
    assert gpu_variables(ALONE, computes_on_gpu=True, host="h1", fabric="loopback") == OWN


def test_workers_of_one_real_host_that_share_a_gpu_are_hosts_of_their_own_to_nccl_which_refuses_them_else():
    found = gpu_variables(SHARED, computes_on_gpu=True, host="h1", fabric="loopback")
    assert found == OWN | {"NCCL_HOSTID": "h1"}


def test_on_a_node_the_gpu_is_the_one_that_its_scheduler_has_chosen():
    found = gpu_variables(None, computes_on_gpu=True, host="node3", fabric="infiniband")
    assert found == {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}


@pytest.mark.parametrize("fabric", ["emulated", "loopback", "ethernet"])
def test_who_computes_on_no_gpu_sees_none(fabric):
    assert gpu_variables(None, computes_on_gpu=False, host="h1", fabric=fabric) == {
        "CUDA_VISIBLE_DEVICES": ""
    }
