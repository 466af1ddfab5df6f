"""`ddlbench serve`: its answers, what it refuses, what it limits."""

import json
import socket
import subprocess
import sys
from time import sleep

import pytest
import requests

from tests.support.recommender_server import ANWAR, CSV, served
from tests.support.remains import eventually

TABLE = {"table": "anwar"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with served(tmp_path_factory.mktemp("served")) as found:
        assert found.import_table("anwar", ANWAR).status_code == 201
        yield found


@pytest.mark.parametrize(("latency", "workers"), [(0, 4), (20, 3)])
def test_the_two_inputs_of_anwar2021_get_its_printed_answers(server, latency, workers):
    answer = server.post("recommend", {"batch_size": 64000, "latency_ms": latency} | TABLE)
    assert answer.status_code == 200
    best = answer.json()["best"]
    assert (best["workers"], best["is_measured"]) == (workers, True)
    assert answer.json()["words"].startswith(f"Take {workers} workers")


def test_an_answer_that_was_given_before_is_the_same_and_costs_nothing(server):
    question = {"batch_size": 32000, "latency_ms": 0} | TABLE
    first, again = server.post("recommend", question), server.post("recommend", question)
    assert again.json() == first.json()

    def were_cached() -> list[bool]:  # a line is written after the answer to its request
        lines = [json.loads(line) for line in server.log.read_text().splitlines()]
        return [each["cached"] for each in lines if each["message"] == "request"]

    assert eventually(lambda: were_cached()[-2:] == [False, True]), were_cached()


def test_a_prediction_has_the_measured_time_where_there_is_one(server):
    found = server.post("predict", {"batch_size": 64000, "latency_ms": 0, "workers": [3, 4]} | TABLE).json()
    assert [round(each["time_ms"]) for each in found["predictions"]] == [503_000, 419_000]
    assert [round(each["epoch_s"]) for each in found["predictions"]] == [503, 419]
    assert found["per"] == "epoch"
    assert "which is assumed" in found["warnings"][0]


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({}, "batch_size"),
        ({"batch_size": "64"}, "batch_size"),
        ({"batch_size": True}, "batch_size"),
        ({"batch_size": None}, "batch_size"),
        ({"batch_size": -1}, "batch_size"),
        ({"batch_size": float("nan")}, "batch_size"),
        ({"batch_size": float("inf")}, "batch_size"),
        ({"batch_size": 10**30}, "batch_size"),
        ({"batch_size": [64]}, "batch_size"),
        ({"batch_size": 64, "latency_ms": -1}, "latency_ms"),
        ({"batch_size": 64, "workers": [0]}, "workers.0"),
        ({"batch_size": 64, "workers": list(range(1, 100))}, "workers"),
        ({"batch_size": 64, "workers": [100]}, "workers"),
        ({"batch_size": 64, "modle": "conv1"}, "modle"),
        ({"batch_size": 64, "model": "überraschung ☃"}, "model"),
        ({"batch_size": 64, "model": "\ud800"}, "model"),
        ({"batch_size": 64, "strategy": "ring\0"}, "strategy"),
        ({"batch_size": 64, "machine": "t2.large"}, "machine"),
        ({"batch_size": 64, "beta": 1}, "beta"),
        ({"batch_size": 64, "alpha": 0}, "alpha"),
        ({"batch_size": 64, "images": 100}, "images"),
        ({"batch_size": 64, "table": "anwer"}, "table"),
    ],
)
def test_a_wrong_question_is_refused_with_its_field(server, wrong, field):
    text = json.dumps(({} if "table" in wrong else TABLE) | wrong)
    address, kind = f"{server.url}recommend", {"Content-Type": "application/json"}
    answer = requests.post(address, data=text, headers=kind, timeout=800)
    assert answer.status_code == 422
    assert field in [each["field"] for each in answer.json()["problems"]]


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[" * 30_000, b'{"batch_size": 1' + b"0" * 5000 + b"}", b"\xff\xfe"]
)
def test_what_is_no_json_is_refused(server, text):
    kind = {"Content-Type": "application/json"}
    answer = requests.post(f"{server.url}recommend", data=text, headers=kind, timeout=800)
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["message"]


def test_without_measurements_it_says_what_to_measure_and_sees_them_when_another_process_brings_them(
    tmp_path,
):
    with served(tmp_path) as server:
        assert server.get("health").json()["status"] == "empty"
        answer = server.post("recommend", {"batch_size": 64})
        assert answer.status_code == 409
        assert "make run" in answer.json()["problems"][0]["message"]
        (tmp_path / "theirs.csv").write_text(ANWAR)
        command = [sys.executable, "-m", "ddlbench.cli", "import", "theirs.csv"]
        assert subprocess.run(command, cwd=tmp_path, timeout=800).returncode == 0
        assert server.post("recommend", {"batch_size": 64000}).status_code == 200


def test_a_database_that_cannot_be_read_is_no_mistake_of_the_program(tmp_path):
    with served(tmp_path) as server:
        assert server.import_table("anwar", ANWAR).status_code == 201
        (database,) = tmp_path.rglob("measurements.sqlite")
        damaged = tmp_path / "damaged"
        damaged.write_bytes(b"no database" * 1000)
        damaged.replace(database)
        answer = server.get("measurements")
        assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
        assert "cannot be read" in answer.json()["problems"][0]["message"]
        database.unlink()
        while server.get("measurements").json().get("total") != 12:  # the next second makes it again
            sleep(0.1)


IMPORTS = {
    "missing column": ("workers,latency,step_time\n1,0,5\n", "batch_size"),
    "accuracy of 2.1": (
        "workers,batch_size,epoch_time,accuracy\n"
        + "".join(f"{i},64,9{i},0.97\n" for i in range(1, 15))
        + "15,64,9,2.1\n",
        "accuracy is 2.1",
    ),
    "blank": ("workers,batch_size,step_time\n1,64,5\n2,64,\n", "step_time is empty"),
    "mixed units": ("workers,batch_size,step_time\n1,64,5 ms\n2,64,5 Mbit\n", "does not fit"),
    "duplicate": ("workers,batch_size,step_time\n1,64,5\n1,64,5\n", "is the same as line 2"),
    "zip": (b"PK\x03\x04" + b"\0" * 100, "packed"),
    "no text": (b"\xff\xfe\0", "no text"),
    "negative": ("workers,batch_size,step_time\n1,64,5\n2,64,-5\n", "step_time is -5"),
}


@pytest.mark.parametrize("kind", IMPORTS)
def test_a_table_with_a_mistake_is_refused_by_line_and_nothing_of_it_is_there(server, kind):
    text, message = IMPORTS[kind]
    answer = server.import_table("wrong", text)
    assert answer.status_code == 422
    assert message in " ".join(each["message"] for each in answer.json()["problems"])
    assert not list(server.folder.glob("imported/*wrong*"))
    assert server.get("measurements", params={"table": "wrong"}).json()["total"] == 0


@pytest.mark.parametrize(
    ("asked", "total", "shown"),
    [
        ({}, 12, 12),
        ({"limit": 2, "offset": 11}, 12, 1),
        ({"offset": 100}, 12, 0),
        ({"workers": 4}, 4, 4),
        ({"workers": 4, "limit": 1}, 4, 1),
        ({"strategy": "' or 1 = 1 --"}, 0, 0),
    ],
)
def test_measurements_are_shown_by_pages(server, asked, total, shown):
    found = server.get("measurements", params=TABLE | asked).json()
    assert (found["total"], len(found["measurements"])) == (total, shown)
    assert {(each["table"], each["workers"]) for each in found["measurements"]} <= {
        ("anwar", workers) for workers in ([asked["workers"]] if "workers" in asked else [1, 2, 3, 4])
    }


def test_rows_with_mistakes_are_left_out_where_that_is_asked_for(server):
    text, _ = IMPORTS["accuracy of 2.1"]
    answer = server.import_table("mostly", text, leave_out_bad_rows=True).json()
    assert answer["rows"] == 14
    assert [each["line"] for each in answer["left_out"]] == [16]
    assert answer["left_out_count"] == 1
    assert server.get("measurements", params={"table": "mostly"}).json()["total"] == 14


def test_an_import_says_which_columns_it_took_and_as_what(server):
    text = "nodes,batch,Latency (ms),remark,epoch_time\n2,64,20,x,5\n"
    answer = server.import_table("columns", text).json()
    taken = {each["ours"]: (each["name"], each["unit"]) for each in answer["columns"]}
    assert taken["workers"] == ("nodes", None)
    assert taken["latency"] == ("Latency (ms)", "ms")
    assert taken["epoch_time"] == ("epoch_time", "s")
    assert answer["unused"] == ["remark"]


def test_a_table_is_never_replaced(server):
    assert server.import_table("anwar", ANWAR.replace("419", "1")).status_code == 409
    again = server.post("recommend", {"batch_size": 64000, "latency_ms": 0} | TABLE).json()
    assert round(again["best"]["time_s"]) == 419


def test_no_table_gets_the_name_of_what_was_measured_here(server):
    assert server.import_table("here", ANWAR).status_code == 409
    assert not list(server.folder.glob("imported/here*"))


@pytest.mark.parametrize("name", ["../x", "", ".x", "a/b", "ü", "x" * 61])
def test_a_table_has_a_plain_name(server, name):
    answer = server.import_table(name, ANWAR)
    assert answer.status_code == 422
    assert answer.json()["problems"][0]["field"] == "name"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Content-Length": str(1 << 30)}, 413),
        ({"Content-Encoding": "gzip"}, 415),
        ({"Content-Type": "multipart/form-data"}, 415),
        ({"Host": "evil.example"}, 421),
    ],
)
def test_what_no_client_of_ours_sends_is_refused_before_it_is_read(server, headers, status):
    lines = {"Host": "127.0.0.1", "Content-Length": "1000", **CSV, **headers}
    request = (
        "POST /import?name=large HTTP/1.1\r\n" + "".join(f"{k}: {v}\r\n" for k, v in lines.items()) + "\r\n"
    )
    assert _status(server, request) == status


def _status(server, request):
    host, port = server.url.removeprefix("http://").rstrip("/").split(":")
    with socket.create_connection((host, int(port)), timeout=800) as connection:
        connection.sendall(request.encode())
        return int(connection.recv(1000).split()[1])


def test_a_question_is_small(server):
    assert server.post("recommend", {"batch_size": 64, "model": "x" * 70_000}).status_code == 413


def test_each_response_forbids_scripts_of_others(server):
    for path in ("", "page/page.js", "health", "nowhere"):
        policy = server.get(path).headers["content-security-policy"]
        assert "script-src 'self'" in policy
        assert "unsafe" not in policy


def test_metrics_count_requests_and_measurements(server):
    text = server.get("metrics").text
    assert 'ddlbench_requests_total{method="POST",route="/recommend",status="200"}' in text
    assert 'ddlbench_measurements{table="anwar"} 12.0' in text


def test_who_asks_too_often_is_told_to_slow_down(tmp_path):
    with served(tmp_path, "--rate", "0.1") as server:
        assert server.get("health").status_code == 200
        # One within ten seconds of another is too soon.
        assert eventually(lambda: server.get("health").status_code == 429)


def test_a_body_that_does_not_come_is_not_waited_for(tmp_path):
    with served(tmp_path, "--timeout", "1") as server:
        lines = "Host: localhost\r\nContent-Length: 10\r\nContent-Type: application/json\r\n"
        request = f"POST /recommend HTTP/1.1\r\n{lines}\r\n{{"
        assert _status(server, request) == 408
