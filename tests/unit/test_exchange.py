"""A benchmark of two programs."""

import sys
import time

import pytest

from ddlbench.probes.exchange import ExchangeFailed, Side, exchange

SILENT = "import time; time.sleep(60)"
SLOW_TO_LISTEN = """
import socket, time
time.sleep(0.3)
with socket.create_server(("127.0.0.1", {port})) as server:
    server.accept()[0].sendall(b"hello")
"""
CLIENT = """
import socket, sys
try:
    print(socket.create_connection(("127.0.0.1", {port})).recv(9).decode())
except OSError as error:
    sys.exit(str(error))
"""


def python(script):
    return Side([sys.executable, "-c", script], {})


def free_port():
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        return taken.getsockname()[1]


def test_a_client_that_comes_before_the_server_listens_comes_again():
    port = free_port()
    server, client = python(SLOW_TO_LISTEN.format(port=port)), python(CLIENT.format(port=port))
    assert exchange(server, client, timeout_s=20) == "hello\n"


@pytest.mark.parametrize(
    ("server", "client", "said"),
    [
        (SILENT, "import sys; sys.exit('no such device')", r"failed \(status 1\): no such device"),
        (SILENT, SILENT, "has been silent for 1 s"),
        (
            "raise SystemExit('port taken')",
            "import time; time.sleep(0.5); exit('refused')",
            r"\(status 1\): port taken",
        ),
    ],
)
def test_what_fails_or_falls_silent_is_told_in_words_and_soon(server, client, said):
    began = time.monotonic()
    with pytest.raises(ExchangeFailed, match=said):
        exchange(python(server), python(client), timeout_s=1)
    assert time.monotonic() - began < 10


def test_a_program_that_is_not_there_is_named():
    with pytest.raises(ExchangeFailed, match="no_such_program is not installed"):
        exchange(python(SILENT), Side(["no_such_program"], {}), timeout_s=1)
