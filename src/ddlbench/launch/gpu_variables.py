"""Environment variables that say which GPU a member uses, and what NCCL may use; they are set before CUDA starts."""

from ddlbench.protocol.messages import GpuShare

_SOCKETS_ONLY = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_NET": "Socket"}


def gpu_variables(
    share: GpuShare | None, *, computes_on_gpu: bool, host: str, fabric: str, bound_to: str | None = None
) -> dict[str, str]:
    """Choose the variables of one member.

    A member that computes on no GPU sees none: PyTorch's RPC would start CUDA wherever it finds a GPU. On the loopback
    NCCL's choice is free, unless workers share a GPU: it refuses two workers of a host on one.

    Args:
        share: of this machine's GPUs; None for a node of a cluster, whose scheduler has chosen the GPU.
        computes_on_gpu: whether the member does.
        host: the name of its host.
        fabric: that connects the hosts.
        bound_to: the GPU that this one of a node's workers is bound to.

    Returns:
        Values by name.
    """
    if not computes_on_gpu:
        return {"CUDA_VISIBLE_DEVICES": ""}
    found = {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    if share:
        found["CUDA_VISIBLE_DEVICES"] = share.uuid
    if bound_to:
        found["CUDA_VISIBLE_DEVICES"] = bound_to
    if fabric == "emulated":
        found |= nccl_on_links(host)
    elif share and share.workers > 1:
        found["NCCL_HOSTID"] = host
    return found


def nccl_on_links(host: str) -> dict[str, str]:
    """Choose the variables that keep NCCL on the links of an emulated host.

    For NCCL all emulated hosts are one machine: it would bypass their links by shared memory or from GPU to GPU. So it
    is given each as a host of its own, and has sockets only.

    Args:
        host: its name.

    Returns:
        Values by name.
    """
    return {**_SOCKETS_ONLY, "NCCL_HOSTID": host}
