"""Environment variables that keep each framework on one network interface, and NCCL on InfiniBand ports."""

from collections.abc import Sequence


def network_variables(interface: str, infiniband_ports: Sequence[str] = ()) -> dict[str, str]:
    """Choose the variables that keep frameworks on an interface; TensorFlow needs none, as its addresses are given.

    Without an InfiniBand port NCCL must not use RDMA: it would take any adapter that it finds, whatever the interface
    is. `=` makes NCCL take exactly these names, and not all names that begin with them. Of several ports it takes, for
    each GPU, the nearest by PCI Express and NUMA node.

    Args:
        interface: its name.
        infiniband_ports: those that NCCL may use (`mlx5_0:1`); none over Ethernet.

    Returns:
        Values by name.
    """
    rdma = {"NCCL_IB_HCA": f"={','.join(infiniband_ports)}"} if infiniband_ports else {"NCCL_IB_DISABLE": "1"}
    return {
        "GLOO_SOCKET_IFNAME": interface,
        "TP_SOCKET_IFNAME": interface,  # TensorPipe, below PyTorch's RPC
        "NCCL_SOCKET_IFNAME": f"={interface}",
        **rdma,
        "HOROVOD_GLOO_IFACE": interface,
        "DMLC_INTERFACE": interface,
    }
