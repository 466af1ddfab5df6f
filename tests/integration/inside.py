"""What tests do inside a sandbox: each function here is run in one of its own and gives back plain data.

python -m inside FUNCTION ARGUMENTS.json ANSWER.json
"""

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from ddlbench.errors import DdlbenchError
from ddlbench.network import shaping
from ddlbench.network.hosts import Host
from ddlbench.network.link import Link
from ddlbench.network.namespaces import enter, entered
from ddlbench.network.probe import Tolerances, verify
from ddlbench.network.star import Star
from ddlbench.runtime.bare import workers_argv, workers_environment
from ddlbench.runtime.fork_server import ForkServer
from ddlbench.runtime.group import Launch, Timeouts, WorkerGroup

ADDRESSES = ["10.66.0.1", "10.66.0.2"]
BACKENDS = {"tbf+netem": shaping.Netem, "tbf+nfqueue": shaping.DelayedVerdicts}
TCP_INFO_RTO = 8  # offset in bytes, of microseconds
LIMITS = Timeouts(launch_s=120, prepare_s=120, step_s=60, heartbeat_s=60)


@contextmanager
def hosts(backend: str | None, *, congestion_control: str = "cubic", dilation: float = 1.0) -> Iterator[Star]:
    """Two emulated hosts whose links are made by `backend`, or by what this kernel chooses."""
    with Star(ADDRESSES, congestion_control=congestion_control, dilation=dilation) as star:
        if backend not in (None, star.backend.name):
            star.backend = star._cleanup.enter_context(BACKENDS[backend](star.backend.ports))
        yield star


def backends() -> list[str]:
    """The backends that this kernel can do, the one that it chooses first."""
    with hosts(None) as star:
        found = [star.backend.name]
        for name in set(BACKENDS) - set(found):
            try:
                with BACKENDS[name](star.backend.ports) as backend:
                    backend.shape(Link(100, 1))
            except (OSError, NetlinkError) as error:
                print(f"{name}: {error}", file=sys.stderr)
            else:
                found.append(name)
    return found


def listening(star: Star, host: int) -> socket.socket:
    """A listening TCP socket on a host."""
    with entered(star.namespaces[host]):
        return socket.create_server((ADDRESSES[host], 0))


def connected(star: Star, server: socket.socket, host: int = 0) -> socket.socket:
    """A TCP socket of a host that is connected to `server`."""
    with entered(star.namespaces[host]):
        return socket.create_connection(server.getsockname(), timeout=30)


def datagrams(star: Star, host: int) -> socket.socket:
    """A UDP socket of a host."""
    with entered(star.namespaces[host]):
        endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    endpoint.bind((ADDRESSES[host], 0))
    return endpoint


def goodput_mbit(backend: str, link: dict[str, float], wanted: float, percent: float) -> list[float]:
    """What iperf3 carries from one host to the other, measured until it is as `wanted`, a few times at most."""
    found: list[float] = []
    with hosts(backend) as star:
        star.shape(Link(**link))
        command = ["iperf3", "--server", "--json"]
        server = subprocess.Popen(
            command, preexec_fn=lambda: enter(star.namespaces[1]), stdout=subprocess.DEVNULL
        )
        while len(found) < 15 and not any(abs(each / wanted - 1) * 100 <= percent for each in found):
            client = ["iperf3", "--json", "--client", ADDRESSES[1], "--time", "2", "--omit", "1"]
            answer = subprocess.run(
                client, preexec_fn=lambda: enter(star.namespaces[0]), capture_output=True, text=True
            )
            report = json.loads(answer.stdout)
            if "error" in report:  # the server is not there yet
                assert server.poll() is None
                time.sleep(0.1)
                continue
            found.append(report["end"]["sum_received"]["bits_per_second"] / 1e6)
        server.kill()
        server.wait()
    return found


def round_trips_ms(backend: str | None, link: dict[str, float], times: int = 15) -> list[float]:
    """How long it takes a host to connect to another, which is one round trip."""
    with hosts(backend) as star:
        star.shape(Link(**link))
        return _connecting_ms(star, times)


def links_in_turn_ms(backend: str, links: list[dict[str, float] | None]) -> list[list[float]]:
    """Round trips on one link after another, None being an open one."""
    found = []
    with hosts(backend) as star:
        for link in links:
            star.shape(link and Link(**link))
            found.append(_connecting_ms(star, times=15))
    return found


def _connecting_ms(star: Star, times: int) -> list[float]:
    found = []
    with listening(star, 1) as server:
        for _ in range(times):
            started = time.perf_counter()
            connected(star, server).close()
            found.append((time.perf_counter() - started) * 1e3)
    return found


def unreachable_after_s(address: str) -> float:
    """How long a host waits until it knows that it cannot reach an address outside of the star."""
    with hosts(None) as star, entered(star.namespaces[0]):
        started = time.perf_counter()
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
            try:
                endpoint.connect((address, 53))
            except OSError:
                return time.perf_counter() - started
    raise AssertionError(f"{address} seems to be reachable")


def loss_percent(backend: str, link: dict[str, float], packets: int) -> float:
    """How many of the packets that a host sends do not reach the other; nobody reads them there."""
    with hosts(backend) as star:
        star.shape(Link(**link))
        sender, receiver = datagrams(star, 0), datagrams(star, 1)
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        before = _delivered(star, 1)
        for _ in range(packets):
            sender.sendto(b"packet", receiver.getsockname())
        count = 0
        while (now := _delivered(star, 1) - before) != count:
            count = now
            time.sleep(0.5)
    return 100 * (1 - count / packets)


def _delivered(star: Star, host: int) -> int:
    """How many IPv4 packets have reached a host."""
    with entered(star.namespaces[host]), open("/proc/thread-self/net/snmp") as file:
        names, values = [line.split() for line in file if line.startswith("Ip:")]
    return int(values[names.index("InDelivers")])


def connection(congestion_control: str, dilation: float) -> dict[str, Any]:
    """What the kernel says of a TCP connection between two hosts, on both sides of it."""
    with hosts(None, congestion_control=congestion_control, dilation=dilation) as star:
        star.shape(Link(100))
        with listening(star, 1) as server, connected(star, server) as client, server.accept()[0] as accepted:
            client.sendall(b"hello")
            accepted.recv(5)
            accepted.sendall(b"hello")
            client.recv(5)
            names = [
                side.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16) for side in (client, accepted)
            ]
            info = client.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return {
        "congestion_control": [name.rstrip(b"\0").decode() for name in names],
        "rto_ms": struct.unpack_from("=I", info, TCP_INFO_RTO)[0] / 1e3,
    }


def probe(backend: str, made: dict[str, float], asked: dict[str, float]) -> dict[str, Any]:
    """Make one link and have it probed as another."""
    with hosts(backend) as star:
        star.shape(Link(**made))
        try:
            tolerances = Tolerances(rate_percent=5, rtt_percent=5, rtt_ms=2, loss_points=0.5)
            found = verify(star, Link(**asked), tolerances)
        except DdlbenchError as error:
            return {"refused": str(error)}
    return {"found": found.as_dict()}


def dead_delay(link: dict[str, float]) -> dict[str, Any]:
    """What a link whose delay process was killed carries, and what is said of it."""
    with hosts("tbf+nfqueue") as star:
        star.shape(Link(**link))
        sender, receiver = datagrams(star, 0), datagrams(star, 1)
        receiver.settimeout(5)
        sender.sendto(b"before", receiver.getsockname())
        before = receiver.recv(100)
        assert isinstance(star.backend, shaping.DelayedVerdicts)
        star.backend.process.kill()
        star.backend.process.wait()
        receiver.settimeout(0.5)
        sender.sendto(b"after", receiver.getsockname())
        try:
            after = receiver.recv(100).decode()
        except TimeoutError:
            after = None
        try:
            star.backend.check()
        except DdlbenchError as error:
            return {"before": before.decode(), "after": after, "said": str(error)}
    return {"before": before.decode(), "after": after, "said": None}


def alone(link: dict[str, float], ready: str, go: str, times: int) -> list[float]:
    """Round trips, begun when somebody else in another sandbox is there too."""
    Path(ready).touch()
    while not Path(go).exists():
        time.sleep(0.01)
    return round_trips_ms(None, link, times)


def busy(ready: str) -> None:
    """Two hosts with a process in each, and a link with all that it needs, until somebody ends it."""
    with hosts(None) as star:
        star.shape(Link(100, 5))
        for namespace in star.namespaces:
            subprocess.Popen(["sleep", "600"], preexec_fn=lambda namespace=namespace: enter(namespace))
        Path(ready).touch()
        signal.pause()


def trainings(
    python: str,
    dataset: str,
    workers: int,
    points: list[dict[str, Any]],
    memory_gb: float = 4,
    core_share: float = 1.0,
) -> list[dict[str, Any]]:
    """Train each point for ten steps with the real workers of one group, over loopback; what each rank reports."""
    with IPRoute() as network:
        network.link("set", index=1, state="up")
    cores = sorted(os.sched_getaffinity(0))
    launches, jobs = [], []
    for rank in range(workers):
        host = Host(f"h{rank + 1}", "127.0.0.1", (cores[rank % len(cores)],), 1, int(memory_gb * 2**30))
        launches.append(Launch(host, None, Path(f"rank{rank}.log")))
        job = {"rank": rank, "world_size": workers, "threads": 1, "core_share": core_share, "devices": "cpu"}
        job |= {"rendezvous": "127.0.0.1:29500", "timeout_s": 120, "datasets": {"digits-28x28x1": dataset}}
        jobs.append(job)
    answers = []
    variables = workers_environment(os.environ, threads=1, interface="lo")
    with (
        ForkServer(workers_argv(python, "torch"), variables, log=Path("fork_server.log")) as server,
        WorkerGroup(
            server, launches, jobs, control=Path.cwd() / f"control-{workers}", timeouts=LIMITS
        ) as group,
    ):
        models = sorted({point["model"] for point in points})
        group.connect([(model, [28, 28, 1]) for model in models])
        for given in points:
            point = {
                "dataset": "digits",
                "image_shape": [28, 28, 1],
                "learning_rate": 0.05,
                "momentum": 0.9,
            } | given
            fits = [rank["fits"] for rank in group.prepare(point, given["seed"])]
            ranks = []
            if all(fits):
                trained, concluded = group.train(10, from_fresh=True), group.conclude(evaluate=True)
                ranks = [one | other for one, other in zip(trained, concluded, strict=True)]
            answers.append({"fits": fits, "ranks": ranks})
    return answers


if __name__ == "__main__":
    function, arguments, answer = sys.argv[1:]
    result = globals()[function](**json.loads(Path(arguments).read_text()))
    Path(answer).write_text(json.dumps(result))
