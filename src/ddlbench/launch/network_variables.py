"""Environment variables that keep each framework on one network interface."""


def network_variables(interface: str, infiniband_port: str | None = None) -> dict[str, str]:
    """Choose the variables that keep frameworks on an interface; TensorFlow needs none, as its addresses are given.

    Without an InfiniBand port NCCL must not use RDMA: it would take any adapter that it finds, whatever the interface
    is. `=` makes NCCL take exactly this name, and not all names that begin with it.

    Args:
        interface: its name.
        infiniband_port: the one below the interface (`mlx5_0:1`); None if there is none.

    Returns:
        Values by name.
    """
    rdma = {"NCCL_IB_HCA": f"={infiniband_port}"} if infiniband_port else {"NCCL_IB_DISABLE": "1"}
    return {
        "GLOO_SOCKET_IFNAME": interface,
        "TP_SOCKET_IFNAME": interface,  # TensorPipe, below PyTorch's RPC
        "NCCL_SOCKET_IFNAME": f"={interface}",
        **rdma,
        "HOROVOD_GLOO_IFACE": interface,
        "DMLC_INTERFACE": interface,
    }
