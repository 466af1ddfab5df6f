"""Horovod's store: values that processes set, and that others may ask for before."""

import socket
from collections.abc import Iterator
from http.client import HTTPConnection
from threading import Thread

import pytest

from ddlbench.workers.horovod import store
from ddlbench.workers.horovod.store import Store


@pytest.fixture
def address() -> Iterator[tuple[str, int]]:
    with Store(("127.0.0.1", 0)) as served:
        thread = Thread(target=served.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield served.server_address
        served.shutdown()
        thread.join()


@pytest.fixture
def impatient(monkeypatch) -> None:
    monkeypatch.setattr(store, "_LONGEST_WAIT_S", 0.0)


def ask(address: tuple[str, int], method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
    connection = HTTPConnection(*address)
    connection.request(method, path, body)
    answer = connection.getresponse()
    return answer.status, answer.read()


def test_what_one_process_sets_others_get(address):
    assert ask(address, "PUT", "/global/0", b"10.66.0.1:4000") == (200, b"")
    assert ask(address, "GET", "/global/0") == (200, b"10.66.0.1:4000")


def test_a_process_that_asks_too_early_is_answered_when_the_value_is_there(address, monkeypatch):
    monkeypatch.setattr(store, "_LONGEST_WAIT_S", 600.0)
    with socket.create_connection(address) as early:
        early.sendall(b"GET /global/1 HTTP/1.1\r\n\r\n")
        ask(address, "PUT", "/global/1", b"10.66.0.2:4000")
        assert early.makefile("rb").read().endswith(b"\r\n\r\n10.66.0.2:4000")


def test_a_value_that_does_not_come_is_not_found(address, impatient):
    assert ask(address, "GET", "/global/2") == (404, b"")


def test_a_value_that_was_deleted_is_not_found(address, impatient):
    ask(address, "PUT", "/global/0", b"10.66.0.1:4000")
    assert ask(address, "DELETE", "/global/0") == (200, b"")
    assert ask(address, "DELETE", "/global/0") == (200, b"")
    assert ask(address, "GET", "/global/0") == (404, b"")


def test_a_value_that_is_too_long_is_refused(address, impatient):
    with socket.create_connection(address) as talkative:
        talkative.sendall(b"PUT /global/0 HTTP/1.1\r\nContent-Length: 2000000\r\n\r\n")
        assert talkative.makefile("rb").readline().split()[1] == b"413"
    assert ask(address, "GET", "/global/0") == (404, b"")
