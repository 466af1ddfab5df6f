"""MXNet's parameter server (ps-lite): the workers, the scheduler by which they find the server, and the server.

    python -m ddlbench.workers.common.fork_server ddlbench.workers.mxnet.parameter_server

All members receive commands over the control socket (see `protocol.messages`). Scheduler and server serve the workers
over ps-lite, in MXNet's own loop, and answer the supervisor's commands in a second thread. There is one server, so it
holds every array whole; MXNET_KVSTORE_BIGARRAY_BOUND, above which arrays are divided among servers, changes nothing.
"""

import os
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from importlib.metadata import distributions

from ddlbench.protocol.messages import Assignment
from ddlbench.workers.common.control import Control
from ddlbench.workers.common.service import Idle, commands_of, say_ready, serve

# MXNet takes 1 s of a core to import, once for all members where it may be forked. After a fork its own operators do
# not use OpenMP; so members with several threads import it themselves. So do members with its builds for GPUs
# (mxnet-cu112): CUDA, if the import starts it, does not survive a fork.
if os.environ.get("OMP_NUM_THREADS") == "1" and any(distributions(name="mxnet")):
    import_module("mxnet")


def variables(assignment: Assignment) -> dict[str, str]:
    """Collect the environment variables that configure ps-lite.

    Set them after the import of MXNet, which would not return in a process whose role is not `worker`.

    Args:
        assignment: Of this process; its `cluster` has one scheduler.

    Returns:
        Values by variable.
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
    """Bind all threads to this host's cores: MXNet starts some while it is forked, before the cores are chosen."""
    for thread in os.listdir("/proc/self/task"):
        os.sched_setaffinity(int(thread), os.sched_getaffinity(0))


def serve_workers(control: Control) -> None:
    """Run the role in DMLC_ROLE, scheduler or server, and answer the supervisor in a second thread.

    Args:
        control: The connection to the supervisor.
    """
    import mxnet

    def end(error: "sys.UnraisableHookArgs") -> None:
        sys.__unraisablehook__(error)
        os._exit(1)

    sys.unraisablehook = end  # the server's optimizer runs in a callback, after whose errors Python goes on
    say_ready(control, {"mxnet": mxnet.__version__}, reconnects=False)
    threading.Thread(target=serve, args=(control, commands_of(Idle())), daemon=True).start()
    mxnet.kvstore.KVStoreServer(mxnet.kv.create("dist")).run()


def run(address: str, rank: int, import_work: Callable[[], Callable[[Control, Assignment], None]]) -> None:
    """Run a member of a worker group until the supervisor sends `Stop`.

    Args:
        address: Of the control socket (see `protocol.channel.connect`).
        rank: Of this member.
        import_work: Imports MXNet, and gives what a worker then does.
    """
    control = Control(address, rank)
    assignment = control.assignment()
    # By default OpenMP's threads wait actively. They would occupy the cores that MXNet's engine, ps-lite and the
    # server on the last host need: with two threads on two cores a step of mlp takes 72 ms instead of 4 ms.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    work = import_work()  # before MXNet's variables are set
    keep_to_own_cores()
    os.environ.update(variables(assignment))
    if assignment.role == "worker":
        work(control, assignment)
    else:
        serve_workers(control)


def main(address: str, rank: int) -> None:
    """Run this member of a worker group until the supervisor sends `Stop`.

    Args:
        address: Of the control socket (see `protocol.channel.connect`).
        rank: Of this member.
    """
    run(address, rank, _import_work)


def _import_work() -> Callable[[Control, Assignment], None]:
    from ddlbench.workers.mxnet.worker import work

    return work
