"""The point-to-point probe: its sizes, and what it does when the other end is not what it should be."""

import os
import signal
import socket
import struct
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from ddlbench.probes import ping_pong as pingpong
from ddlbench.probes.compiled_ping_pong import compiled
from ddlbench.probes.ping_pong import MOST_BYTES, PeerVanished, answer, listening, probe, sizes

# The first sizes of a curve by NetPIPE 3.7 itself (NPtcp without options).
NETPIPES = [
    1, 2, 3, 4, 6, 8, 12, 13, 16, 19, 21, 24, 27, 29, 32, 35, 45, 48, 51, 61, 64, 67, 93, 96, 99, 125, 128, 131,
    189, 192, 195, 253, 256, 259,
]  # fmt: skip
HEADER = struct.Struct("!QQ")
PATIENCE_S = 600.0  # with a peer that a busy machine has put aside


def twice(values):
    return len(values) < 2


@pytest.fixture(params=["python", "compiled"])
def exchange(request):
    return compiled() if request.param == "compiled" else pingpong.exchange


@pytest.fixture(params=["python", "compiled"])
def answering(request):
    """A peer that answers one probe on loopback; gives its port."""
    exchange = compiled() if request.param == "compiled" else pingpong.exchange
    with listening("127.0.0.1") as listener:
        peer = threading.Thread(target=answer, args=(listener, PATIENCE_S), kwargs={"exchange": exchange})
        peer.start()
        yield listener.getsockname()[1]
        peer.join()


@pytest.fixture
def rude():
    """A peer that takes what comes and does as it is told with the connection."""
    peers = []

    def start(conduct):
        listener = listening("127.0.0.1")

        def work():
            with listener, listener.accept()[0] as connection:
                conduct(connection)

        peers.append(threading.Thread(target=work))
        peers[-1].start()
        return listener.getsockname()[1]

    yield start
    for peer in peers:
        peer.join()


def test_the_sizes_are_netpipes():
    assert sizes()[: len(NETPIPES)] == NETPIPES
    assert sizes()[-3:] == [(8 << 20) - 3, 8 << 20, (8 << 20) + 3]


def test_sizes_end_where_they_are_told_to():
    assert max(sizes(1000)) == 771  # 768 and three more
    assert sizes(1) == [1, 2, 3]


def test_every_size_is_timed_as_often_as_asked(answering, exchange):
    wanted = [*sizes(4096), 1 << 20]  # the largest comes in parts
    times_s, vanished = probe(
        "127.0.0.1", answering, wanted, needs_more=twice, timeout_s=PATIENCE_S, exchange=exchange
    )
    assert vanished is None
    assert set(times_s) == set(wanted)
    assert {len(values) for values in times_s.values()} == {2}
    assert all(value > 0 for values in times_s.values() for value in values)


def test_a_peer_that_closes_leaves_the_values_that_were_whole(rude, exchange):
    def answers_seven_batches(connection):
        for _ in range(7):
            header = connection.recv(HEADER.size, socket.MSG_WAITALL)
            size, trips = HEADER.unpack(header)
            connection.sendall(header)
            for _ in range(trips):
                connection.sendall(connection.recv(size, socket.MSG_WAITALL))

    port = rude(answers_seven_batches)
    times_s, vanished = probe(
        "127.0.0.1", port, [1, 2, 4, 8], needs_more=twice, timeout_s=PATIENCE_S, exchange=exchange
    )
    assert isinstance(vanished, PeerVanished)
    assert "127.0.0.1 has closed the connection" in str(vanished)
    # Of each two batches, the first opens the windows: 1, 2 and 4 bytes came whole, and 8 never did.
    assert {size: len(values) for size, values in times_s.items()} == {1: 1, 2: 1, 4: 1, 8: 0}
    assert all(value > 0 for values in times_s.values() for value in values)


def test_a_peer_that_closes_amid_a_message_leaves_no_value_of_it(rude, exchange):
    def answers_a_part(connection):
        connection.sendall(connection.recv(HEADER.size, socket.MSG_WAITALL))
        connection.sendall(connection.recv(1000, socket.MSG_WAITALL)[:-1])

    port = rude(answers_a_part)
    times_s, vanished = probe(
        "127.0.0.1", port, [1000], needs_more=twice, timeout_s=PATIENCE_S, exchange=exchange
    )
    assert "127.0.0.1 has closed the connection" in str(vanished)
    assert times_s == {1000: []}


def test_who_asks_for_endless_messages_gets_none():
    with listening("127.0.0.1") as listener, ThreadPoolExecutor(1) as pool:
        told = pool.submit(answer, listener, PATIENCE_S)
        with socket.create_connection(listener.getsockname()) as connection:
            connection.sendall(HEADER.pack(2 * MOST_BYTES, 1))
            assert connection.recv(1) == b""
        with pytest.raises(PeerVanished, match=f"asks for messages of {2 * MOST_BYTES} bytes"):
            told.result()


def test_a_peer_that_is_silent_amid_a_message_is_given_up(rude, exchange):
    released = threading.Event()

    def answers_a_part(connection):
        connection.sendall(connection.recv(HEADER.size, socket.MSG_WAITALL) + b"1")
        released.wait()

    port = rude(answers_a_part)
    try:
        _, vanished = probe("127.0.0.1", port, [2], needs_more=twice, timeout_s=0.3, exchange=exchange)
    finally:
        released.set()
    assert "127.0.0.1 has been silent for too long" in str(vanished)


def test_a_peer_that_is_not_there_is_named():
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with pytest.raises(PeerVanished, match=f"127.0.0.1 port {port} cannot be reached"):
        probe("127.0.0.1", port, [1], needs_more=twice, timeout_s=PATIENCE_S)


def test_who_waits_for_a_probe_does_not_wait_for_ever():
    with (
        listening("127.0.0.1") as listener,
        pytest.raises(PeerVanished, match=r"no probe has come within 0\.1 s"),
    ):
        answer(listener, 0.1)


@pytest.fixture
def interruptible():
    """A shell that runs the tests in its background has them ignore SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_who_is_interrupted_while_a_peer_is_silent_ends_at_once(rude, exchange):
    released = threading.Event()

    def echoes_the_header(connection):
        connection.sendall(connection.recv(HEADER.size, socket.MSG_WAITALL))
        interrupt = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
        interrupt.start()
        released.wait()
        interrupt.join()

    port = rude(echoes_the_header)
    try:
        with pytest.raises(
            KeyboardInterrupt
        ):  # who only notices when the time is up notices after this test's
            probe("127.0.0.1", port, [1], needs_more=twice, timeout_s=3600, exchange=exchange)
    finally:
        released.set()
