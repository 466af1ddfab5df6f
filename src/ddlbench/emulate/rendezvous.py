"""The store in which Horovod's processes exchange their addresses; `horovodrun`, which would serve it, is not needed.

Horovod asks it over HTTP: GET, PUT and DELETE of `/scope/key`; what is not there yet is answered with 404.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from multiprocessing import get_context
from socketserver import ThreadingTCPServer

from ddlbench.emulate.variables import RENDEZVOUS_PORT
from ddlbench.system.namespaces import entered
from ddlbench.system.processes import die_with_parent

_LONGEST_BYTES = 1 << 20


@contextmanager
def serving(address: str, namespace: int) -> Iterator[None]:
    """Serve the store on a host, for the length of a `with`.

    Args:
        address: of the host.
        namespace: its network namespace, a file descriptor.

    Yields:
        Nothing; connections are accepted.

    Raises:
        OSError: the port cannot be opened.
    """
    with entered(namespace):
        server = _Store((address, RENDEZVOUS_PORT), _Request)
    process = get_context("fork").Process(target=_serve, args=(server,), daemon=True)
    with server:
        process.start()
    try:
        yield
    finally:
        process.kill()
        process.join()


class _Store(ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
    values: dict[str, bytes]


class _Request(BaseHTTPRequestHandler):
    server: _Store

    def do_GET(self) -> None:
        value = self.server.values.get(self.path)
        self._answer(HTTPStatus.NOT_FOUND if value is None else HTTPStatus.OK, value or b"")

    def do_PUT(self) -> None:
        length = int(self.headers.get("Content-Length", 0))
        if length > _LONGEST_BYTES:
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        self.server.values[self.path] = self.rfile.read(length)
        self._answer(HTTPStatus.OK)

    def do_DELETE(self) -> None:
        self.server.values.pop(self.path, None)
        self._answer(HTTPStatus.OK)

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _answer(self, status: HTTPStatus, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def _serve(server: _Store) -> None:
    die_with_parent()
    server.values = {}
    server.serve_forever()
