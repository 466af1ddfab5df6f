"""What a member computes on, and what it says where that cannot be: a text for a person, with what to do."""

from ddlbench.protocol.messages import Assignment


def on_gpu(assignment: Assignment) -> bool:
    """Whether this member computes on a GPU: on `devices: gpu` workers do, servers and coordinators do not."""
    return assignment.devices == "gpu" and assignment.role == "worker"


def shared_memory_bytes(assignment: Assignment) -> int | None:
    """How much of its GPU's memory this worker may take; None where it has the GPU for itself."""
    share = assignment.gpu
    return share.memory_bytes if share and share.workers > 1 else None


def not_built_for_gpus(framework: str, version: str, environment: str) -> str:
    """What to say where a framework is there without CUDA; `environment` is the configuration's name of it."""
    return (
        f"devices: gpu needs {framework} built for CUDA, and this is {version}, which is not. In the configuration:\n"
        f"  environments: {{{environment}: {{requirements: containers/{environment}/requirements-cuda.txt}}}}"
    )


def no_gpu_found(framework: str, built_for: str) -> str:
    """What to say where a framework is built for CUDA and finds no GPU."""
    return (
        f"devices: gpu: {framework}, built for {built_for}, finds no GPU that it can use. `nvidia-smi` shows the GPUs "
        "and for which CUDA the driver is; a container has them where NVIDIA's container toolkit is installed"
    )
