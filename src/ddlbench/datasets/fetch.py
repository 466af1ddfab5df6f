"""Fetching a small file over https, or not at all: bounded in time and size, redirected to https only."""

import ipaddress
import sys
import time
from http.client import HTTPException, HTTPMessage
from typing import IO
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, ProxyHandler, Request, build_opener

from ddlbench.errors import DdlbenchError

SILENCE_S = 30.0  # longest wait for the next byte
TOTAL_S = 300.0
SAID_EVERY_S = 5.0
_CHUNK_BYTES = 1 << 16


def fetch(
    url: str, *, max_bytes: int, advice: str = "", silence_s: float = SILENCE_S, total_s: float = TOTAL_S
) -> bytes:
    """The bytes at `url` (https; http from this machine itself only).

    Where it takes longer than a few seconds, it says from time to time how far it is.
    Raises DdlbenchError, ending with `advice`, where there is no answer, it takes longer than `total_s` seconds,
    pauses for `silence_s` seconds, or has more than `max_bytes`.
    """
    _require_https(url)
    started = said = time.monotonic()
    handlers = [_HttpsOnly(), *([ProxyHandler({})] if _is_loopback(url) else [])]
    data = bytearray()
    try:
        request = Request(url, headers={"User-Agent": "ddlbench"})
        with build_opener(*handlers).open(request, timeout=silence_s) as answer:
            expected = answer.length
            while chunk := answer.read1(_CHUNK_BYTES):
                data += chunk
                if len(data) > max_bytes:
                    raise DdlbenchError(
                        f"{url}: expected at most {max_bytes} bytes, found more. {advice}".rstrip()
                    )
                now = time.monotonic()
                if now - said > SAID_EVERY_S:
                    said = now
                    total = f" of {expected / 1e6:.1f}" if expected else ""
                    print(f"{url}: {len(data) / 1e6:.1f}{total} MB", file=sys.stderr, flush=True)
                if now - started > total_s:
                    raise DdlbenchError(
                        f"{url}: not complete after {total_s:g} s ({len(data)} bytes). {advice}".rstrip()
                    )
            if answer.length:  # what the server announced and did not send
                raise DdlbenchError(
                    f"{url}: {answer.length} bytes are missing after {len(data)}. {advice}".rstrip()
                )
    except HTTPError as error:
        raise DdlbenchError(
            f"{url}: the server answered {error.code} {error.reason}. {advice}".rstrip()
        ) from error
    except (URLError, OSError, HTTPException) as error:
        reason = getattr(error, "reason", None) or error
        raise DdlbenchError(f"{url} could not be fetched: {reason}. {advice}".rstrip()) from error
    return bytes(data)


class _HttpsOnly(HTTPRedirectHandler):
    """Follows redirects, but never out of https."""

    def redirect_request(
        self,
        req: Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> Request | None:
        _require_https(newurl)
        return super().redirect_request(req, fp, code, msg, headers, newurl)


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
