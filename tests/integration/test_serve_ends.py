"""How `ddlbench serve` ends: by signals, killed, and in the middle of an import."""

import signal
import socket
import time

import psutil
import pytest

from tests.support.recommender_server import ANWAR, CSV, served
from tests.support.remains import eventually

pytestmark = pytest.mark.long


@pytest.mark.parametrize("workers", [1, 2])
def test_it_ends_with_its_signal_and_leaves_nothing(tmp_path, workers):
    with served(tmp_path, "--workers", str(workers)) as server:
        assert server.get("health").status_code == 200
        processes = psutil.Process(server.process.pid).children(recursive=True)
        assert server.end(signal.SIGTERM) == 143
    _, alive = psutil.wait_procs(processes, timeout=800)
    assert not alive
    assert not list((tmp_path / "logs").iterdir())


def test_workers_answer_alike_and_end_with_a_first_process_that_is_killed(tmp_path):
    with served(tmp_path, "--workers", "2") as server:
        assert server.import_table("anwar", ANWAR).status_code == 201
        question = {"batch_size": 64000, "latency_ms": 20, "table": "anwar"}
        answers = [server.post("recommend", question) for _ in range(8)]
        assert {each.json()["best"]["workers"] for each in answers} == {3}
        counted = 'route="/recommend",status="200"} 8.0'  # each after its answer
        assert eventually(lambda: counted in server.get("metrics").text)
        workers = psutil.Process(server.process.pid).children(recursive=True)
        server.end(signal.SIGKILL)
        psutil.wait_procs(workers, timeout=800)
        assert not [each for each in workers if each.is_running() and each.status() != "zombie"]


def test_an_import_whose_server_is_killed_is_not_half_there(tmp_path):
    with served(tmp_path) as server:
        assert server.import_table("before", ANWAR).status_code == 201
        host, port = server.url.removeprefix("http://").rstrip("/").split(":")
        with socket.create_connection((host, int(port)), timeout=800) as connection:
            lines = {"Host": "localhost", "Content-Length": str(len(ANWAR)), **CSV}
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            connection.sendall(f"POST /import?name=half HTTP/1.1\r\n{head}\r\n{ANWAR[:-40]}".encode())
            while not list(tmp_path.glob("logs/*/*/sent")):  # it is being received
                time.sleep(0.05)
            server.end(signal.SIGKILL)
    assert [path.name for path in (tmp_path / "imported").iterdir()] == ["before.csv"]
    with served(tmp_path) as server:
        assert server.get("health").json()["measurements"] == 12
        assert server.import_table("half", ANWAR).status_code == 201


def test_servers_of_two_addresses_with_the_same_port_leave_each_others_files(tmp_path):
    with served(tmp_path) as first:
        assert first.import_table("anwar", ANWAR).status_code == 201
        port = first.url.rstrip("/").rsplit(":", 1)[1]
        with served(tmp_path, "--host", "127.0.0.2", "--port", port) as second:
            assert second.get("health").json()["measurements"] == 12
            assert len(list(tmp_path.glob("logs/*/measurements.sqlite"))) == 2
        assert first.get("measurements").json()["total"] == 12
        assert 'route="/import"' in first.get("metrics").text


def test_what_has_begun_is_answered_before_it_ends(tmp_path):
    with served(tmp_path) as server:
        assert server.get("health").status_code == 200
        host, port = server.url.removeprefix("http://").rstrip("/").split(":")
        with socket.create_connection((host, int(port)), timeout=800) as connection:
            lines = {"Host": "localhost", "Content-Length": str(len(ANWAR)), **CSV}
            head = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
            connection.sendall(f"POST /import?name=late HTTP/1.1\r\n{head}\r\n{ANWAR[:-40]}".encode())
            while not list(tmp_path.glob("logs/*/*/sent")):
                time.sleep(0.05)
            server.process.send_signal(signal.SIGTERM)
            connection.sendall(ANWAR[-40:].encode())
            assert connection.recv(1000).split()[1] == b"201"
        assert server.process.wait(timeout=800) == 143
    assert (tmp_path / "imported/late.csv").is_file()
