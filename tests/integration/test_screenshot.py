"""The server that pictures of the page are taken of."""

import pytest
import requests

from ddlbench.recommender.screenshot import served
from tests.support.recommender_server import ANWAR

pytestmark = pytest.mark.long


def test_the_page_that_is_photographed_asks_for_no_token(tmp_path, monkeypatch):
    monkeypatch.setenv("DDLBENCH_TOKEN", "0123456789abcdef")
    (tmp_path / "anwar.csv").write_text(ANWAR)
    with served(tmp_path / "anwar.csv", tmp_path) as address:
        (table,) = requests.get(f"{address}choices", timeout=300).json()["tables"]
    assert table["name"] == "anwar"
