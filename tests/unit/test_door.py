"""The door of a worker group: who is let in, and who is not."""

import json
import socket
import stat
import subprocess
import sys
from contextlib import suppress

import pytest

from ddlbench.launch.control_socket import Door
from ddlbench.system.package import package_root
from ddlbench.workers.common.channel import knock


def test_members_come_in_by_tcp_with_the_token_that_they_were_given():
    member = (
        "import sys; from ddlbench.workers.common.channel import Channel; Channel(sys.argv[1], 3).receive()"
    )
    with Door(host="127.0.0.1") as door:
        # A process of its own: it ends itself when its supervisor has gone.
        coming = subprocess.Popen(
            [sys.executable, "-c", member, door.address], env={"PYTHONPATH": package_root()}
        )
        connection, hello = door.answer(60) or pytest.fail("nobody came")
        assert hello["rank"] == 3
        connection.close()
        assert coming.wait(60) == 0


@pytest.mark.parametrize(
    "said",
    [
        b'{"event": "hello", "rank": 0}\n',
        b'{"event": "hello", "rank": 0, "token": "0123456789abcdef0123456789abcdef"}\n',
        b'{"event": "hello", "rank": 0, "token": "\xc3\xa9"}\n',
        b"GET / HTTP/1.1\r\n\r\n",
        b"[]\n",
        b"",
    ],
)
def test_strangers_are_sent_away_and_members_still_come_in(said):
    with Door(host="127.0.0.1") as door:
        port = int(door.address.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as stranger:
            stranger.sendall(said)
            stranger.shutdown(socket.SHUT_WR)
            assert door.answer(10) is None
            with suppress(ConnectionResetError):  # as it had more to say
                assert stranger.recv(1) == b""
        member, token = knock(door.address)
        with member:
            member.sendall(json.dumps({"event": "hello", "token": token}).encode() + b"\n")
            assert door.answer(10)


def test_what_a_member_says_while_it_waits_at_the_door_is_not_lost():
    with Door(host="127.0.0.1") as door:
        member, token = knock(door.address)
        with member:
            member.sendall(
                json.dumps({"event": "hello", "token": token}).encode() + b'\n{"event": "alive"}\n{"ev'
            )
            connection, hello = door.answer(10) or pytest.fail("it was sent away")
            with connection:
                assert hello["event"] == "hello"
                assert connection.recv(100) == b'{"event": "alive"}\n{"ev'


def test_the_door_is_at_the_one_address_that_members_are_given():
    with Door(host="127.0.0.1") as door, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", int(door.address.rpartition(":")[2])), 10)


@pytest.mark.parametrize("host", ["localhost", "198.51.100.1"])
def test_where_the_address_that_others_know_is_not_our_own_the_door_is_at_every_one(host):
    with Door(host=host) as door:
        assert f"@{host}:" in door.address
        socket.create_connection(("127.0.0.2", int(door.address.rpartition(":")[2])), 10).close()


def test_every_door_has_another_token():
    with Door(host="127.0.0.1") as one, Door(host="127.0.0.1") as other:
        assert one.address.partition("@")[0] != other.address.partition("@")[0]


def test_a_unix_door_takes_the_place_of_one_that_was_left(tmp_path):
    path = tmp_path / "run/control"
    with Door(path=path):
        pass
    with Door(path=path) as door:
        assert stat.S_ISSOCK(path.stat().st_mode)
        assert door.address == str(path)


def test_a_member_whose_heartbeats_have_begun_comes_in_and_none_of_them_is_lost(tmp_path):
    with Door(path=tmp_path / "control") as door:
        member, _ = knock(door.address)
        with member:
            member.sendall(b'{"event": "hello", "rank": 0}\n{"event": "alive"}\n{"eve')
            connection, hello = door.answer(10) or pytest.fail("nobody came in")
            assert hello["rank"] == 0
            assert connection.recv(100) == b'{"event": "alive"}\n{"eve'
            connection.close()
