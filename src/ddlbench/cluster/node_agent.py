"""Our process on each node of an allocation: it starts that node's members, watches them, and tells what the node is.

    python -m ddlbench.cluster.node_agent JOB.json        (a task of srun's, one a node; see `nodes`)

The variable DDLBENCH_DOOR says where the driver is. It is told what to do in JSON, one object a line; when the driver
has gone, all that it has started is killed.
"""

import json
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from time import monotonic
from typing import Any

from ddlbench.errors import DdlbenchError
from ddlbench.launch.bare import workers_environment
from ddlbench.launch.roles import port_ranges, worker_of
from ddlbench.launch.starter import Process, Starter
from ddlbench.launch.starters import starter_here
from ddlbench.measurements import facts
from ddlbench.network.fabrics import interface_of
from ddlbench.network.hosts import Host
from ddlbench.network.interfaces import Interface
from ddlbench.system.clock import Clock
from ddlbench.telemetry.telemetry import Telemetry, Watched, sampled
from ddlbench.workers.common.channel import knock

DOOR = "DDLBENCH_DOOR"
_POLL_S = 0.05
_LATE_S = 60.0

Message = dict[str, Any]


class Node:
    """What runs on this node for one run: the fork server, the members, and the sampler that watches them."""

    def __init__(self, job: Mapping[str, Any], stack: ExitStack) -> None:
        self.job = {**job, "inherited": dict(os.environ)}  # of this node, not of the driver's
        self.name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
        self.interface = interface_of(job["fabric"], job["interfaces"])
        self.members: dict[int, Process] = {}
        self.telemetry: Telemetry | None = None
        stack.callback(self.kill_all)
        self._of_telemetry = stack.enter_context(ExitStack())
        self._of_starter = stack.enter_context(ExitStack())
        self.starter = self._serve(job["runtime"])

    def _serve(self, runtime: str) -> Starter:
        planned = self.job["placement"]["hosts"][0]
        variables = workers_environment(
            os.environ,
            threads=int(planned["threads"]),
            interface=self.interface.name,
            infiniband_port=self.interface.infiniband_port,
        )
        here = Host(self.name, "", (), int(planned["threads"]), int(planned["memory_bytes"]))
        worker = worker_of(self.job["framework"], self.job["strategy"])
        log = Path(self.job["logs"]) / f"fork_server-{self.name}.log"
        starter = starter_here(self.job, runtime, worker, variables, [here], [None], log=log)
        self._of_starter.enter_context(starter)
        return starter

    def introduction(self) -> Message:
        """What the driver is told of this node."""
        return {
            "event": "hello",
            "index": int(os.environ.get("SLURM_PROCID", "0")),
            "node": self.name,
            "interface": self.interface.name,
            "address": address_of(self.interface),
            "cores": sorted(os.sched_getaffinity(0)),
            "port": free_port(os.environ["SLURM_JOB_ID"]),
            "facts": facts.gather(),
        }

    def obey(self, order: Message) -> Message:
        """Do what the driver says, and answer."""
        match order["do"]:
            case "start":
                process = self.starter.start(order["order"], monotonic() + order["within_s"])
                self.members[process.pid] = process
                return {"pid": process.pid}
            case "kill":
                self.members[order["pid"]].kill()
            case "close":
                self.starter.close()
            case "serve":
                self._of_starter.close()
                self.starter = self._serve(order["runtime"])
            case "watch":
                self.watch(order)
            case "begin" if self.telemetry:
                self.telemetry.begin(order["point"], order["repetition"])
            case "end" if self.telemetry:
                return self.telemetry.end(order["steps"])
            case "unwatch":
                self._of_telemetry.close()
                return {"costs": self.telemetry.costs if self.telemetry else {}}
        return {}

    def watch(self, order: Message) -> None:
        """Have the members on this node watched, on the driver's clock."""
        clock = Clock(started=monotonic() - order["now_s"])
        telemetry = {
            **self.job["telemetry"],
            "folder": str(Path(self.job["telemetry"]["folder"]) / self.name),
        }
        job = {**self.job, "telemetry": telemetry, "logs": str(Path(self.job["logs"]) / self.name)}
        Path(job["logs"]).mkdir(parents=True, exist_ok=True)
        watched = Watched(self.name, order["role"], None, order["pids"], has_machine=True)
        self.telemetry = self._of_telemetry.enter_context(sampled(job, [watched], clock))

    def ended(self) -> list[Message]:
        """The members that have ended since it was asked last."""
        found = [(pid, status) for pid, each in self.members.items() if (status := each.poll()) is not None]
        for pid, _ in found:
            del self.members[pid]
        return [{"event": "ended", "pid": pid, "status": status} for pid, status in found]

    def kill_all(self) -> None:
        """Nothing that was started here is left."""
        for each in self.members.values():
            each.kill()
        for each in self.members.values():
            each.wait()


def address_of(interface: Interface) -> str:
    """The address that other nodes reach the interface by: IPv4 where it has one, as not every framework can IPv6."""
    return min(interface.addresses, key=lambda address: ":" in address)


def free_port(job: str) -> int:
    """The first port of the job's processes on this node. Raises DdlbenchError where every range is in use."""
    for ports in port_ranges(job):
        with ExitStack() as bound, suppress(OSError):
            for port in ports:
                bound.enter_context(socket.create_server(("", port)))
            return ports.start
    raise DdlbenchError("somebody listens in every range of ports that the processes of a job may have")


def serve(node: Node, driver: socket.socket) -> None:
    """Obey the driver until it has gone."""
    driver.settimeout(_POLL_S)
    received = b""
    while True:
        for message in node.ended():
            _send(driver, message)
        try:
            part = driver.recv(1 << 16)
        except TimeoutError:
            continue
        if not part:
            return
        *lines, received = (received + part).split(b"\n")
        for line in lines:
            try:
                answer = node.obey(json.loads(line))
            except DdlbenchError as error:
                answer = {"error": str(error)}
            _send(driver, {"event": "answer", **answer})


def _send(driver: socket.socket, message: Message) -> None:
    driver.settimeout(_LATE_S)
    driver.sendall(json.dumps(message).encode() + b"\n")
    driver.settimeout(_POLL_S)


def main(job_path: str) -> int:
    """Serve the driver of the job; an error is told in words, to the driver too."""
    try:
        driver, token = knock(os.environ.pop(DOOR))
    except ConnectionError as error:
        print(f"the driver of this run is not there, or not any more: {error}", file=sys.stderr)
        return 1
    with ExitStack() as stack:
        try:
            node = Node(json.loads(Path(job_path).read_text()), stack)
            hello = node.introduction()
        except DdlbenchError as error:
            name = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
            with suppress(ConnectionError):  # another node was first to have one
                _send(driver, {"event": "hello", "token": token, "node": name, "error": str(error)})
            return error.exit_code
        with suppress(OSError):  # the driver has gone
            _send(driver, {**hello, "token": token})
            serve(node, driver)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
