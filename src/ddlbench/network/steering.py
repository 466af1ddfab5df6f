"""Which core receives what comes from a host.

A router that receives an interface's trains of segments on whichever core sends them may forward the second before the
first. If one core receives all of them, trains stay in order, and none needs to be split and joined again for that.
"""

import os
from collections.abc import Sequence

from ddlbench.network.ports import Port
from ddlbench.system.calls import open_sysfs
from ddlbench.system.namespaces import entered


def steer(ports: Sequence[Port]) -> bool:
    """Let one core receive all that comes over a link, the cores of this machine by turns.

    Args:
        ports: the ends of all links.

    Returns:
        Whether it is done; False if this user may not, or the kernel cannot (RPS).
    """
    cores = sorted(os.sched_getaffinity(0))
    try:
        for number, port in enumerate(ports):
            with entered(port.router):
                sysfs = open_sysfs()
            try:
                mask = f"{1 << cores[number % len(cores)]:x}".encode()
                _write(f"class/net/{port.name}/queues/rx-0/rps_cpus", mask, sysfs)
            finally:
                os.close(sysfs)
    except OSError:
        return False
    return True


def _write(path: str, value: bytes, folder: int) -> None:
    file = os.open(path, os.O_WRONLY, dir_fd=folder)
    try:
        os.write(file, value)
    finally:
        os.close(file)
