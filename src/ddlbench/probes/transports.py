"""Ways to send a message to another host: which can be measured here, over which devices, or why not."""

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
    """A transport; `devices` are what it can be measured over, `reason` says what is missing where there is none."""

    name: str
    available: bool
    devices: tuple[str, ...]
    reason: str | None


def transports(sys: Path = SYS) -> list[Transport]:
    """TCP, UCX and verbs on this machine; `sys` is where sysfs is mounted."""
    return [_tcp(interfaces(sys)), _ucx(), verbs(ports(sys), _missing(perftest.PROGRAMS), sys)]


def _tcp(here: Sequence[Interface]) -> Transport:
    """What our own probe uses: any interface with an address, Ethernet and IPoIB alike."""
    devices = tuple(each.name for each in here if each.addresses and each.state != "down")
    return Transport(
        "tcp", bool(devices), devices, None if devices else "no interface that is up has an address"
    )


def _ucx() -> Transport:
    """What UCX itself finds."""
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
    """RDMA by the verbs of these ports, if none of perftest's programs is missing."""
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
