"""Who may ask `ddlbench serve`: this machine, and others that have its token."""

import os
import subprocess
import sys

import pytest

from tests.support.recommender_server import served

TOKEN = "0123456789abcdef-secret"


def test_other_machines_need_a_token_which_is_in_no_log(tmp_path):
    with served(tmp_path, "--host", "0.0.0.0", variables={"DDLBENCH_TOKEN": TOKEN}) as server:
        server.url = server.url.replace("0.0.0.0", "127.0.0.1")
        assert server.get("choices").status_code == 401
        assert server.get("").status_code == 200
        server.headers = {"Authorization": f"Bearer {TOKEN}x"}
        assert server.get("choices").status_code == 401
        server.headers = {"Authorization": f"Bearer {TOKEN}"}
        assert server.get("choices").status_code == 200
        assert server.get(f"choices?token={TOKEN}").status_code in (200, 422)
    assert TOKEN not in server.log.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "requests need a token"),
        (["--host", "0.0.0.0", "--token-file", "short"], "at least 16"),
        (["--token-file", "readable"], "others can read"),
    ],
)
def test_it_does_not_start_open_to_others(tmp_path, arguments, message):
    for name, text, mode in (("short", "x", 0o600), ("readable", TOKEN, 0o644)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    command = [sys.executable, "-m", "ddlbench.cli", "serve", "--port", "0", *arguments]
    environment = {name: value for name, value in os.environ.items() if name != "DDLBENCH_TOKEN"}
    answer = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=800
    )
    assert answer.returncode == 2
    assert message in answer.stderr
    assert TOKEN not in answer.stderr
