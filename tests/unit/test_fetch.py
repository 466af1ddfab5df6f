"""Fetching: a file is whole and the one that was expected, or the error says why not; time and size are bounded."""

from hashlib import sha256

import pytest

from ddlbench.datasets.fetch import Expected, fetch
from ddlbench.errors import DdlbenchError
from tests.support.loopback_server import Serve

pytestmark = pytest.mark.unit

ADVICE = "Try this."
CONTENT = bytes(range(256)) * 4000  # more than one piece of it


def like(content: bytes) -> Expected:
    return Expected("the file", sha256(content).hexdigest(), len(content))


def message(url: str, expected: Expected | None = None, **bounds: float) -> str:
    with pytest.raises(DdlbenchError) as caught:
        fetch(url, expected or like(CONTENT), advice=ADVICE, **bounds)
    assert str(caught.value).endswith(f". {ADVICE}")
    return str(caught.value)


def test_the_file_that_is_expected_is_fetched(serve: Serve) -> None:
    url = serve({"file": CONTENT})
    assert fetch(f"{url}/file", like(CONTENT), advice=ADVICE) == CONTENT
    assert fetch(f"{url}/moved", like(CONTENT), advice=ADVICE) == CONTENT


def test_another_file_is_refused(serve: Serve) -> None:
    url, other = serve({"file": CONTENT}), like(CONTENT[::-1])
    found = sha256(CONTENT).hexdigest()
    assert message(f"{url}/file", other).startswith(
        f"{url}/file is not the file: expected sha256 {other.sha256}, found {found}"
    )


@pytest.mark.parametrize("compression", ["", "/gzipped"])
def test_a_file_that_is_too_large_is_refused(serve: Serve, compression: str) -> None:
    url = serve({"file": CONTENT})
    most = len(CONTENT) - 1
    found = message(f"{url}{compression}/file", Expected("the file", "", most))
    assert f"expected at most {most} bytes, found more" in found


def test_a_file_that_ends_too_early_is_refused(serve: Serve) -> None:
    assert "5 bytes are missing after 3" in message(f"{serve({'cut': b'abc'})}/cut")


def test_a_server_that_sends_a_byte_now_and_then_is_not_waited_for_longer_than_allowed(serve: Serve) -> None:
    assert "not complete after 0.2 s" in message(f"{serve({})}/dripping", total_s=0.2)


def test_a_server_that_says_nothing_is_not_waited_for_longer_than_allowed(serve: Serve) -> None:
    assert "could not be fetched: timed out" in message(f"{serve({})}/silent", silence_s=0.1)


def test_an_error_of_the_server_is_reported(serve: Serve) -> None:
    assert "answered 404 Not Found" in message(f"{serve({})}/file")


def test_a_server_that_is_not_there_is_reported(serve: Serve) -> None:
    assert "could not be fetched: [Errno 111] Connection refused" in message("http://127.0.0.1:1/file")


@pytest.mark.parametrize("url", ["https://[::1/file", f"https://{'a' * 300}/file"])
def test_what_is_no_address_is_told(url: str) -> None:
    assert message(url).startswith(f"{url} could not be fetched: ")


@pytest.mark.parametrize("url", ["http://example.org/file", "file:///etc/hostname", "ftp://127.0.0.1/file"])
def test_only_https_is_fetched_from_elsewhere(url: str) -> None:
    assert f"{url}: only https" in message(url)


def test_a_redirect_does_not_lead_out_of_https(serve: Serve) -> None:
    assert "http://example.org/file: only https" in message(f"{serve({})}/elsewhere")


def test_a_proxy_is_not_asked_for_what_is_on_this_machine(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    assert fetch(f"{serve({'file': CONTENT})}/file", like(CONTENT), advice=ADVICE) == CONTENT
