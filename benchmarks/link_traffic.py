"""What is sent over emulated links to find out what they carry, none of it by the product's own check of links."""

import json
import os
import select
import selectors
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from time import monotonic, sleep, time_ns

from benchmarks.groups import become
from ddlbench.errors import DdlbenchError
from ddlbench.network.hosts import Host
from ddlbench.network.link import Link
from ddlbench.network.star import Star
from ddlbench.probes.compiled_ping_pong import compiled
from ddlbench.probes.ping_pong import answer, listening, probe
from ddlbench.system.namespaces import enter, entered
from ddlbench.system.processes import die_with_parent

RECEIVE_BUFFER_FORCE, RECEIVE_TIME = 33, 35  # SO_RCVBUFFORCE, SO_TIMESTAMPNS
LOAD_BYTES = 1472
GAP_S = 0.004
LOSS_BYTES = 100
PORT = 9100
CHUNK_BYTES = 1 << 16
MESSAGE_BYTES = 8 << 20


# ------------------------------------------------------------------------------------------------ goodput


def probe_mbit(star: Star, messages: int) -> list[float]:
    """What our point-to-point probe finds for messages of 8 MB, in Mbit/s of data, one value a message."""
    exchange = compiled()
    with entered(star.namespaces[1]):
        listener = listening(star.addresses[1])
    with listener, entered(star.namespaces[0]):
        child = os.fork()
        if child == 0:
            try:
                die_with_parent()
                enter(star.namespaces[1])
                answer(listener, timeout_s=30, exchange=exchange)
            finally:
                os._exit(0)
        times_s, vanished = probe(
            star.addresses[1],
            listener.getsockname()[1],
            [MESSAGE_BYTES],
            needs_more=lambda values: len(values) < messages,
            timeout_s=30,
            exchange=exchange,
        )
        os.waitpid(child, 0)
    if vanished:
        raise vanished
    return [MESSAGE_BYTES * 8e-6 / each for each in times_s[MESSAGE_BYTES]]


def iperf3_mbit(star: Star, hosts: Sequence[Host], link: Link, seconds: float) -> float:
    """What iperf3's receiver gets, in Mbit/s, after slow start and what follows it."""
    slow_start_s = 1 + round(link.latency_ms / 10)
    with _running(["iperf3", "-s", "-1", "--forceflush", "-B", star.addresses[1]], star, hosts, 1) as server:
        assert server.stdout is not None
        while "listening" not in (line := server.stdout.readline()):
            if not line:
                raise DdlbenchError("iperf3's server did not start")
        client = ["iperf3", "-c", star.addresses[1], "-C", "cubic", "-J"]
        client += ["-t", f"{seconds:g}", "-O", f"{slow_start_s}"]
        with _running(client, star, hosts, 0) as process:
            told = json.loads(process.communicate(timeout=seconds + slow_start_s + 60)[0])
    if "error" in told:
        raise DdlbenchError(f"iperf3 over {link}: {told['error']}")
    return float(told["end"]["sum_received"]["bits_per_second"]) / 1e6


@contextmanager
def _running(
    command: Sequence[str], star: Star, hosts: Sequence[Host], number: int
) -> "Iterator[subprocess.Popen[str]]":
    """A command on an emulated host, ended at the end."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=become(hosts[number], star.namespaces[number]),
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


# ------------------------------------------------------------------------------------------------ latency


def one_way_ms(star: Star, link: Link, packets: int, *, load: float) -> list[float]:
    """One-way times of small packets from the first host to the second, from `send` to that host's kernel.

    load: how much of the rate other packets of the same host take meanwhile, evenly spread.
    """
    times_ms: list[float] = []
    per_gap = round(load * link.bandwidth_mbit * 1e6 / 8 * GAP_S / LOAD_BYTES)
    with _socket(star, 0) as source, _socket(star, 1) as target, _socket(star, 1) as sink:
        target.setsockopt(socket.SOL_SOCKET, RECEIVE_TIME, 1)
        sent: list[int] = []
        began = monotonic()
        deadline = began + packets * GAP_S + link.latency_ms / 1000 + 5
        while len(times_ms) < packets and monotonic() < deadline:
            if len(sent) < packets and monotonic() >= began + len(sent) * GAP_S:
                number = struct.pack("=I", len(sent))
                sent.append(time_ns())
                source.sendto(number, target.getsockname())
                for _ in range(per_gap):
                    source.sendto(bytes(LOAD_BYTES), sink.getsockname())
            for ready in select.select([target, sink], [], [], GAP_S / 10)[0]:
                with suppress(BlockingIOError):
                    while ready is sink:
                        sink.recv(2048)
                    packet, [(_, _, arrived)], _, _ = target.recvmsg(64, 64)
                    seconds, nanoseconds = struct.unpack("=qq", arrived)
                    arrived_ns = seconds * 1_000_000_000 + nanoseconds
                    times_ms.append((arrived_ns - sent[struct.unpack("=I", packet)[0]]) / 1e6)
    if len(times_ms) < packets:
        raise DdlbenchError(f"{packets - len(times_ms)} of {packets} packets never came over {link}")
    return times_ms


# ------------------------------------------------------------------------------------------------ loss


def lost(star: Star, sender: int, packets: int) -> int:
    """How many numbered packets the other host never sees, sent as fast as the link takes them."""
    with _socket(star, sender) as source, _socket(star, 1 - sender) as target:
        target.setsockopt(socket.SOL_SOCKET, RECEIVE_BUFFER_FORCE, 64 << 20)
        seen: set[int] = set()
        for number in range(packets):
            packet = struct.pack("=I", number).ljust(LOSS_BYTES)
            while True:
                try:
                    source.sendto(packet, target.getsockname())
                    break
                except BlockingIOError:
                    select.select([target], [source], [])
                    _read(target, seen)
            if number % 64 == 0:
                _read(target, seen)
        while select.select([target], [], [], 0.5)[0]:
            _read(target, seen)
    return packets - len(seen)


def _read(target: socket.socket, seen: set[int]) -> None:
    with suppress(BlockingIOError):
        while True:
            seen.add(struct.unpack("=I", target.recv(2048)[:4])[0])


def _socket(star: Star, host: int) -> socket.socket:
    with entered(star.namespaces[host]):
        endpoint = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    endpoint.bind((star.addresses[host], 0))
    endpoint.setblocking(False)
    return endpoint


# ------------------------------------------------------------------------------------------------ all pairs


def all_pairs_mbit(star: Star, settle_s: float, seconds: float) -> list[float]:
    """What each host's data make over TCP, in Mbit/s, while each sends to each other, received bytes counted."""
    hosts = range(len(star.addresses))
    with ExitStack() as stack:
        listeners = []
        for host in hosts:
            with entered(star.namespaces[host]):
                server = socket.create_server((star.addresses[host], PORT), backlog=len(hosts))
            listeners.append(stack.enter_context(server))
        begin = monotonic() + 0.5 + settle_s
        ends = []
        for host in hosts:
            read, write = os.pipe()
            if os.fork() == 0:
                try:
                    die_with_parent()
                    enter(star.namespaces[host])
                    found = _exchange(star.addresses, host, listeners[host], begin, begin + seconds)
                    os.write(write, json.dumps(found).encode())
                except Exception as error:
                    print(f"host {host}: {error!r}", file=sys.stderr, flush=True)
                finally:
                    os._exit(0)
            os.close(write)
            ends.append(stack.enter_context(os.fdopen(read)))
        received = [json.loads(end.read() or "{}") for end in ends]
        for _ in hosts:
            os.wait()
    return [
        sum(from_others.get(address, 0) for from_others in received) * 8e-6 / seconds
        for address in star.addresses
    ]


def _exchange(
    addresses: Sequence[str], own: int, listener: socket.socket, begin: float, end: float
) -> dict[str, int]:
    """Send to all others and receive from them; bytes received between `begin` and `end`, by sender."""
    received: dict[str, int] = {}
    buffer, chunk = bytearray(CHUNK_BYTES * 4), bytes(CHUNK_BYTES)
    with selectors.DefaultSelector() as selector:
        for address in addresses:
            if address != addresses[own]:
                out = socket.create_connection((address, PORT), timeout=10)
                out.setblocking(False)
                selector.register(out, selectors.EVENT_WRITE)
        listener.setblocking(False)
        selector.register(listener, selectors.EVENT_READ)
        while (now := monotonic()) < end:
            for key, _ in selector.select(0.1):
                endpoint = key.fileobj
                assert isinstance(endpoint, socket.socket)
                if endpoint is listener:
                    accepted, sender = listener.accept()
                    accepted.setblocking(False)
                    selector.register(accepted, selectors.EVENT_READ, sender[0])
                elif key.events == selectors.EVENT_WRITE:
                    with suppress(BlockingIOError, ConnectionError):
                        endpoint.send(chunk)
                else:
                    with suppress(BlockingIOError, ConnectionError):
                        count = endpoint.recv_into(buffer)
                        if now >= begin:
                            received[key.data] = received.get(key.data, 0) + count
        sleep(0.5)  # whoever is late still finds all others
    return received
