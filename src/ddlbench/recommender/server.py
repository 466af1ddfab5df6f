"""Serving: one process, or several that share a port; all end together, and answer first what they have begun."""

import os
import shutil
import signal
import socket
import sys
from dataclasses import replace
from types import FrameType

import uvicorn
from uvicorn.supervisors import Multiprocess

from ddlbench.errors import DdlbenchError
from ddlbench.recommender.serving import VARIABLE, Serving, token_of

APP = "ddlbench.recommender.app:create"
WAITING = 1024  # connections that are accepted and not yet looked at
MOST_CONNECTIONS = 1000  # of a process
IDLE_S = 15
HUNG_S = 60  # a process that does not answer the first one for so long is started anew
FINISH_S = 10  # for what has begun when it shall end


def serve(serving: Serving, port: int) -> int:
    """Serve until a signal comes.

    Args:
        serving: how; its folder gets a folder for this address and port.
        port: where; 0: any that is free.

    Returns:
        The exit status.

    Raises:
        ConfigError: a token is needed and missing.
        DdlbenchError: nothing can listen there; says why.
    """
    token_of(serving)
    listening = _listen(serving.host, port)
    address, port = listening.getsockname()[:2]
    serving = replace(serving, folder=serving.folder / f"serve-{address}-{port}")
    # Whoever listens there owns the folder; what is there is left from one that was killed.
    shutil.rmtree(serving.folder, ignore_errors=True)
    metrics = serving.folder / "metrics"
    metrics.mkdir(parents=True, mode=0o700)
    os.environ[VARIABLE] = serving.as_variable()
    os.environ["PROMETHEUS_MULTIPROC_DIR"] = str(metrics)
    shown = f"[{address}]" if ":" in address else address
    print(f"The recommender is at http://{shown}:{port}/  (Ctrl-C ends it)", file=sys.stderr, flush=True)
    try:
        return _run(serving, listening)
    finally:
        listening.close()
        shutil.rmtree(serving.folder, ignore_errors=True)


def _run(serving: Serving, listening: socket.socket) -> int:
    from ddlbench.recommender.middleware.observation import LOGGING

    config = uvicorn.Config(
        APP,
        factory=True,
        workers=serving.workers,
        host=serving.host,
        log_config=LOGGING,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=WAITING,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=IDLE_S,
        timeout_graceful_shutdown=FINISH_S,
        timeout_worker_healthcheck=HUNG_S,
        ws="none",
    )
    if serving.workers > 1:
        ended_by: list[int] = []
        processes = Multiprocess(config, sockets=[listening])
        for number in (signal.SIGINT, signal.SIGTERM):
            _note(number, ended_by)
        processes.run()
        return 128 + ended_by[0] if ended_by else 1
    server = uvicorn.Server(config)
    signal.signal(signal.SIGTERM, _end)
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:  # raised again by uvicorn after it has ended
        return 128 + signal.SIGINT
    return 0 if server.started else 1


def _end(number: int, frame: FrameType | None) -> None:
    """What uvicorn's raising of the signal again does, after it has ended."""
    raise SystemExit(128 + number)


def _note(number: int, ended_by: list[int]) -> None:
    """Remember a signal, and let its handler have it."""
    handler = signal.getsignal(number)

    def noted(received: int, frame: FrameType | None) -> None:
        ended_by.append(received)
        if callable(handler):
            handler(received, frame)

    signal.signal(number, noted)


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except OSError as error:
        raise DdlbenchError(
            f"{host}:{port} cannot be listened on ({error.strerror or error}); choose another  --port"
        ) from None
    listening.listen(WAITING)
    listening.set_inheritable(True)
    return listening
