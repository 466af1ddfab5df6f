"""Tables that are sent to the recommender, and what goes wrong while they are."""

import asyncio
import errno
import os
import threading
from dataclasses import replace

import pytest
from test_import import imported

from ddlbench.recommender import app as app_module
from ddlbench.recommender import replies
from ddlbench.recommender.serving import Serving

ROWS = b"workers,batch_size,step_time\n1,64,10\n"


@pytest.fixture
def serving(tmp_path):
    folders = {name: tmp_path / name for name in ("tables", "imported", "folder")}
    for folder in folders.values():
        folder.mkdir()
    limits = {"rate": 1.0, "timeout_s": 0.01, "learning_s": 1.0}
    prices = tmp_path / "prices.yaml"
    return Serving(host="127.0.0.1", workers=1, prices=prices, token_file=None, **folders, **limits)


def sent(serving, *messages, answered=None):
    """The status of the answer to a table that comes in these messages; the event says when it is there."""
    waiting, statuses = list(messages), []

    async def receive():
        return waiting.pop(0)

    async def send(message):
        statuses.append(message.get("status"))
        if answered:
            answered.set()

    scope = {"type": "http", "method": "POST", "path": "/import", "query_string": b"name=theirs"}
    scope |= {"headers": [(b"content-type", b"text/csv")]}
    asyncio.run(app_module.api(serving, app_module.Library(serving))(scope, receive, send))
    return statuses[0]


def test_whoever_leaves_in_the_middle_of_a_table_is_no_mistake_of_ours(serving):
    part = {"type": "http.request", "body": ROWS[:30], "more_body": True}
    assert sent(serving, part, {"type": "http.disconnect"}) == 499
    assert not list(serving.imported.iterdir())


def test_a_table_that_takes_too_long_is_refused_and_not_taken_over_later(serving, monkeypatch):
    answered, checked = threading.Event(), app_module.checked

    def slowly(*arguments):
        found = checked(*arguments)
        answered.wait(60)
        return found

    monkeypatch.setattr(app_module, "checked", slowly)
    whole = {"type": "http.request", "body": ROWS, "more_body": False}
    assert sent(serving, whole, answered=answered) == 503
    assert not list(serving.imported.iterdir())


@pytest.mark.parametrize(("number", "status"), [(errno.ENOSPC, 507), (errno.EIO, 503)])
@pytest.mark.parametrize(("of", "writing"), [(app_module, "TemporaryDirectory"), (os, "fsync")])
def test_a_full_or_broken_disk_of_the_server_is_no_mistake_of_the_table(
    serving, monkeypatch, of, writing, number, status
):
    def failing(*_, **__):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(of, writing, failing)
    whole = {"type": "http.request", "body": ROWS, "more_body": False}
    assert sent(replace(serving, timeout_s=60.0), whole) == status
    assert not list(serving.imported.iterdir())


def test_all_rows_that_were_left_out_are_counted_though_not_all_are_listed(tmp_path):
    found = imported(ROWS.decode() + "0,64,10\n" * 3, tmp_path)
    reply = replies.Imported(**replies.imported("theirs", found, 2))
    assert (len(reply.left_out), reply.left_out_count) == (2, 3)
