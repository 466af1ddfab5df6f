"""MXNet's parameter server (ps-lite): the workers, the scheduler by which they find the server, and the server.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.mxnet.parameter_server

All receive commands over the control socket (see `protocol.messages`). Scheduler and server serve the workers over
ps-lite in MXNet's own loop, and a second thread answers our commands. There is one server, so it holds every array
whole; MXNET_KVSTORE_BIGARRAY_BOUND, above which arrays are divided among servers, changes nothing. If its host shares
a core, the server is not limited to its share: it computes and sends without a moment between them.
"""

import os
import sys
import threading
from importlib import import_module
from importlib.metadata import distributions

from ddlbench.protocol.messages import Assignment
from ddlbench.workers.common.control import Control
from ddlbench.workers.common.service import Idle, commands_of, say_ready, serve

# MXNet takes 1 s of a core to import, once for all members where it may be forked. After a fork, MXNet's own operators
# do not use OpenMP any more; so members with several threads import it each for themselves. So do members with builds
# for GPUs (mxnet-cu112): if the import starts CUDA, that does not survive a fork.
if os.environ.get("OMP_NUM_THREADS") == "1" and any(distributions(name="mxnet")):
    import_module("mxnet")


def variables(assignment: Assignment) -> dict[str, str]:
    """Set out what ps-lite is configured by: environment variables.

    They are set after the import of MXNet, which would not return in a process whose role is not `worker`.

    Args:
        assignment: of this process.

    Returns:
        Values by name.
    """
    (scheduler,) = assignment.cluster["scheduler"]
    host, port = scheduler.rsplit(":", 1)
    return {
        "DMLC_ROLE": assignment.role,
        "DMLC_PS_ROOT_URI": host,
        "DMLC_PS_ROOT_PORT": port,
        "DMLC_NUM_WORKER": str(assignment.world_size),
        "DMLC_NUM_SERVER": str(len(assignment.cluster["server"])),
        "DMLC_NODE_HOST": assignment.address,
        "PORT": assignment.cluster[assignment.role][assignment.index].rsplit(":", 1)[1],
    }


def keep_to_own_cores() -> None:
    """Pin all threads to this host's cores: MXNet starts some when it is forked, before the cores are chosen."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), os.sched_getaffinity(0))


def serve_workers(control: Control) -> None:
    """Run ps-lite's scheduler or server, as DMLC_ROLE says, and answer the supervisor meanwhile.

    Args:
        control: the connection to the supervisor.
    """
    import mxnet

    def end(error: "sys.UnraisableHookArgs") -> None:
        sys.__unraisablehook__(error)
        os._exit(1)

    sys.unraisablehook = end  # errors of the server's optimizer are raised in a callback: Python would go on
    say_ready(control, {"mxnet": mxnet.__version__}, reconnects=False)
    threading.Thread(target=serve, args=(control, commands_of(Idle())), daemon=True).start()
    mxnet.kvstore.KVStoreServer(mxnet.kv.create("dist")).run()


def main(address: str, rank: int) -> None:
    """Serve the supervisor until it sends Stop.

    Args:
        address: of the control socket.
        rank: of this member.
    """
    control = Control(address, rank)
    assignment = control.assignment()
    # Waiting OpenMP threads would occupy the cores that MXNet's engine, ps-lite and the server on the last host need:
    # with two threads on two cores a step of mlp takes 72 ms if they wait actively, and 4 ms if they sleep.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    from ddlbench.workers.mxnet.worker import work  # imports MXNet, and so comes before its variables

    keep_to_own_cores()
    os.environ.update(variables(assignment))
    if assignment.role == "worker":
        work(control, assignment)
    else:
        serve_workers(control)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
