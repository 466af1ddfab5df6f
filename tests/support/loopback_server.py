"""A server on this machine's loopback address, for tests that fetch."""

import gzip
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Serve = Callable[[dict[str, bytes]], str]


@contextmanager
def serving() -> Iterator[Serve]:
    """What answers with {path: body} from then on, and gives its address, until the end of the `with`."""
    servers: list[ThreadingHTTPServer] = []
    ended = threading.Event()

    def start(bodies: dict[str, bytes]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/elsewhere":
                    self.send_response(302)
                    self.send_header("Location", "http://example.org/file")
                    self.end_headers()
                elif self.path == "/moved":
                    self.send_response(301)
                    self.send_header("Location", "/file")
                    self.end_headers()
                elif self.path == "/gzipped/file":
                    self._send(gzip.compress(bodies["file"]), encoding="gzip")
                elif self.path == "/dripping":
                    self._drip()
                elif self.path == "/silent":
                    ended.wait()
                elif self.path.lstrip("/") in bodies:
                    self._send(bodies[self.path.lstrip("/")], missing=5 if self.path == "/cut" else 0)
                else:
                    self.send_error(404)

            def _send(self, body: bytes, encoding: str = "identity", missing: int = 0) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(len(body) + missing))
                self.send_header("Content-Encoding", encoding)
                self.end_headers()
                with suppress(ConnectionError):  # who asked has heard enough
                    self.wfile.write(body)

            def _drip(self) -> None:
                self.send_response(200)
                self.send_header("Content-Length", str(1 << 20))
                self.end_headers()
                with suppress(ConnectionError):
                    while not ended.wait(0.01):
                        self.wfile.write(b"x")

            def log_message(self, *arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    ended.set()
    for server in servers:
        server.shutdown()
        server.server_close()
