"""What tells a member which GPU is its own, and NCCL what it may use: environment variables, set before CUDA starts."""

from ddlbench.protocol.messages import GpuShare


def gpu_variables(share: GpuShare | None, *, computes_on_gpu: bool, host: str, fabric: str) -> dict[str, str]:
    """The variables of one member. share: of this machine's GPUs; None on a node, whose scheduler has chosen already.

    Who computes on none sees none: PyTorch's RPC would start CUDA wherever it finds a GPU. Emulated hosts are one
    machine to NCCL, which would go around their links by shared memory or from GPU to GPU, and refuses two workers of
    a host on one GPU; so each is a host of its own to it, and has sockets only. On the loopback it is left free, unless
    workers share a GPU.
    """
    if not computes_on_gpu:
        return {"CUDA_VISIBLE_DEVICES": ""}
    found = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if share:
        found["CUDA_VISIBLE_DEVICES"] = share.uuid
    if fabric == "emulated":
        found |= {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket"}
    if fabric == "emulated" or (share and share.workers > 1):
        found["NCCL_HOSTID"] = host
    return found
