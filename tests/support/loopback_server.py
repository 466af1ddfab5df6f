"""A server on this machine's loopback address, for tests that fetch."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Serve = Callable[[dict[str, bytes]], str]


@contextmanager
def serving() -> Iterator[Serve]:
    """What answers with {path: body} from then on, and gives its address, until the end of the `with`."""
    servers: list[ThreadingHTTPServer] = []

    def start(bodies: dict[str, bytes]) -> str:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                if self.path == "/elsewhere":
                    self.send_response(302)
                    self.send_header("Location", "http://example.org/file")
                    self.end_headers()
                elif self.path.lstrip("/") in bodies:
                    body = bodies[self.path.lstrip("/")]
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(body) + (5 if self.path == "/cut" else 0)))
                    self.end_headers()
                    self.wfile.write(body)
                else:
                    self.send_error(404)

            def log_message(self, *arguments: object) -> None:
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return f"http://127.0.0.1:{server.server_port}"

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()
