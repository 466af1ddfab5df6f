"""A benchmark of two programs."""

import os
import socket
import sys

import pytest

from ddlbench.probes.exchange import ExchangeFailed, Side, exchange, serve

SILENT = "import time; time.sleep(3600)"  # who waited for its end would wait longer than a test may take
PATIENCE_S = 600.0
# A loopback address of this process: on 127.0.0.1 another test may take a port that was free a moment ago.
HERE = "127." + ".".join(str(1 + part % 254) for part in divmod(os.getpid(), 254)) + ".1"
LISTENS_AFTER_A_TRY = """
import pathlib, socket, time
while not pathlib.Path("{tried}").exists():
    time.sleep(0.01)
with socket.create_server(("{host}", {port})) as server:
    server.accept()[0].sendall(b"hello")
"""
CLIENT = """
import pathlib, socket, sys
try:
    print(socket.create_connection(("{host}", {port})).recv(9).decode())
except OSError as error:
    pathlib.Path("{tried}").touch()
    sys.exit(str(error))
"""


def python(script):
    return Side([sys.executable, "-c", script], {})


def free_port():
    with socket.create_server((HERE, 0)) as taken:
        return taken.getsockname()[1]


def test_a_client_that_comes_before_the_server_listens_comes_again(tmp_path):
    about = {"host": HERE, "port": free_port(), "tried": tmp_path / "tried"}
    server, client = (python(script.format(**about)) for script in (LISTENS_AFTER_A_TRY, CLIENT))
    assert exchange(server, client, timeout_s=PATIENCE_S, start_s=PATIENCE_S) == "hello\n"
    assert about["tried"].exists()


@pytest.mark.parametrize(
    ("server", "client", "timeout_s", "said"),
    [
        (
            SILENT,
            "import sys; sys.exit('no such device')",
            PATIENCE_S,
            r"failed \(status 1\): no such device",
        ),
        (SILENT, SILENT, 1, "has been silent for 1 s"),
        (
            "raise SystemExit('port taken')",
            "exit('refused')",  # again and again, until the server has ended
            PATIENCE_S,
            r"\(status 1\): port taken",
        ),
    ],
)
def test_what_fails_or_falls_silent_is_told_in_words_and_nobody_waits_for_the_other(
    server, client, timeout_s, said
):
    with pytest.raises(ExchangeFailed, match=said):
        exchange(python(server), python(client), timeout_s=timeout_s, start_s=PATIENCE_S)


def test_a_program_that_is_not_there_is_named():
    with pytest.raises(ExchangeFailed, match="no_such_program is not installed"):
        exchange(python(SILENT), Side(["no_such_program"], {}), timeout_s=1)


def test_who_waits_for_a_probe_says_so_if_none_has_come_and_ends_quietly_after_the_last_one():
    with pytest.raises(ExchangeFailed, match=r"no probe has come within 0\.2 s"):
        serve([python(SILENT)], timeout_s=0.2)

    def ends_quietly(timeout_s):
        try:
            serve([Side(["true"], {}), python(SILENT)], timeout_s=timeout_s)
        except ExchangeFailed:  # a busy machine has not run `true` within that
            return False
        return True

    assert any(ends_quietly(0.2 * 2**tries) for tries in range(12))  # 819 s in all
