"""MXNet's parameter server (ps-lite) with workers whose compute is replayed; scheduler and server are the real ones.

python -m ddlbench.workers.common.fork_server ddlbench.workers.mxnet.parameter_server_replay
"""

from collections.abc import Callable

from ddlbench.protocol.messages import Assignment
from ddlbench.workers.common.control import Control
from ddlbench.workers.mxnet.parameter_server import run


def main(address: str, rank: int) -> None:
    """Run this member of a worker group until the supervisor sends `Stop`.

    Args:
        address: Of the control socket (see `protocol.channel.connect`).
        rank: Of this member.
    """
    run(address, rank, _import_work)


def _import_work() -> Callable[[Control, Assignment], None]:
    from ddlbench.workers.mxnet.replay import work

    return work
