"""How mistakes become responses: the field and what is wrong with it, and nothing of what runs here."""

import json
import logging
import sqlite3
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from ddlbench.errors import DdlbenchError, DiskFull, has_no_room
from ddlbench.prediction.question import Unanswerable
from ddlbench.recommender import replies
from ddlbench.recommender.library import NothingMeasured, Unreadable
from ddlbench.recommender.uploads import BadRows, TakenName

log = logging.getLogger("ddlbench.serve")
MOST_PROBLEMS = 100  # that are shown
GONE = 499  # as nginx notes it: whoever asked does not wait for the answer, so nobody gets this one
REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": replies.Problems, "description": what}
    for status, what in {
        401: "A token is needed.",
        408: "The body did not arrive in time.",
        409: "Nothing was measured, too little, or the name is taken.",
        413: "The body is too large.",
        415: "The body is compressed, or of another kind.",
        421: "The host is not the one that is served.",
        422: "The field that is wrong, and why.",
        429: "Too many requests.",
        503: "It takes longer than a request may, or files of the server cannot be read or written now.",
        507: "The server's disk is full.",
    }.items()
}


def as_response(content: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Make a response of JSON data.

    Args:
        content: the data.
        status: of HTTP.
        headers: more of them.

    Returns:
        The response, in ASCII.
    """
    text = json.dumps(content, allow_nan=False, separators=(",", ":"))
    return Response(text, status, headers, media_type="application/json")


def _refused(
    status: int, problems: list[dict[str, Any]], headers: Mapping[str, str] | None = None
) -> Response:
    return as_response({"problems": problems}, status, headers)


def add_refusals(app: FastAPI) -> None:
    """Make responses of the errors that routes raise.

    Args:
        app: whose routes.
    """

    @app.exception_handler(RequestValidationError)
    async def invalid(_: Request, error: RequestValidationError) -> Response:
        problems = [
            replies.problem(".".join(map(str, each["loc"][1:])) or None, each["msg"])
            for each in error.errors()
        ]
        return _refused(422, problems[:MOST_PROBLEMS])

    @app.exception_handler(HTTPException)
    async def refused(_: Request, error: HTTPException) -> Response:
        if error.status_code == 400:  # of FastAPI alone, about a body that is no text, or too deep
            return _refused(422, [replies.problem("body", "this is no JSON in UTF-8, or too deep")])
        return _refused(error.status_code, [replies.problem(None, str(error.detail))], error.headers)

    @app.exception_handler(DdlbenchError)
    async def impossible(_: Request, error: DdlbenchError) -> Response:
        match error:
            case Unanswerable():
                return _refused(422, [replies.problem(error.key, error.problem)])
            case BadRows():
                rows = [replies.problem("body", what, line) for line, what in error.mistakes[:MOST_PROBLEMS]]
                return _refused(422, [replies.problem("body", str(error)), *rows])
            case NothingMeasured() | Unreadable() | TakenName():
                return _refused(409, [replies.problem(None, str(error))])
        return _refused(422, [replies.problem("body", str(error))])

    @app.exception_handler(TimeoutError)
    async def late(_: Request, error: TimeoutError) -> Response:
        message = (
            "it takes longer than a request may: what was measured is being learned, or others ask; try again"
        )
        return _refused(503, [replies.problem(None, message)], {"Retry-After": "5"})

    @app.exception_handler(sqlite3.Error)
    async def unreadable(_: Request, error: sqlite3.Error) -> Response:
        log.warning("the database cannot be read", extra={"problem": str(error)})
        return _refused(
            503,
            [replies.problem(None, "the database of measurements cannot be read or written now; try again")],
            {"Retry-After": "5"},
        )

    @app.exception_handler(DiskFull)
    @app.exception_handler(OSError)
    async def unwritable(_: Request, error: DiskFull | OSError) -> Response:
        log.warning("a file cannot be read or written", extra={"problem": str(error)})
        if isinstance(error, DiskFull) or has_no_room(error):
            return _refused(507, [replies.problem(None, "the disk of the server is full: make room there")])
        message = "the server cannot read or write a file now, its log says which; try again"
        return _refused(503, [replies.problem(None, message)], {"Retry-After": "5"})

    @app.exception_handler(ClientDisconnect)
    async def gone(_: Request, error: ClientDisconnect) -> Response:
        return Response(status_code=GONE)

    @app.exception_handler(Exception)
    async def broken(_: Request, error: Exception) -> Response:
        return _refused(500, [replies.problem(None, "this is a mistake of ddlbench; its log says which")])
