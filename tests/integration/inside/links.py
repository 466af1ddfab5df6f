"""What links carry, and how long that takes."""

import errno
import json
import os
import select
import signal
import socket
import struct
import subprocess
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Thread
from typing import Any

from pyroute2 import IPRoute

from ddlbench.network.link import Link
from ddlbench.network.queueing_disciplines import settings
from ddlbench.network.sizes import BYTES_PER_MS, burst_bytes, queue_bytes
from ddlbench.network.star import Star
from ddlbench.network.traffic import counters
from ddlbench.system.namespaces import enter, entered
from inside.star import carried, connected, datagrams, flood, hosts, listening

FOUR = [f"10.66.0.{number}" for number in range(1, 5)]
TCP_INFO_RTO = 8  # offset in bytes, of microseconds


def iperf3_over(backend: str, link: dict[str, float]) -> dict[str, float]:
    """What iperf3 says that it got from one host to the other, and what the router has counted meanwhile."""
    with hosts(backend) as star:
        asked = Link(**link)
        star.shape(asked)
        return iperf3_between(star, asked, 0, 1)


def iperf3_between(star: Star, link: Link, sender: int, receiver: int) -> dict[str, float]:
    """Bytes: those that iperf3 tells of, those carried on the link, those that its shaper allows in the same time."""
    server = subprocess.Popen(
        ["iperf3", "--server"], preexec_fn=lambda: enter(star.namespaces[receiver]), stdout=subprocess.DEVNULL
    )
    client = ["iperf3", "--json", "--client", star.addresses[receiver], "--time", "2"]
    told = None
    while told is None:
        before, began = counters(star.backend.ports, 0)[sender], time.monotonic()
        answer = subprocess.run(
            client, preexec_fn=lambda: enter(star.namespaces[sender]), capture_output=True, text=True
        )
        passed = counters(star.backend.ports, 0)[sender] - before
        took_s = time.monotonic() - began
        report = json.loads(answer.stdout)
        if "error" not in report:
            told = report["end"]["sum_received"]["bytes"]
        else:  # the server is not there yet
            assert server.poll() is None
            time.sleep(0.1)
    server.kill()
    server.wait()
    return {"told": told, "carried": passed, "allowed": _allowed_bytes(link, took_s)}


def _allowed_bytes(link: Link, seconds: float) -> float:
    """What tbf lets through at most: its burst at once, and then no more than the rate."""
    return link.bandwidth_mbit * 1e6 / 8 * seconds + burst_bytes(link)


def settings_in_turn(backend: str, links: list[dict[str, float] | None]) -> list[dict[str, Any]]:
    """What the kernel says of one link after another, None being an open one."""
    found = []
    with hosts(backend) as star:
        for link in links:
            star.shape(link and Link(**link))
            found.append(settings(star))
    return found


def round_trips_ms(backend: str | None, link: dict[str, float], times: int = 15) -> list[float]:
    """How long it takes a host to connect to another, which is one round trip."""
    with hosts(backend) as star:
        star.shape(Link(**link))
        return connecting_ms(star, times)


def alone(link: dict[str, float], ready: str, go: str, times: int) -> list[float]:
    """Round trips, begun when somebody else in another sandbox is there too."""
    Path(ready).touch()
    while not Path(go).exists():
        time.sleep(0.01)
    return round_trips_ms(None, link, times)


def connecting_ms(star: Star, times: int, client: int = 0, server_host: int = 1) -> list[float]:
    found = []
    with listening(star, server_host) as server:
        for _ in range(times):
            started = time.perf_counter()
            connected(star, server, client).close()
            found.append((time.perf_counter() - started) * 1e3)
    return found


def unreachable(address: str) -> str:
    """What the kernel says to a host that connects a UDP socket outside of the star: that never waits for anybody."""
    with (
        hosts(None) as star,
        entered(star.namespaces[0]),
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint,
    ):
        try:
            endpoint.connect((address, 53))
        except OSError as error:
            return errno.errorcode[error.errno or 0]
    return "nothing"


def loss_percent(backend: str, link: dict[str, float], packets: int) -> float:
    """How many of the packets that a host sends do not reach the other."""
    with hosts(backend) as star:
        star.shape(Link(**link))
        return lost_between(star, 0, 1, packets)


def lost_between(star: Star, host: int, other: int, packets: int, at_once: int = 100) -> float:
    sender, receiver = datagrams(star, host), datagrams(star, other)
    receiver.settimeout(0.1)
    count = 0
    for number in range(packets // at_once):
        for _ in range(at_once):  # few enough for every queue on the way
            sender.sendto(b"packet", receiver.getsockname())
        count += _arrived_before(b"end of %d" % number, sender, receiver)
    return 100 * (1 - count / (packets // at_once * at_once))


def _arrived_before(end: bytes, sender: socket.socket, receiver: socket.socket) -> int:
    """How many packets arrive before the one sent last, which is sent again if it is lost, however late."""
    received: list[bytes] = []
    while end not in received:
        sender.sendto(end, receiver.getsockname())
        with suppress(TimeoutError):
            while received[-1:] != [end]:
                received.append(receiver.recv(32))
    return received.count(b"packet")


def jitter(backend: str, link: dict[str, float], times: int) -> dict[str, Any]:
    """How long single packets take, and in which order they come that are sent at once."""
    with hosts(backend) as star:
        star.shape(Link(**link))
        found = one_way_ms(star, 0, 1, times, pause_s=2.2 * link["jitter_ms"] / 1000)
        sender, receiver = datagrams(star, 0), datagrams(star, 1)
        receiver.settimeout(60)
        for number in range(100):
            sender.sendto(bytes([number]), receiver.getsockname())
        return {
            "times_ms": found,
            "order": [receiver.recv(1)[0] for _ in range(100)],
            "netem_jitter": settings(star)["link 1"].get("netem", {}).get("jitter", 0),
        }


def one_way_ms(star: Star, host: int, other: int, times: int, pause_s: float = 0.0) -> list[float]:
    """How long packets take from one host to another, by the same clock."""
    sender, receiver = datagrams(star, host), datagrams(star, other)
    receiver.settimeout(60)
    found = []
    for _ in range(times):
        sender.sendto(struct.pack("=d", time.perf_counter()), receiver.getsockname())
        (started,) = struct.unpack("=d", receiver.recv(8))
        found.append((time.perf_counter() - started) * 1e3)
        time.sleep(pause_s)
    return found


def connection(congestion_control: str, dilation: float) -> dict[str, Any]:
    """What the kernel says of a TCP connection between two hosts, on both sides of it, and of the route."""
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
        with entered(star.namespaces[0]):
            route = subprocess.run(["ip", "route"], capture_output=True, text=True, check=True).stdout
    return {
        "congestion_control": [name.rstrip(b"\0").decode() for name in names],
        "rto_ms": struct.unpack_from("=I", info, TCP_INFO_RTO)[0] / 1e3,
        "route": route,
    }


def ahead_behind_a_flood(backend: str, link: dict[str, float], seconds: float) -> dict[str, int]:
    """Bytes that reach a host before a packet that was sent after a flood, and those that its link's queues hold."""
    asked = Link(**link)
    with hosts(backend) as star:
        star.shape(asked)
        sender, receiver = datagrams(star, 0), datagrams(star, 1)
        child = os.fork()
        if child == 0:
            flood(sender, receiver.getsockname())
        time.sleep(seconds)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        before = carried(star)[3]
        one_way_ms(star, 0, 1, 1)
        ahead = carried(star)[3] - before
    in_flight = asked.latency_ms * asked.bandwidth_mbit * BYTES_PER_MS
    return {"ahead": ahead, "fits": int(2 * queue_bytes(asked) + in_flight)}  # out, and back from the router


def poured(backend: str, link: dict[str, float], senders: int, seconds: float) -> dict[str, Any]:
    """What arrives at one host while others send to it over TCP: from each, in all, and what its link allows."""
    asked = Link(**link)
    with hosts(backend, addresses=FOUR) as star, ExitStack() as stack:
        star.shape(asked)
        before, began = carried(star)[1], time.monotonic()
        server = stack.enter_context(listening(star, 0))
        receivers = []
        for host in range(1, senders + 1):
            client = stack.enter_context(connected(star, server, host))
            receivers.append(stack.enter_context(server.accept()[0]))
            if os.fork() == 0:
                _pour(client)
        arrived = [0] * senders
        while min(arrived) == 0 or time.monotonic() < began + seconds:
            for each in select.select(receivers, [], [], 0.1)[0]:
                arrived[receivers.index(each)] += len(each.recv(1 << 18))
        passed = carried(star)[1] - before
        return {
            "arrived": arrived,
            "carried": passed,
            "allowed": _allowed_bytes(asked, time.monotonic() - began),
        }


def _pour(endpoint: socket.socket) -> None:
    """Send for as long as the sandbox is there; nothing else may happen in a fork of the process."""
    try:
        while True:
            endpoint.sendall(bytes(1 << 16))
    finally:
        os._exit(0)


def dropped_when_opened(backend: str, megabytes: int) -> int:
    """How many frames vanish between two hosts that send to each other on a link that was opened after a lossy one."""
    with hosts(backend) as star:
        star.shape(Link(1000, 0, 5))
        star.shape(None)
        with listening(star, 1) as server, connected(star, server) as client, server.accept()[0] as accepted:
            before = _dropped(star)
            senders = [
                Thread(target=side.sendall, args=(bytes(megabytes << 20),)) for side in (client, accepted)
            ]
            takers = [Thread(target=_take, args=(side, megabytes << 20)) for side in (client, accepted)]
            for thread in (*senders, *takers):
                thread.start()
            for thread in (*senders, *takers):
                thread.join()
            return _dropped(star) - before


def _take(endpoint: socket.socket, count: int) -> None:
    while count > 0:
        count -= len(endpoint.recv(1 << 20))


def _dropped(star: Star) -> int:
    """Frames that the hosts' and the router's interfaces had no place for."""
    total = 0
    with IPRoute() as router:
        for port in star.backend.ports:
            (inner,) = port.netlink.get_links(port.index)
            (outer,) = router.get_links(ifname=port.name)
            for link in (inner, outer):
                counts = link.get_attr("IFLA_STATS64")
                total += counts["rx_dropped"] + counts["tx_dropped"]
    return total
