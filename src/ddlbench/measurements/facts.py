"""Facts about a node, gathered on that node: a table of key -> (how to read it, type, unit); never a path."""

import os
import platform
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from ddlbench.network.interfaces import interfaces


class Fact(NamedTuple):
    """How one fact is read on this node.

    Attributes:
        read: returns the value; None if this node does not have it.
        type: of the value.
        unit: of the value; empty if it has none.
    """

    read: Callable[[], Any]
    type: type
    unit: str = ""


def gather() -> dict[str, Any]:
    """Read every fact of FACTS about this node, now.

    Returns:
        Key -> value; None for what this node does not have or cannot tell.
    """
    return {key: _read(fact) for key, fact in FACTS.items()}


def short_label(facts: Mapping[str, Any]) -> str:
    """Describe a machine in a few words, for captions and tables: `Intel Xeon Silver 4214, 2 cores, 8 GB`.

    Args:
        facts: as `gather` returns them; a missing fact is left out.

    Returns:
        Processor, number of cores, memory in 10^9 bytes and GPUs.
    """
    model = str(facts.get("cpu_model") or "unknown machine")
    parts = [" ".join(re.sub(r"\((R|TM|C)\)|\bCPU\b|\bProcessor\b|\d+-Core|@.*", " ", model).split())]
    if cores := facts.get("cores"):
        parts.append(f"{cores} core" if cores == 1 else f"{cores} cores")
    if memory := facts.get("memory_gb"):
        parts.append(f"{memory:.0f} GB")
    gpus = facts.get("gpus") or []
    parts += [f"{gpus.count(gpu)}x {gpu}" for gpu in dict.fromkeys(gpus)]
    return ", ".join(parts)


def differing(groups: Iterable[Sequence[Mapping[str, Any]]], names: Sequence[str]) -> dict[str, list[str]]:
    """Find out in what the hosts of several repetitions differ.

    Args:
        groups: the facts of the hosts of each repetition. The order of hosts does not matter; a fact that a repetition
            does not state is not compared.
        names: the facts to compare.

    Returns:
        For each fact that is not the same in all repetitions, its values in words.
    """
    found: dict[str, dict[str, None]] = {}
    for hosts in groups:
        for name in names:
            values = [_in_words(name, facts[name]) for facts in hosts if facts.get(name) is not None]
            if values and len(values) == len(hosts):
                found.setdefault(name, {})[" and ".join(sorted(set(values)))] = None
    return {name: list(values) for name, values in found.items() if len(values) > 1}


def _in_words(name: str, value: Any) -> str:
    if name == "interfaces":
        cards = {" ".join(str(each.get(key)) for key in ("kind", "driver", "speed_mbit")) for each in value}
        return ", ".join(sorted(cards)) or "none"
    return ", ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _read(fact: Fact) -> Any:
    try:
        return fact.read()
    except (OSError, ValueError, IndexError, subprocess.SubprocessError):
        return None


def _text(path: str) -> str:
    return Path(path).read_text().strip()


def _cpu_model() -> str:
    """The processor's name in /proc/cpuinfo; the architecture if there is none, as on ARM."""
    named = re.search(
        r"^(?:model name|cpu model|Model|Hardware)\s*:\s*(\S.*)$", _text("/proc/cpuinfo"), re.MULTILINE
    )
    return named[1].strip() if named else platform.processor() or platform.machine()


def _clock_mhz() -> float:
    """The highest clock that the first core is allowed; a virtual machine often does not say."""
    return int(_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_max_freq")) / 1000


def _memory_gb() -> float:
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 1e9, 1)


def _distribution() -> str:
    return platform.freedesktop_os_release()["PRETTY_NAME"]


def _network_interfaces() -> list[dict[str, Any]]:
    """All interfaces that are up, except loopback, without their addresses; speed in Mbit/s, MTU in bytes."""
    keys = ("name", "kind", "speed_mbit", "mtu", "driver", "state")
    return [
        {**{key: getattr(each, key) for key in keys}, "hca": each.hca and each.hca.name}
        for each in interfaces()
        if each.kind != "loopback" and each.state != "down"
    ]


def _nvidia(query: str) -> list[str]:
    """One answer for each GPU; empty on a node without nvidia-smi."""
    if not (tool := shutil.which("nvidia-smi")):
        return []
    command = [tool, f"--query-gpu={query}", "--format=csv,noheader"]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout
    return [line.strip() for line in answer.splitlines() if line.strip()]


def _cores_usable() -> int:
    return len(os.sched_getaffinity(0))


def _slurm_nodes() -> str | None:
    """The nodes of our SLURM job. Snakemake keeps only the job's number as a variable, so squeue gives the nodes."""
    if (nodes := os.environ.get("SLURM_JOB_NODELIST")) or not (job := os.environ.get("SLURM_JOB_ID")):
        return nodes
    command = ["squeue", "--noheader", "--jobs", job, "--format", "%N"]
    return subprocess.run(command, capture_output=True, text=True, timeout=10, check=True).stdout.strip()


FACTS: dict[str, Fact] = {
    "hostname": Fact(socket.gethostname, str),
    "cpu_model": Fact(_cpu_model, str),
    "cores": Fact(os.cpu_count, int),
    "clock_mhz": Fact(_clock_mhz, float, "MHz"),
    "cores_usable": Fact(_cores_usable, int),
    "memory_gb": Fact(_memory_gb, float, "GB"),
    "gpus": Fact(lambda: _nvidia("name"), list),
    "gpu_driver": Fact(lambda: next(iter(_nvidia("driver_version")), None), str),
    "interfaces": Fact(_network_interfaces, list),
    "congestion_control": Fact(lambda: _text("/proc/sys/net/ipv4/tcp_congestion_control"), str),
    "kernel": Fact(platform.release, str),
    "os": Fact(_distribution, str),
    "python": Fact(platform.python_version, str),
    "slurm_job": Fact(lambda: os.environ.get("SLURM_JOB_ID"), str),
    "slurm_nodes": Fact(_slurm_nodes, str),
    "time": Fact(lambda: datetime.now(UTC).isoformat(timespec="seconds"), str),
}
OF_COMPUTE = ("cpu_model", "cores", "clock_mhz", "gpus")
OF_NETWORK = ("interfaces", "congestion_control")  # of nodes; emulated hosts are given theirs
