"""What a member computes on, and the messages where that cannot be: texts for a person, with what to do."""

from ddlbench.protocol.messages import Assignment


def on_gpu(assignment: Assignment) -> bool:
    """Tell whether a member computes on a GPU.

    Args:
        assignment: of the member.

    Returns:
        True for workers with `devices: gpu`; servers and coordinators compute on the CPU.
    """
    return assignment.devices == "gpu" and assignment.role == "worker"


def shared_memory_bytes(assignment: Assignment) -> int | None:
    """Find how much of its GPU's memory a worker may take.

    Args:
        assignment: of the worker.

    Returns:
        Bytes; None if it has the GPU for itself.
    """
    share = assignment.gpu
    return share.memory_bytes if share and share.workers > 1 else None


def not_built_for_gpus(framework: str, version: str, environment: str) -> str:
    """Write the message for a framework that is installed without CUDA.

    Args:
        framework: its name in prose.
        version: of the installed build.
        environment: the configuration's name of its environment.

    Returns:
        What is wrong, and what to write into the configuration.
    """
    return (
        f"devices: gpu needs {framework} built for CUDA, and this is {version}, which is not. In the configuration:\n"
        f"  environments: {{{environment}: {{requirements: containers/{environment}/requirements-cuda.txt}}}}"
    )


def no_gpu_found(framework: str, built_for: str) -> str:
    """Write the message for a framework that is built for CUDA and finds no GPU.

    Args:
        framework: its name in prose, with the version.
        built_for: the version of CUDA, in words.

    Returns:
        What is wrong, and where to look.
    """
    return (
        f"devices: gpu: {framework}, built for {built_for}, finds no GPU that it can use. `nvidia-smi` shows the GPUs "
        "and for which CUDA the driver is; a container has them where NVIDIA's container toolkit is installed"
    )
