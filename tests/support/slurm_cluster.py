"""A SLURM cluster of four nodes on this machine: real daemons in namespaces that die, whole, with who asked for them.

    python -m tests.support.slurm_cluster FOLDER        (the first process of those namespaces; see `cluster`)

Debian's slurm-wlm and munge, and root. Nothing outside its folder is changed: /etc/slurm is a mount of its own.
Snakemake takes SLURM_CONF out of a job's environment; so whatever talks to the cluster is started by `Cluster.command`.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from random import sample
from time import monotonic, sleep

import psutil

from ddlbench.network.fabrics import default_route
from ddlbench.network.interfaces import interfaces
from ddlbench.system.processes import die_with_parent
from tests.support.repository import REPOSITORY
from tests.support.vanishing import vanishing_folder

NODES = ("node1", "node2", "node3", "node4")
PROGRAMS = ("munged", "mungekey", "slurmctld", "slurmd", "sinfo", "nsenter")
_SBIN = "/usr/sbin:/sbin"
_START_S = 600.0
_CONFIGURATION = """\
ClusterName=ddlbench
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge/socket,cred_expire=5
CryptoType=crypto/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmctldPidFile={folder}/run/slurmctld.pid
SlurmdPidFile={folder}/run/slurmd-%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SchedulerType=sched/backfill
SchedulerParameters=batch_sched_delay=0,sched_interval=2,bf_interval=2
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobCompType=jobcomp/none
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
MinJobAge=300
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmdTimeout=20
KillWait=10
SlurmdParameters=config_overrides
GresTypes=gpu
NodeName=node[1-4] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{ports[1]}-{ports[4]}] \
CPUs=2 Boards=1 SocketsPerBoard=1 CoresPerSocket=2 ThreadsPerCore=1 RealMemory=8000 Gres=gpu:1 State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=NO
PartitionName=urgent Nodes=ALL PriorityTier=10 State=UP OverSubscribe=NO
PartitionName=small Nodes=node[1-2] MaxTime=10 State=UP OverSubscribe=NO
"""
_GPUS = "AutoDetect=off\nNodeName=node[1-4] Name=gpu File=/dev/null\n"


class Cluster:
    """A running cluster; all its processes are below `process`."""

    def __init__(self, folder: Path, process: "subprocess.Popen[bytes]") -> None:
        self.folder = folder
        self.process = process

    def command(self, *argv: str, folder: Path | None = None) -> list[str]:
        """The argv that does `argv` where the cluster is, as on its login node, in `folder`."""
        first = psutil.Process(self.process.pid).children()[0].pid
        where = f"--wdns={folder or os.getcwd()}"
        return ["nsenter", "--target", str(first), "--mount", "--pid", where, "--", *argv]

    def ask(self, *argv: str, timeout_s: float = 600.0) -> str:
        """What a command of SLURM's says."""
        answer = subprocess.run(
            self.command(*argv), capture_output=True, text=True, timeout=timeout_s, check=True
        )
        return answer.stdout.strip()

    def crash(self, node: str) -> None:
        """Kill the node's daemon and all that it has started, as when a machine loses its power."""
        end(each for each in self.processes() if _node_of(each) == node)

    def kill_daemon(self, node: str) -> None:
        """Kill the node's slurmd and nothing else."""
        end([self.daemon(node)])

    def daemon(self, node: str) -> psutil.Process:
        """The node's slurmd."""
        return next(each for each in self.processes() if command_of(each)[:4] == _slurmd(node))

    def restart_daemon(self, node: str) -> None:
        """Start the node's slurmd again, and have its node back."""
        subprocess.Popen(self.command(*_slurmd(node)), stdin=subprocess.DEVNULL, preexec_fn=die_with_parent)

    def processes(self) -> list[psutil.Process]:
        """The cluster's daemons, its jobs, and whatever else this process has started."""
        return psutil.Process().children(recursive=True)


def end(processes: Iterable[psutil.Process]) -> None:
    """Kill all of them at once; some may have ended by themselves, or with others, by then."""
    for process in list(processes):
        with suppress(psutil.NoSuchProcess):
            process.kill()


def command_of(process: psutil.Process) -> list[str]:
    """Its command line; nothing of one that has ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def network() -> str:
    """The interface that all nodes talk over, by its name: this machine's way out, where it has one."""
    leading_out = default_route()
    found = [each for each in interfaces() if each.addresses and each.kind in ("ethernet", "virtual")]
    found = [each for each in found if each.state in ("up", "unknown") and not each.master]
    return min(found, key=lambda each: each.name not in leading_out).name


def lacking() -> list[str]:
    """What is not here and needed for a cluster."""
    path = f"{os.environ.get('PATH', '')}:{_SBIN}"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    return missing + ([] if os.geteuid() == 0 else ["root"])


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A cluster of four nodes, idle. Gone, with its jobs, when the block ends or this process does."""
    os.environ["PATH"] += f":{_SBIN}"
    with vanishing_folder("ddlbench-slurm-") as folder:
        with (folder / "said").open("wb") as said:
            process = subprocess.Popen(
                [
                    *("unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--"),
                    *(sys.executable, "-m", "tests.support.slurm_cluster", str(folder)),
                ],
                preexec_fn=die_with_parent,
                cwd=REPOSITORY,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
            )
        try:
            yield _idle(Cluster(folder, process))
        finally:
            process.kill()
            process.wait()


def _idle(started: Cluster) -> Cluster:
    """The cluster, once all its nodes are there."""
    deadline = monotonic() + _START_S
    while monotonic() < deadline and started.process.poll() is None:
        try:
            if started.ask("sinfo", "-h", "-p", "main", "-t", "idle", "-o", "%D") == str(len(NODES)):
                return started
        except (subprocess.SubprocessError, IndexError, psutil.NoSuchProcess):
            pass
        sleep(0.2)
    logs = "\n".join(f"{log}:\n{log.read_text()[-2000:]}" for log in started.folder.glob("log/*"))
    raise RuntimeError(f"no cluster:\n{(started.folder / 'said').read_text()}\n{logs}")


def _node_of(process: psutil.Process) -> str | None:
    """The node that a process belongs to: a slurmd, what serves a step for it, or a task."""
    try:
        for each in [process, *process.parents()]:
            if each.cmdline()[:3] == _slurmd("")[:3]:
                return each.cmdline()[3]
            if node := each.environ().get("SLURMD_NODENAME"):
                return node
            spool = [file.path for file in each.open_files() if "/log/slurmd-" in file.path]
            if spool:
                return Path(spool[0]).stem.removeprefix("slurmd-")
    except psutil.Error:
        pass
    return None


def _slurmd(node: str) -> list[str]:
    return ["slurmd", "-D", "-N", node]


def _configure(folder: Path) -> socket.socket:
    """Write the configuration; what this gives back keeps the cluster's ports while it is open."""
    for part in ("etc", "state", "run", "log", "munge", *(f"spool/{node}" for node in NODES)):
        (folder / part).mkdir(parents=True)
    host = socket.gethostname().partition(".")[0]
    ports, kept = _free_ports(1 + len(NODES))
    (folder / "etc/slurm.conf").write_text(_CONFIGURATION.format(host=host, folder=folder, ports=ports))
    (folder / "etc/gres.conf").write_text(_GPUS)
    return kept


def _free_ports(count: int) -> tuple[list[int], socket.socket]:
    """Ports in a row that nobody listens on, and a name in the kernel that no other cluster can have with them."""
    for first in sample(range(17000, 19990, 10), k=100):
        name = socket.socket(socket.AF_UNIX)
        try:
            name.bind(f"\0ddlbench-slurm-{first}")
            for port in range(first, first + count):
                socket.create_server(("", port)).close()
        except OSError:
            name.close()
            continue
        return list(range(first, first + count)), name
    raise RuntimeError("no free ports")


def _serve(folder: Path) -> None:
    """Start the daemons, and wait for ever: the namespaces end with this process."""
    kept = _configure(folder)
    Path("/etc/slurm").mkdir(exist_ok=True)
    subprocess.run(["mount", "--bind", str(folder / "etc"), "/etc/slurm"], check=True)
    munge = folder / "munge"
    subprocess.run(["mungekey", "--create", f"--keyfile={munge}/key"], check=True)
    files = ("key-file=key", "socket=socket", "pid-file=pid", "log-file=log", "seed-file=seed")
    options = [f"--{option.replace('=', f'={munge}/')}" for option in files]
    commands: list[Sequence[str]] = [["munged", "--foreground", "--force", *options], ["slurmctld", "-D"]]
    for command in [*commands, *map(_slurmd, NODES)]:
        subprocess.Popen(command, stdin=subprocess.DEVNULL)
        until = monotonic() + _START_S
        while command[0] == "munged" and not (munge / "socket").exists() and monotonic() < until:
            sleep(0.02)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for what has ended
    while kept:
        signal.pause()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
