"""The control socket of a worker group: whom it accepts, and whom it does not."""

import resource
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import pytest

from ddlbench.launch.control_socket import ControlSocket, tcp_socket, unix_socket
from ddlbench.protocol.channel import connect
from ddlbench.protocol.codec import encode
from ddlbench.protocol.messages import FROM_MEMBER, Alive, Hello, Trained
from ddlbench.system.package import package_root


def tcp(host: str = "127.0.0.1") -> ControlSocket[Hello]:
    return tcp_socket(host, greetings=(Hello,), kinds=FROM_MEMBER)


def unix(path: Path) -> ControlSocket[Hello]:
    return unix_socket(path, greetings=(Hello,), kinds=FROM_MEMBER)


def port_of(control: ControlSocket[Hello]) -> int:
    return int(control.address.rpartition(":")[2])


def test_a_member_is_accepted_by_tcp_with_the_token_that_it_was_given():
    member = (
        "import sys; from ddlbench.workers.common.control import Control; Control(sys.argv[1], 3).command()"
    )
    with tcp() as control:
        # A process of its own: it ends itself when its supervisor has gone.
        connecting = subprocess.Popen(
            [sys.executable, "-c", member, control.address], env={"PYTHONPATH": package_root()}
        )
        channel, hello = control.accept(60) or pytest.fail("nobody connected")
        assert hello.rank == 3
        channel.close()
        assert connecting.wait(60) == 0


@pytest.mark.parametrize(
    "sent",
    [
        encode(Hello(0, 1)),
        encode(Hello(0, 1, "0123456789abcdef0123456789abcdef")),
        encode(Hello(0, 1, "\xe9")),
        encode(Hello(0, 1, "\ud800")),
        encode(Alive()),
        encode(Trained(train_loss=1.5)).replace(b"1.5", b"1" + 400 * b"0"),
        b'{"kind": "Hello", "rank": "first", "pid": 1}\n',
        b"[" * 100_000 + b"\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"[]\n",
        b"",
    ],
)
def test_a_stranger_is_disconnected_and_members_are_still_accepted(sent):
    with tcp() as control, socket.create_connection(("127.0.0.1", port_of(control))) as stranger:
        stranger.sendall(sent)
        stranger.shutdown(socket.SHUT_WR)
        member, token = connect(control.address)
        with member:
            member.sendall(encode(Hello(0, 1, token)))
            assert control.accept(60)
        with suppress(ConnectionResetError):  # as it had sent more
            assert stranger.recv(1) == b""


@pytest.mark.parametrize("strangers", [20, 1100])
def test_nobody_waits_for_strangers_that_are_silent(strangers, many_descriptors):
    with tcp() as control, ExitStack() as stack:
        for _ in range(strangers):
            stack.enter_context(socket.create_connection(("127.0.0.1", port_of(control))))
            control.accept(0)
        member, token = connect(control.address)
        with member:
            member.sendall(encode(Hello(0, 1, token)))
            assert control.accept(60)  # one after another they would be silent for 20 s each


@pytest.fixture
def many_descriptors() -> Iterator[None]:
    """More of them than select(2) takes, for this process alone."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8192, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_what_a_member_sends_while_it_waits_to_be_accepted_is_not_lost(tmp_path):
    with unix(tmp_path / "control") as control:
        member, _ = connect(control.address)
        with member:
            rest = encode(Alive())
            member.sendall(encode(Hello(0, 1)) + encode(Alive()) + rest[:4])
            channel, hello = control.accept(60) or pytest.fail("nobody connected")
            with closing(channel):
                assert hello == Hello(0, 1)
                member.sendall(rest[4:])
                assert [channel.receive(60), channel.receive(60)] == [Alive(), Alive()]


def test_it_listens_at_the_one_address_that_members_are_given():
    with tcp() as control, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", port_of(control)), 10)


@pytest.mark.parametrize("host", ["localhost", "198.51.100.1"])
def test_if_the_address_that_others_know_is_not_our_own_it_listens_at_every_one(host):
    with tcp(host) as control:
        assert f"@{host}:" in control.address
        socket.create_connection(("127.0.0.2", port_of(control)), 10).close()


def test_every_control_socket_has_another_token():
    with tcp() as one, tcp() as other:
        assert one.address.partition("@")[0] != other.address.partition("@")[0]


def test_a_unix_socket_takes_the_place_of_one_that_was_left(tmp_path):
    path = tmp_path / "run/control"
    with unix(path):
        pass
    with unix(path) as control:
        assert stat.S_ISSOCK(path.stat().st_mode)
        assert control.address == str(path)
