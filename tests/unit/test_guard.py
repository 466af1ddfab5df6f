"""What a request of the recommender must pass."""

import asyncio
from pathlib import Path

from ddlbench.recommender.middleware import guard
from ddlbench.recommender.serving import Serving


def test_twenty_requests_at_once_are_answered_at_any_rate_and_files_of_the_page_do_not_count(monkeypatch):
    monkeypatch.setattr(guard, "monotonic", lambda: 0.0)
    here = Path()
    serving = Serving("127.0.0.1", 64, here, here, here, here, 0.1, 1.0, 1.0, None)
    guarded = guard.Guard(_answers, serving, None)
    assert [_status(guarded, "/recommend") for _ in range(21)] == 20 * [200] + [429]
    assert {_status(guarded, path) for path in ("/", "/page/page.js", "/favicon.ico")} == {200}
    assert _status(guarded, "/health") == 429


async def _answers(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})


def _status(guarded, path):
    sent = []

    async def send(message):
        sent.append(message)

    host = [(b"host", b"localhost")]
    scope = {"type": "http", "path": path, "headers": host, "client": ("127.0.0.1", 1)}
    asyncio.run(guarded(scope, None, send))
    return sent[0]["status"]
