"""How a TensorFlow process joins its group: its devices, threads, addresses and memory."""

import tensorflow as tf

from ddlbench.protocol.messages import Assignment, TrainingPoint
from ddlbench.system.calls import set_malloc_arenas, set_thread_stack_size
from ddlbench.workers.common.devices import on_gpu
from ddlbench.workers.common.memory import activation_bytes, parameter_bytes, refuse
from ddlbench.workers.tensorflow.gpu import choose, options

_STACK_BYTES = 1 << 20
_PARAMETERS, _ACTIVATIONS = 15, 5  # how many times a step has them in memory, as measured
_SIGNS = ("could not create a primitive", "could not execute a primitive")  # oneDNN has no memory


def spare_memory() -> None:
    """Limit the memory of TensorFlow's hundred threads.

    Their stacks become 1 MiB each; the kernel would count 8 MiB. One heap serves all threads, because memory that a
    thread has freed in its own heap cannot be used by the others. With a heap for each thread, AlexNet's workers took
    3.7 to 4.1 GB after some repetitions; with one heap they take 3.5 to 3.9 GB.
    """
    set_thread_stack_size(_STACK_BYTES)
    set_malloc_arenas(1)


def refuse_what_cannot_fit(point: TrainingPoint, world_size: int, used_bytes: int) -> None:
    """Refuse a point of which a step is likely to need more memory than this process may have.

    Trying it is not possible: when oneDNN has no memory the process crashes.

    Args:
        point: its model, image shape and global batch size.
        world_size: how many workers share the batch.
        used_bytes: what the process uses without the step.

    Raises:
        MemoryError: it cannot fit.
    """
    name, shape = point.key
    images = -(-point.batch_size // world_size)
    step = _PARAMETERS * parameter_bytes(name, shape) + _ACTIVATIONS * activation_bytes(name, shape, images)
    refuse(used_bytes + step, "TensorFlow and a step take")


def is_out_of_memory(error: Exception) -> bool:
    """Tell whether an error reports a lack of memory; the framework has several texts for that.

    Args:
        error: raised by TensorFlow or Python.

    Returns:
        True for a lack of the host's memory or the GPU's.
    """
    return isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError)) or any(
        sign in str(error) for sign in _SIGNS
    )


def use(assignment: Assignment) -> None:
    """Set devices and threads; this must come before TensorFlow starts any thread.

    Args:
        assignment: of this process.
    """
    spare_memory()
    choose(assignment)
    tf.config.threading.set_intra_op_parallelism_threads(assignment.threads)
    tf.config.threading.set_inter_op_parallelism_threads(assignment.threads)


def threads(assignment: Assignment) -> tf.compat.v1.ConfigProto:
    """Configure a `tf.distribute.Server`, with as many threads that wait as TensorFlow's tutorial requires.

    With fewer threads a server hangs: one that waits for another's tensors occupies the thread that would answer it.

    Args:
        assignment: of this process.

    Returns:
        Threads and GPU options; without a GPU the server sees none.
    """
    return tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=assignment.threads,
        inter_op_parallelism_threads=max(assignment.threads, assignment.world_size + 1),
        **({"gpu_options": options(assignment)} if on_gpu(assignment) else {"device_count": {"GPU": 0}}),
    )


def resolver(assignment: Assignment, *roles: str) -> tf.distribute.cluster_resolver.ClusterResolver:
    """Describe the cluster to a TensorFlow strategy: the addresses of all processes, and which one this is.

    Args:
        assignment: of this process.
        *roles: of the processes that take part.

    Returns:
        A resolver for gRPC.
    """
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({role: assignment.cluster[role] for role in roles}),
        task_type=assignment.role,
        task_id=assignment.index,
        rpc_layer="grpc",
        num_accelerators={"GPU": 1} if on_gpu(assignment) else None,  # the resolver does not detect GPUs
    )


def start_server(assignment: Assignment) -> tf.distribute.Server:
    """Start TensorFlow's server in this process; it runs what connected processes send.

    Args:
        assignment: of this process.

    Returns:
        The server, which listens already.
    """
    spare_memory()
    cluster = tf.train.ClusterSpec(assignment.cluster)
    return tf.distribute.Server(
        cluster, assignment.role, assignment.index, protocol="grpc", config=threads(assignment)
    )
