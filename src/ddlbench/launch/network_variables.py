"""What tells each framework over which network to talk: environment variables, from an interface's name."""


def network_variables(interface: str, infiniband_port: str | None = None) -> dict[str, str]:
    """The variables that keep all frameworks on `interface` but TensorFlow, which is told addresses.

    infiniband_port: the one below the interface (`mlx5_0:1`). Without one NCCL is kept off RDMA: it would take any
    adapter that it finds, whatever the interface. `=` has it take the very name, not all that begin with it.
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
