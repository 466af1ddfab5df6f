"""What is seen of the requests: a line of JSON for each, and numbers for Prometheus that all processes share."""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.multiprocess import MultiProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ddlbench.recommender.middleware.answers import CACHED

ROUTES = ("/", "/recommend", "/predict", "/import", "/measurements", "/choices", "/health", "/metrics")
BUCKETS_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30)
LOGGING: dict[str, Any] = {  # of uvicorn too
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "json": {
            "()": "pythonjsonlogger.json.JsonFormatter",
            "format": "%(asctime)s %(levelname)s %(name)s %(process)d %(message)s",
            "rename_fields": {"asctime": "time", "levelname": "level", "name": "logger", "process": "pid"},
        }
    },
    "handlers": {
        "stdout": {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", "formatter": "json"}
    },
    "loggers": {
        name: {"handlers": ["stdout"], "level": "INFO", "propagate": False}
        for name in ("ddlbench.serve", "uvicorn")
    },
}
log = logging.getLogger("ddlbench.serve")

requests_total = Counter("ddlbench_requests", "Requests.", ["route", "method", "status"])
cached_total = Counter("ddlbench_cached_answers", "Answers that had been given before.")
request_seconds = Histogram(
    "ddlbench_request_seconds", "Time until the end of a response.", ["route"], buckets=BUCKETS_S
)


class Observed:
    """ASGI: counts, times and logs requests. Headers, bodies and queries are in no log."""

    def __init__(self, app: ASGIApp) -> None:
        """Observe an application.

        Args:
            app: what answers.
        """
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and note it down."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status = perf_counter(), 500

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, sending)
        finally:
            took_s = perf_counter() - began
            route = scope["path"] if scope["path"] in ROUTES else "other"
            requests_total.labels(route, _method(scope), status).inc()
            request_seconds.labels(route).observe(took_s)
            if is_cached := CACHED in scope:
                cached_total.inc()
            log.info(
                "request",
                extra={
                    "method": scope["method"],
                    "path": scope["path"],
                    "status": status,
                    "ms": round(1000 * took_s, 3),
                    "client": scope["client"][0] if scope.get("client") else None,
                    "cached": is_cached,
                },
            )


def _method(scope: Scope) -> str:
    return scope["method"] if scope["method"] in ("GET", "HEAD", "POST", "OPTIONS") else "other"


@dataclass(frozen=True, eq=False)  # the registry needs a hash
class Measurements:
    """How many measured cells there are now, which every process knows: a table that is deleted is gone from here too.

    Attributes:
        counts: of tables, by name.
    """

    counts: Mapping[str, int]

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Give prometheus_client the numbers.

        Yields:
            The metric.
        """
        found = GaugeMetricFamily("ddlbench_measurements", "Measured cells.", labels=["table"])
        for table, count in self.counts.items():
            found.add_metric([table], count)
        yield found


def for_prometheus(folder: Path, measurements: Measurements) -> bytes:
    """Write the numbers of all processes.

    Args:
        folder: where they keep them.
        measurements: of tables.

    Returns:
        Text in Prometheus' format.
    """
    registry = CollectorRegistry()
    MultiProcessCollector(registry, path=str(folder))  # type: ignore[no-untyped-call]
    registry.register(measurements)
    return generate_latest(registry)
