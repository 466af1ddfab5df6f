"""What tells each framework over which network to talk."""

from ddlbench.launch.network_variables import network_variables


def test_over_ethernet_nothing_is_left_to_any_framework_to_choose():
    assert network_variables("eth0") == {
        "GLOO_SOCKET_IFNAME": "eth0",
        "TP_SOCKET_IFNAME": "eth0",
        "NCCL_SOCKET_IFNAME": "=eth0",
        "NCCL_IB_DISABLE": "1",
        "HOROVOD_GLOO_IFACE": "eth0",
        "DMLC_INTERFACE": "eth0",
    }


def test_over_infiniband_nccl_gets_the_ports_and_all_others_ipoib():
    assert network_variables("ib0", ["mlx5_0:1", "mlx5_1:1"]) == {
        "GLOO_SOCKET_IFNAME": "ib0",
        "TP_SOCKET_IFNAME": "ib0",
        "NCCL_SOCKET_IFNAME": "=ib0",
        "NCCL_IB_HCA": "=mlx5_0:1,mlx5_1:1",
        "HOROVOD_GLOO_IFACE": "ib0",
        "DMLC_INTERFACE": "ib0",
    }
