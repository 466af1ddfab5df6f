"""Transports to another host: which can be measured on this machine, over which devices, or why not."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from ddlbench.network.hca import SYS, Port, ports
from ddlbench.network.interfaces import Interface, interfaces
from ddlbench.probes import perftest, ucx

_TIMEOUT_S = 20


class Transport(NamedTuple):
    """A transport; `devices` are what it can be measured over, `reason` is what is missing if it is not available."""

    name: str
    available: bool
    devices: tuple[str, ...]
    reason: str | None


def transports(sys: Path = SYS) -> list[Transport]:
    """Find out whether TCP, UCX and verbs are available on this machine.

    Args:
        sys: where sysfs is mounted.

    Returns:
        One each, in this order.
    """
    return [_tcp(interfaces(sys)), _ucx(), verbs(ports(sys), _missing(perftest.PROGRAMS), sys)]


def _tcp(here: Sequence[Interface]) -> Transport:
    """Describe the transport of the point-to-point probe: any interface with an address, Ethernet and IPoIB alike."""
    devices = tuple(each.name for each in here if each.addresses and each.state != "down")
    return Transport(
        "tcp", bool(devices), devices, None if devices else "no interface that is up has an address"
    )


def _ucx() -> Transport:
    """Describe what UCX itself finds."""
    if missing := _missing([ucx.PROGRAM, ucx.INFORMATION]):
        return Transport("ucx", False, (), _how_to_install(missing, ucx.PACKAGE))
    command = [ucx.INFORMATION, "-d"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Transport("ucx", False, (), f"{ucx.INFORMATION} failed: {error}")
    devices = tuple(ucx.devices(answer.stdout))
    return Transport("ucx", bool(devices), devices, None if devices else "UCX finds no network here")


def verbs(rdma: Sequence[Port], missing: Sequence[str], sys: Path = SYS) -> Transport:
    """Describe RDMA by the verbs.

    Args:
        rdma: this machine's RDMA ports.
        missing: perftest's programs that are not installed.
        sys: where sysfs is mounted.

    Returns:
        The transport, available over the active ports if no program is missing.
    """
    devices = tuple(port.name for port in rdma if port.state == "ACTIVE")
    reasons = [_how_to_install(missing, perftest.PACKAGE)] if missing else []
    if not rdma:
        folder = sys / "class/infiniband"
        why = "is empty" if folder.is_dir() else "is not there: the kernel has no RDMA driver loaded"
        reasons.append(f"no RDMA device ({folder} {why})")
    elif not devices:
        states = ", ".join(f"{port.name} is {port.state}" for port in rdma)
        reasons.append(f"no active RDMA port ({states})")
    available = not reasons
    return Transport("verbs", available, devices if available else (), "; ".join(reasons) or None)


def _missing(programs: Sequence[str]) -> list[str]:
    return [program for program in programs if not shutil.which(program)]


def _how_to_install(missing: Sequence[str], package: str) -> str:
    verb = "is" if len(missing) == 1 else "are"
    return f"{' and '.join(missing)} {verb} not installed (on Debian: apt-get install {package})"
