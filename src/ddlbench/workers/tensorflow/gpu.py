"""The GPU of a TensorFlow worker: whether it can be used, the memory that the worker may take, and its libraries."""

import tensorflow as tf

from ddlbench.protocol.messages import Assignment
from ddlbench.workers.common.devices import no_gpu_found, not_built_for_gpus, on_gpu, shared_memory_bytes


def why_not(assignment: Assignment) -> str | None:
    """Check whether this member can use the device that it is assigned.

    Args:
        assignment: Of this process.

    Returns:
        The reason why not, with what to do, for a person; None if it can.
    """
    if not on_gpu(assignment) or tf.config.list_physical_devices("GPU"):
        return None
    if not tf.test.is_built_with_cuda():
        return not_built_for_gpus("TensorFlow", tf.__version__, "tensorflow")
    return no_gpu_found(
        f"TensorFlow {tf.__version__}", f"CUDA {tf.sysconfig.get_build_info()['cuda_version']}"
    )


def choose(assignment: Assignment) -> None:
    """Make the GPU visible to TensorFlow if this member computes on one, and limit its memory.

    Call it before TensorFlow has initialised its devices.

    Args:
        assignment: Of this process. Where several workers share the GPU, it limits the memory to this worker's share;
            otherwise TensorFlow allocates memory as needed.
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
    """Make the GPU options of a `tf.distribute.Server`, with the same limit of memory as `choose` sets.

    Args:
        assignment: Of this process, which computes on a GPU.

    Returns:
        A memory limit in MiB where several workers share the GPU; otherwise growth as needed.
    """
    if not (limit := shared_memory_bytes(assignment)):
        return tf.compat.v1.GPUOptions(allow_growth=True)
    virtual = tf.compat.v1.GPUOptions.Experimental.VirtualDevices(memory_limit_mb=[limit >> 20])
    return tf.compat.v1.GPUOptions(
        experimental=tf.compat.v1.GPUOptions.Experimental(virtual_devices=[virtual])
    )


def versions(assignment: Assignment) -> dict[str, str]:
    """Collect the versions of the libraries that compute.

    Args:
        assignment: Of this process.

    Returns:
        Versions by library: TensorFlow's; on a GPU also those of CUDA and cuDNN that it is built for. TensorFlow does
        not report that of NCCL.
    """
    found = {"tensorflow": tf.__version__}
    if on_gpu(assignment):
        built = tf.sysconfig.get_build_info()
        found |= {"cuda": str(built["cuda_version"]), "cudnn": str(built["cudnn_version"])}
    return found
