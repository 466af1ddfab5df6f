"""The questions about a machine: they are quick, change nothing and have time-outs."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import psutil

from ddlbench.cluster.partitions import has
from ddlbench.containers import engines
from ddlbench.doctor.answers import Question
from ddlbench.doctor.finding import Finding, NoAnswer, here, lacking
from ddlbench.environments.environment import STAMP
from ddlbench.environments.failed_environments import FOLDER, failure_of
from ddlbench.environments.locked import PREFERRED, find_interpreter, interpreter_for
from ddlbench.environments.wheels import missing_tools, recipe_beside
from ddlbench.errors import DdlbenchError
from ddlbench.launch.gpus import gpus_here
from ddlbench.network.fabrics import infiniband_ports, interface_of
from ddlbench.network.interfaces import speed
from ddlbench.plan.settings import Settings
from ddlbench.sandbox.sandbox import SandboxSlow, check_sandbox, sandbox_argv

_SHAPING_BACKEND = "ddlbench.doctor.shaping_backend"
_PODMANS_SOCKETS = ("{own}/podman/podman.sock", "/run/podman/podman.sock")


def questions(settings: Settings, root: Path, *, patience_s: float) -> list[Question]:
    """List all questions, in the order in which answers are shown.

    Args:
        settings: the configuration.
        root: its repository.
        patience_s: how long a program may take to answer.

    Returns:
        Kind, name, and a function that finds the answer, for each thing.
    """
    named = settings.interfaces
    frameworks = {name: root / each.requirements for name, each in settings.environments.items()}
    return [
        ("runtime", "bare", _bare),
        ("runtime", "docker", partial(_engine, "docker", patience_s)),
        ("runtime", "apptainer", partial(_engine, "apptainer", patience_s)),
        ("runtime", "podman", partial(_podman, patience_s)),
        ("fabric", "loopback", partial(_fabric, "loopback", named)),
        ("fabric", "emulated", partial(_emulated, patience_s)),
        ("fabric", "ethernet", partial(_fabric, "ethernet", named)),
        ("fabric", "infiniband", partial(_fabric, "infiniband", named)),
        *(
            ("framework", name, partial(_framework, name, requirements, root))
            for name, requirements in frameworks.items()
        ),
        ("devices", "cpu", _cpu),
        ("devices", "gpu", _gpu),
        ("scheduler", "slurm", partial(_slurm, patience_s)),
        ("scheduler", "gpu nodes", partial(_gpu_nodes, patience_s)),
        ("privilege", "root", _root),
        ("privilege", "sandbox", partial(_sandbox, patience_s)),
        ("privilege", "pinning", _pinning),
    ]


def _bare() -> Finding:
    """Find the Python that makes environments, unless their requirements name another."""
    python = find_interpreter(PREFERRED) or sys.executable
    if python == sys.executable and find_spec("venv") is None:
        return lacking("runtime", "bare", "Python has no venv. On Debian:  apt-get install python3-venv")
    return here("runtime", "bare", f"{python} makes virtual environments")


def _engine(name: str, patience_s: float) -> Finding:
    described = engines.describe(name, patience_s=patience_s)
    version = f"version {described['version']}"
    if described["name"] == "podman":
        root = "without root" if described["rootless"] else "with root"
        return here("runtime", name, f"Podman, {version}, {root}, in Docker's place")
    if described.get("unpacked"):
        return here("runtime", name, f"{version}; images are unpacked, as this user may not open /dev/fuse")
    return here(
        "runtime", name, f"{version}, knows the OCI runtime ddlbench" if name == "docker" else version
    )


def _podman(patience_s: float) -> Finding:
    """Find a socket of Podman that answers like Docker's. With it Podman can replace Docker."""
    own = os.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
    named = os.environ.get("DOCKER_HOST", "").removeprefix("unix://")
    sockets = [named, *(each.format(own=own) for each in _PODMANS_SOCKETS)]
    for path in sockets:
        if os.access(path, os.R_OK | os.W_OK) and _is_podmans(path, patience_s):
            where = "" if path == named else f", where Docker is not or with DOCKER_HOST=unix://{path}"
            return here("runtime", "podman", f"{path}: images and workers in Docker's place{where}")
    if shutil.which("podman") is None:
        return lacking("runtime", "podman", "not installed. On Debian:  apt-get install podman uidmap")
    return lacking("runtime", "podman", "no socket. systemctl --user start podman.socket")


def _is_podmans(path: str, patience_s: float) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as engine:
        engine.settimeout(patience_s)
        try:
            engine.connect(path)
            engine.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
            return b"libpod" in engine.recv(4096).lower()
        except OSError:
            return False


def _fabric(name: str, named: Mapping[str, str | None]) -> Finding:
    try:
        chosen = interface_of(name, named)
    except DdlbenchError as error:  # which shows all interfaces in a table
        first = str(error).partition("\n")[0].removeprefix(f"fabric {name}: ")
        return lacking("fabric", name, f"{first.rstrip(':')}. `ddlbench interfaces` shows what there is")
    words = [chosen.name, *([speed(chosen.speed_mbit)] if chosen.speed_mbit else [])]
    return here("fabric", name, ", ".join([*words, *infiniband_ports(chosen, named)]))


def _emulated(patience_s: float) -> Finding:
    """Make two emulated hosts with a link, in a sandbox that ends with the question."""
    _sandbox(patience_s)
    answer = _answer_of(sandbox_argv([sys.executable, "-m", _SHAPING_BACKEND]), patience_s)
    if answer.returncode:
        return lacking("fabric", "emulated", answer.stderr)
    backend = answer.stdout.strip()
    instead = "" if backend.endswith("netem") else ", as this kernel has no netem"
    return here("fabric", "emulated", f"links by {backend}{instead}")


def _framework(name: str, requirements: Path, root: Path) -> Finding:
    """Find the environment of a framework, or whether it could be made when a figure first needs it."""
    with suppress(FileNotFoundError, ValueError, KeyError, TypeError):  # or damaged: the next start makes it
        if failure := failure_of(root / FOLDER / name / STAMP):
            return lacking("framework", name, f"{failure}. The next start tries again")
        return here("framework", name, "its environment is there")
    python = interpreter_for(requirements, f"environment {name}")
    tools = missing_tools(recipe, python) if (recipe := recipe_beside(requirements)) else []
    if tools and not (os.geteuid() == 0 and shutil.which("apt-get")):
        return lacking("framework", name, f"missing to build it. sudo apt-get install {' '.join(tools)}")
    first = f", after installing {', '.join(tools)}" if tools else ""
    built = ", built from its source" if recipe else ""
    return here("framework", name, f"made when a figure first needs it{built}{first}")


def _cpu() -> Finding:
    cores, memory = len(os.sched_getaffinity(0)), psutil.virtual_memory()
    has = f"{cores} core{'s' * (cores > 1)}, {memory.available / 2**30:.0f} of {memory.total / 2**30:.0f} GB of memory"
    return here("devices", "cpu", f"{has} free")


def _gpu() -> Finding:
    import pynvml

    try:
        pynvml.nvmlInit()
        driver = pynvml.nvmlSystemGetDriverVersion()
    except pynvml.NVMLError as error:
        return lacking("devices", "gpu", f"no NVIDIA driver ({error})")
    if not (found := gpus_here()):
        return lacking(
            "devices", "gpu", f"driver {driver}, and no GPU that CUDA_VISIBLE_DEVICES does not hide"
        )
    names = ", ".join(sorted({gpu.name for gpu in found}))
    return here("devices", "gpu", f"{len(found)} x {names}, driver {driver}")


def _slurm(patience_s: float) -> Finding:
    partitions = _partitions("%R %D %a %G", patience_s)
    descriptions = [
        f"{name} ({nodes} node{'s' * (nodes != '1')}, {state}{'' if gres == '(null)' else f', {gres}'})"
        for name, nodes, state, gres in partitions
    ]
    return here("scheduler", "slurm", f"partitions {', '.join(descriptions)}")


def _gpu_nodes(patience_s: float) -> Finding:
    """Find partitions whose nodes have GPUs."""
    found = dict.fromkeys(name for name, gres in _partitions("%R %G", patience_s) if has(gres, "gpu"))
    if not found:
        return lacking("scheduler", "gpu nodes", "no partition has nodes with GPUs")
    return here("scheduler", "gpu nodes", f"in {', '.join(found)}")


def _partitions(columns: str, patience_s: float) -> list[list[str]]:
    """Ask SLURM for its partitions: a row each, with sinfo's columns.

    Raises:
        DdlbenchError: there is no SLURM here, it reports an error, or it names no partition.
    """
    if shutil.which("sinfo") is None:
        raise DdlbenchError("sinfo is not installed: this is no machine of a cluster")
    answer = _answer_of(["sinfo", "--noheader", "--format", columns], patience_s)
    lines = [line for line in answer.stdout.splitlines() if line.strip()]
    if answer.returncode or not lines:
        why = answer.stderr.strip().partition("\n")[0] or "sinfo lists no partition"
        raise DdlbenchError(f"SLURM does not answer: {why}")
    return [line.split(maxsplit=columns.count("%") - 1) for line in lines]


def _root() -> Finding:
    if os.geteuid() == 0:
        return here(
            "privilege", "root", "yes; nothing needs it but Debian packages that tests and builds install"
        )
    return lacking(
        "privilege", "root", "no; nothing needs it but Debian packages that tests and builds install"
    )


def _sandbox(patience_s: float) -> Finding:
    try:
        check_sandbox(patience_s=patience_s)
    except SandboxSlow as error:
        raise NoAnswer(str(error)) from None
    return here("privilege", "sandbox", "namespaces of our own can be made")


def _pinning() -> Finding:
    os.sched_setaffinity(0, os.sched_getaffinity(0))
    return here("privilege", "pinning", f"to cores {', '.join(map(str, sorted(os.sched_getaffinity(0))))}")


def _answer_of(argv: Sequence[str], patience_s: float) -> "subprocess.CompletedProcess[str]":
    """Run a command, and end it if it is silent for `patience_s`.

    A command may outlive us, but not for long. To end it together with this process, Python code would have to run
    between fork and exec, which is not safe with the threads of the other questions.

    Raises:
        NoAnswer: the command did not end in time.
    """
    try:
        return subprocess.run(
            argv,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=patience_s,
        )
    except subprocess.TimeoutExpired:
        raise NoAnswer(f"{argv[0]} has not answered for {patience_s:g} s") from None
