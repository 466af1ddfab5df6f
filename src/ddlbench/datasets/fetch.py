"""Fetching a file, only over https, within a time and size, and with the known checksum.

Pooch transfers it (https://www.fatiando.org/pooch); this module adds the limits that Pooch does not have.
"""

import io
import ipaddress
import ssl
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from threading import Timer
from typing import TYPE_CHECKING, Any
from urllib.parse import urljoin, urlsplit

from ddlbench.errors import DdlbenchError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from requests import Response

SILENCE_S = 30.0  # longest wait for the next byte
TOTAL_S = 300.0
SAID_EVERY_S = 5.0
_CHUNK_BYTES = 1 << 16


@dataclass(frozen=True)
class Expected:
    """A file that is to be fetched: what it is called in messages, its checksum, and its size."""

    name: str
    sha256: str
    size_bytes: int


def fetch(
    url: str, expected: Expected, *, advice: str, silence_s: float = SILENCE_S, total_s: float = TOTAL_S
) -> bytes:
    """Fetch a file. If it takes longer than some seconds, lines on stderr say how far it is.

    Args:
        url: its address: https, or http on this machine itself.
        expected: its name in messages, checksum and size.
        advice: what else somebody can do; the last words of an error.
        silence_s: the longest pause between two parts of the answer, in seconds.
        total_s: the longest time of the transfer, in seconds.

    Returns:
        The bytes of the file, whose checksum is the expected one.

    Raises:
        DdlbenchError: there is no answer, it takes too long, is too large, or is another file.
    """
    try:
        data = _transferred(url, expected.size_bytes, silence_s, total_s)
        if (found := sha256(data).hexdigest()) != expected.sha256:
            raise DdlbenchError(
                f"{url} is not {expected.name}: expected sha256 {expected.sha256}, found {found}"
            )
    except DdlbenchError as error:
        raise DdlbenchError(f"{error}. {advice}") from error
    except ValueError as error:  # the libraries take it for no address, or that of a redirection
        raise DdlbenchError(f"{url} could not be fetched: {error}. {advice}") from error
    return data


class _Body(io.BytesIO):
    """The received content, at most `most_bytes` of it."""

    def __init__(self, url: str, most_bytes: int) -> None:
        super().__init__()
        self.url, self.most_bytes, self.reported = url, most_bytes, time.monotonic()

    def write(self, chunk: Any) -> int:
        if self.tell() + len(chunk) > self.most_bytes:
            raise DdlbenchError(f"{self.url}: expected at most {self.most_bytes} bytes, found more")
        written = super().write(chunk)
        if (now := time.monotonic()) - self.reported > SAID_EVERY_S:
            self.reported = now
            progress = f"{self.tell() / 1e6:.1f} of {self.most_bytes / 1e6:.1f} MB"
            print(f"{self.url}: {progress}", file=sys.stderr, flush=True)
        return written


class _Deadline:
    """Stops a transfer after some time; a server that sends single bytes would never reach the limit of a pause."""

    def __init__(self, seconds: float) -> None:
        self._timer = Timer(seconds, self._stop)
        self._response: Response | None = None
        self.has_passed = False

    def applies_to(self, response: "Response", **_: Any) -> None:
        """Keep a response, so that it can be stopped; refuse a redirection to another scheme than https."""
        if response.is_redirect:
            _require_https(urljoin(response.url, response.headers["location"]))
        self._response = response
        if self.has_passed:
            self._stop()

    def _stop(self) -> None:
        self.has_passed = True
        if self._response is not None:
            with suppress(ValueError, RuntimeError, OSError):  # the transfer has just ended
                self._response.raw.shutdown()

    @contextmanager
    def running(self) -> "Iterator[None]":
        self._timer.daemon = True
        self._timer.start()
        try:
            yield
        finally:
            self._timer.cancel()


def _transferred(url: str, most_bytes: int, silence_s: float, total_s: float) -> bytes:
    """The content at an address."""
    import pooch
    import requests

    _require_https(url)
    body, deadline = _Body(url, most_bytes), _Deadline(total_s)
    download = pooch.HTTPDownloader(
        chunk_size=_CHUNK_BYTES,
        timeout=silence_s,
        headers={"User-Agent": "ddlbench", "Accept-Encoding": "identity"},
        hooks={"response": deadline.applies_to},
        verify=_certificates(),
        proxies=dict.fromkeys(("http", "https", "all"), "") if _is_loopback(url) else None,
    )
    try:
        with deadline.running():
            download(url, body, None)
    except requests.HTTPError as error:
        answer = error.response
        raise DdlbenchError(f"{url}: the server answered {answer.status_code} {answer.reason}") from error
    except requests.RequestException as error:
        if deadline.has_passed:
            raise DdlbenchError(f"{url}: not complete after {total_s:g} s ({body.tell()} bytes)") from error
        raise DdlbenchError(f"{url}{_reason(error)}") from error
    if deadline.has_passed:
        raise DdlbenchError(f"{url}: not complete after {total_s:g} s ({body.tell()} bytes)")
    return body.getvalue()


def _reason(error: BaseException) -> str:
    """Describe the first cause of a library's error, as the end of a message."""
    from urllib3.exceptions import IncompleteRead

    while below := error.__cause__ or error.__context__:
        error = below
    if isinstance(error, IncompleteRead):
        return f": {error.expected} bytes are missing after {error.partial}"
    return f" could not be fetched: {error}"


def _certificates() -> str | bool:
    """The authorities that this machine trusts (or SSL_CERT_FILE names); True, if it has none, means `certifi`."""
    known = ssl.get_default_verify_paths()
    return known.cafile or known.capath or True


def _require_https(url: str) -> None:
    scheme = urlsplit(url).scheme
    if scheme != "https" and not (scheme == "http" and _is_loopback(url)):
        raise DdlbenchError(f"{url}: only https addresses are fetched")


def _is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
