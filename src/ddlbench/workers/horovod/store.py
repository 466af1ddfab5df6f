"""The store in which Horovod's processes exchange their addresses; `horovodrun`, which would serve it, is not needed.

Horovod asks it over HTTP: GET, PUT and DELETE of `/scope/key`. It waits for what is not there yet: Horovod would ask
again after 10 ms, and many processes more often than one can answer, until the kernel drops their connections, which
are tried again after seconds.
"""

from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from threading import Condition

_LONGEST_BYTES = 1 << 20
_LONGEST_WAIT_S = 1.0  # for a value; then Horovod asks again, if it is still there


class Store(ThreadingTCPServer):
    """Serves values, which processes set and others wait for.

    Args:
        address: where it listens, (host, port).

    Raises:
        OSError: the port cannot be opened.
    """

    allow_reuse_address = daemon_threads = True
    request_queue_size = 1024  # all processes come at once

    def __init__(self, address: tuple[str, int]) -> None:
        super().__init__(address, _Request)
        self.values: dict[str, bytes] = {}
        self.changed = Condition()


class _Request(BaseHTTPRequestHandler):
    server: Store

    def do_GET(self) -> None:
        values = self.server.values
        with self.server.changed:
            self.server.changed.wait_for(lambda: self.path in values, _LONGEST_WAIT_S)
            value = values.get(self.path)
        self._answer(HTTPStatus.NOT_FOUND if value is None else HTTPStatus.OK, value or b"")

    def do_PUT(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if length > _LONGEST_BYTES:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        value = self.rfile.read(length)
        with self.server.changed:
            self.server.values[self.path] = value
            self.server.changed.notify_all()
        self._answer(HTTPStatus.OK)

    def do_DELETE(self) -> None:
        with self.server.changed:
            self.server.values.pop(self.path, None)
        self._answer(HTTPStatus.OK)

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self, status: HTTPStatus, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
