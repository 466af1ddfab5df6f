"""How a TensorFlow process joins its group: its devices, threads, addresses and memory."""

import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.tsl.protobuf import coordination_config_pb2

from ddlbench.protocol.messages import Assignment, TrainingPoint
from ddlbench.system.calls import set_malloc_arenas, set_thread_stack_size
from ddlbench.workers.common.devices import on_gpu
from ddlbench.workers.common.footprint.footprint import FOOTPRINTS, Training, heap_bytes
from ddlbench.workers.common.memory import refuse
from ddlbench.workers.tensorflow.gpu import choose, options

_STACK_BYTES = 1 << 20
_SIGNS = ("could not create a primitive", "could not execute a primitive")  # oneDNN's errors without memory


def spare_memory() -> None:
    """Limit the memory of TensorFlow's hundred threads.

    Their stacks are 1 MiB; the kernel would count 8 MiB for each. One heap serves all threads, because memory that a
    thread has freed in a heap of its own is lost to the others. With a heap for each thread, AlexNet's workers took 3.7
    to 4.1 GB after some repetitions; with one heap they take 3.5 to 3.9 GB.
    """
    set_thread_stack_size(_STACK_BYTES)
    set_malloc_arenas(1)


def refuse_what_cannot_fit(worker: str, point: TrainingPoint, world_size: int, used_bytes: int) -> None:
    """Predict the memory of a training step, and refuse a point that exceeds this process's limit.

    Trying the step instead is not safe: without memory for oneDNN the process crashes.

    Args:
        worker: Its kind, a name of `workers.modules.MODULES`.
        point: Its batch size is that of all workers together.
        world_size: How many workers share a batch.
        used_bytes: Memory that the process took before it had models.

    Raises:
        MemoryError: If the prediction exceeds RLIMIT_DATA.
    """
    training = Training(
        model=point.model,
        shape=point.image_shape,
        images=-(-point.batch_size // world_size),
        workers=world_size,
        models=(point.key,),
        has_momentum=point.momentum > 0,
        data_bytes=0,
    )
    refuse(used_bytes + heap_bytes(FOOTPRINTS[worker, "worker"], training), "TensorFlow and a step take")


def is_out_of_memory(error: Exception) -> bool:
    """Check whether an error means that memory could not be allocated; TensorFlow has several such errors.

    Args:
        error: As TensorFlow raised it.

    Returns:
        True for errors of memory, of the host or of a GPU.
    """
    return isinstance(error, (tf.errors.ResourceExhaustedError, MemoryError)) or any(
        sign in str(error) for sign in _SIGNS
    )


def use(assignment: Assignment) -> None:
    """Configure TensorFlow for the assigned devices and threads, before it has started any thread.

    Args:
        assignment: Of this process; its `threads` are set both within and between operations.
    """
    spare_memory()
    choose(assignment)
    tf.config.threading.set_intra_op_parallelism_threads(assignment.threads)
    tf.config.threading.set_inter_op_parallelism_threads(assignment.threads)


def threads(assignment: Assignment) -> tf.compat.v1.ConfigProto:
    """Configure a `tf.distribute.Server`, or a session on it, like `use`, but with more threads between operations.

    TensorFlow's tutorial asks for at least one more than there are workers. With fewer a server hangs: an operation
    that waits for another's tensors holds the thread that would answer that one.

    Args:
        assignment: Of this process.

    Returns:
        The numbers of threads, and the GPU's options or that no GPU is used.
    """
    return tf.compat.v1.ConfigProto(
        intra_op_parallelism_threads=assignment.threads,
        inter_op_parallelism_threads=max(assignment.threads, assignment.world_size + 1),
        **({"gpu_options": options(assignment)} if on_gpu(assignment) else {"device_count": {"GPU": 0}}),
    )


def resolver(assignment: Assignment, *roles: str) -> tf.distribute.cluster_resolver.ClusterResolver:
    """Describe the group's processes to TensorFlow, by their hosts' addresses.

    Args:
        assignment: Of this process; its `cluster` has the addresses.
        roles: Of the processes that take part, such as `worker`, `ps` and `chief`.

    Returns:
        A resolver that knows all processes of these roles, and which of them this one is.
    """
    return tf.distribute.cluster_resolver.SimpleClusterResolver(
        tf.train.ClusterSpec({role: assignment.cluster[role] for role in roles}),
        task_type=assignment.role,
        task_id=assignment.index,
        rpc_layer="grpc",
        num_accelerators={"GPU": 1} if on_gpu(assignment) else None,  # it detects no GPUs itself
    )


def wait_for_silent_members(assignment: Assignment) -> None:
    """Let TensorFlow take no member for dead before the group does; `MultiWorkerMirroredStrategy` keeps to it.

    By default it does after ten seconds without a heartbeat. In dilated time the bytes of a large model take longer,
    and heartbeats wait behind them.

    Args:
        assignment: Of this process; its `timeout_s` counts.
    """
    context.context().configure_coordination_service(
        service_type="standalone",
        service_leader="/job:worker/replica:0/task:0",
        heartbeat_timeout_in_ms=int(1000 * assignment.timeout_s),
        coordinated_jobs=[
            coordination_config_pb2.CoordinatedJob(name="worker", num_tasks=len(assignment.cluster["worker"]))
        ],
    )


def start_server(assignment: Assignment) -> tf.distribute.Server:
    """Start TensorFlow's server in this process; it runs the operations that other processes send.

    Args:
        assignment: Of this process.

    Returns:
        The server, over gRPC; it serves in threads of its own.
    """
    spare_memory()
    cluster = tf.train.ClusterSpec(assignment.cluster)
    return tf.distribute.Server(
        cluster, assignment.role, assignment.index, protocol="grpc", config=threads(assignment)
    )
