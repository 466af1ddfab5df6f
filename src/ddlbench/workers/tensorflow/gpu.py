"""The GPU of a TensorFlow worker: whether it can be used, how much of its memory is the worker's, and its libraries."""

import tensorflow as tf

from ddlbench.protocol.messages import Assignment
from ddlbench.workers.common.devices import no_gpu_found, not_built_for_gpus, on_gpu, shared_memory_bytes


def why_not(assignment: Assignment) -> str | None:
    """Check that a member can compute on what its assignment says.

    Args:
        assignment: of the member.

    Returns:
        Why it cannot, for a person; None where it can.
    """
    if not on_gpu(assignment) or tf.config.list_physical_devices("GPU"):
        return None
    if not tf.test.is_built_with_cuda():
        return not_built_for_gpus("TensorFlow", tf.__version__, "tensorflow")
    return no_gpu_found(
        f"TensorFlow {tf.__version__}", f"CUDA {tf.sysconfig.get_build_info()['cuda_version']}"
    )


def choose(assignment: Assignment) -> None:
    """Show TensorFlow a GPU only where a member computes on one.

    The GPU's memory is limited to the member's share; if the member has the GPU for itself, memory is taken as needed.

    Args:
        assignment: of the member.
    """
    if not on_gpu(assignment):
        tf.config.set_visible_devices([], "GPU")
        return
    (gpu, *_) = tf.config.list_physical_devices("GPU")
    tf.config.set_visible_devices([gpu], "GPU")
    if limit := shared_memory_bytes(assignment):
        configuration = tf.config.LogicalDeviceConfiguration(memory_limit=limit >> 20)  # in MiB
        tf.config.set_logical_device_configuration(gpu, [configuration])
    else:
        tf.config.experimental.set_memory_growth(gpu, True)


def options(assignment: Assignment) -> tf.compat.v1.GPUOptions:
    """Make the options of a `tf.distribute.Server` that limit the GPU's memory as `choose` does.

    Args:
        assignment: of a member that computes on a GPU.

    Returns:
        A limit for a member that shares its GPU, else memory that grows as needed.
    """
    if not (limit := shared_memory_bytes(assignment)):
        return tf.compat.v1.GPUOptions(allow_growth=True)
    virtual = tf.compat.v1.GPUOptions.Experimental.VirtualDevices(memory_limit_mb=[limit >> 20])
    return tf.compat.v1.GPUOptions(
        experimental=tf.compat.v1.GPUOptions.Experimental(virtual_devices=[virtual])
    )


def versions(assignment: Assignment) -> dict[str, str]:
    """Find the versions of the libraries that a member computes with; TensorFlow does not report NCCL's.

    Args:
        assignment: of the member.

    Returns:
        By library: `tensorflow`, and on a GPU also `cuda` and `cudnn`, for which it was built.
    """
    found = {"tensorflow": tf.__version__}
    if on_gpu(assignment):
        built = tf.sysconfig.get_build_info()
        found |= {"cuda": str(built["cuda_version"]), "cudnn": str(built["cudnn_version"])}
    return found
