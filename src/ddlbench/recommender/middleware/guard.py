"""What each request must pass: host, rate, token, size and time of its body; and the headers of each response."""

import asyncio
import hmac
import json
from collections import OrderedDict
from time import monotonic

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ddlbench.prediction.foreign.files import MOST_BYTES
from ddlbench.recommender.serving import MOST_BODY_BYTES, Serving, is_loopback

IMPORT = "/import"
HEALTH = "/health"  # without a token
FILES = ("/", "/favicon.ico")  # without a token, and they do not count; nor does what is below PAGE
PAGE = "/page/"
LEAST_BURST = 20  # requests at once, however low the rate: to ask on the page, and again, takes fewer
MOST_CLIENTS = 10_000  # whose rates are remembered
Header = tuple[bytes, bytes]
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS: list[Header] = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
]


class Rates:
    """How many requests each client may still send: a bucket that fills by `rate` a second, for two seconds or more."""

    def __init__(self, rate: float) -> None:
        """Begin with full buckets.

        Args:
            rate: requests a second of one client.
        """
        self.rate, self.most = rate, max(LEAST_BURST, 2 * rate)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def takes(self, client: str) -> bool:
        """Take one request of a client.

        Args:
            client: its address.

        Returns:
            Whether it may be answered.
        """
        now = monotonic()
        left, then = self._left.pop(client, (self.most, now))
        left = min(self.most, left + (now - then) * self.rate)
        self._left[client] = (left - 1 if left >= 1 else left, now)
        if len(self._left) > MOST_CLIENTS:
            self._left.popitem(last=False)
        return left >= 1


class Guard:
    """ASGI: refuses what must not be answered."""

    def __init__(self, app: ASGIApp, serving: Serving, token: bytes | None) -> None:
        """Guard an application.

        Args:
            app: what answers.
            serving: its limits.
            token: that requests must have; None: none.
        """
        self.app, self.serving, self.token = app, serving, token
        self.rates = Rates(serving.rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse to."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        has_begun = False

        async def sending(message: Message) -> None:
            nonlocal has_begun
            if message["type"] == "http.response.start":
                has_begun = True
                message["headers"] = [*message["headers"], *HEADERS]
            await send(message)

        try:
            headers = dict(scope["headers"])
            self._check(scope, headers)
            await self.app(scope, self._limited(scope["path"], headers, receive), sending)
        except HTTPException as refused:
            if has_begun:
                raise
            await _refuse(refused, sending)

    def _check(self, scope: Scope, headers: dict[bytes, bytes]) -> None:
        if self.serving.is_loopback and not _is_named_loopback(headers.get(b"host", b"")):
            # A page from elsewhere whose name was pointed at this machine would ask like this.
            raise HTTPException(
                421, "this is served on the loopback address alone: ask 127.0.0.1 or localhost"
            )
        path = scope["path"]
        is_file = path in FILES or path.startswith(PAGE)
        client = scope["client"][0] if scope.get("client") else ""
        if not is_file and not self.rates.takes(client):
            raise HTTPException(429, "too many requests: slow down", {"Retry-After": "1"})
        if self.token and path != HEALTH and not is_file:
            given = headers.get(b"authorization", b"")
            if not hmac.compare_digest(given, b"Bearer " + self.token):
                raise HTTPException(
                    401, "a token is needed:  Authorization: Bearer TOKEN", {"WWW-Authenticate": "Bearer"}
                )
        if headers.get(b"content-encoding", b"identity") != b"identity":
            raise HTTPException(415, "send the body as it is, not compressed")

    def _limited(self, path: str, headers: dict[bytes, bytes], receive: Receive) -> Receive:
        most = MOST_BYTES if path == IMPORT else MOST_BODY_BYTES
        length = headers.get(b"content-length", b"0")
        if length.isdigit() and int(length[:20]) > most:
            raise _too_large(most)
        got, is_whole = 0, False
        deadline: float | None = None

        async def receiving() -> Message:
            nonlocal got, is_whole, deadline
            if is_whole:
                return await receive()
            loop = asyncio.get_running_loop()
            deadline = deadline or loop.time() + self.serving.timeout_s
            try:
                async with asyncio.timeout_at(deadline):
                    message = await receive()
            except TimeoutError:
                limit = f"the body did not arrive within {self.serving.timeout_s:g} s"
                raise HTTPException(408, limit, {"Connection": "close"}) from None
            got += len(message.get("body", b""))
            is_whole = not message.get("more_body", False)
            if got > most:
                raise _too_large(most)
            return message

        return receiving


def _too_large(most: int) -> HTTPException:
    size = f"{most >> 20} MiB" if most >> 20 else f"{most >> 10} KiB"
    return HTTPException(413, f"the body is larger than {size}", {"Connection": "close"})


def _is_named_loopback(host: bytes) -> bool:
    name = host.decode("latin-1")
    name = name[1 : name.find("]")] if name.startswith("[") else name.partition(":")[0]
    return is_loopback(name)


async def _refuse(refused: HTTPException, send: Send) -> None:
    body = json.dumps({"problems": [{"field": None, "line": None, "message": refused.detail}]}).encode()
    extra = [(name.lower().encode(), value.encode()) for name, value in (refused.headers or {}).items()]
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), *extra]
    await send({"type": "http.response.start", "status": refused.status_code, "headers": headers})
    await send({"type": "http.response.body", "body": body})
