"""The API and the page: routes, and how mistakes become responses."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.responses import FileResponse, Response
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp
from threadpoolctl import threadpool_limits

from ddlbench import __version__
from ddlbench.prediction.answer import Answer, as_json, in_words
from ddlbench.prediction.estimate import estimates
from ddlbench.recommender import openapi_links, replies
from ddlbench.recommender.inquiry import about_intervals, options_for, recommended, understood
from ddlbench.recommender.learner import Learned
from ddlbench.recommender.library import Library
from ddlbench.recommender.middleware.answers import Answers
from ddlbench.recommender.middleware.guard import Guard
from ddlbench.recommender.middleware.observation import Measurements, Observed, for_prometheus
from ddlbench.recommender.refusals import MOST_PROBLEMS, REFUSALS, add_refusals, as_response
from ddlbench.recommender.requests import Filter, ImportQuery, PredictBody, RecommendBody
from ddlbench.recommender.serving import Serving, from_variable, token_of
from ddlbench.recommender.uploads import Upload, checked, take_over
from ddlbench.system.package import package_root
from ddlbench.system.processes import die_with_parent

PAGE = Path(package_root()) / "ddlbench/recommender/page"


def create() -> ASGIApp:
    """Make the application of this process, as the environment says.

    Returns:
        An ASGI application.
    """
    serving = from_variable()
    if serving.workers > 1:
        die_with_parent()
    threadpool_limits(1)  # answers are small and many: threads of linear algebra would wait for each other
    library = Library(serving)
    return Observed(Guard(Answers(api(serving, library), library), serving, token_of(serving)))


def api(serving: Serving, library: Library) -> FastAPI:
    """Make the routes.

    Args:
        serving: limits and folders.
        library: what is known.

    Returns:
        The application behind guard and memory.
    """
    app = FastAPI(
        title="ddlbench",
        version=__version__,
        description="How many workers to take, over what, at what price: by what was measured here.",
        lifespan=_keeping_fresh(library),
        docs_url=None,  # they load scripts from elsewhere
        redoc_url=None,
        responses=REFUSALS,
        generate_unique_id_function=lambda route: route.name,
    )
    add_refusals(app)

    @app.post("/recommend", response_model=replies.Recommendation)
    async def recommend(body: RecommendBody) -> Response:
        """How many workers to take, with which framework and strategy. A batch size and a latency suffice."""
        async with asyncio.timeout(serving.timeout_s):
            known = await library.learned(body.table)
            answer = await asyncio.to_thread(_answer, body, known, library)
        return as_response({**as_json(answer), "words": in_words(answer), "version": known.version})

    @app.post("/predict", response_model=replies.Predictions)
    async def predict(body: PredictBody) -> Response:
        """The time of a step, and of an epoch where its steps are known: as measured, else predicted."""
        async with asyncio.timeout(serving.timeout_s):
            known = await library.learned(body.table)
            predictions = await asyncio.to_thread(_predictions, body, known)
        return as_response(predictions)

    @app.post(
        "/import",
        name="import",
        response_model=replies.Imported,
        status_code=201,
        responses=openapi_links.OF_IMPORT,
        openapi_extra={
            "requestBody": {
                "required": True,
                "content": {
                    kind: {"schema": {"type": "string"}}
                    for kind in ("text/csv", "application/vnd.apache.parquet")
                },
            }
        },
    )
    async def import_(request: Request, query: Annotated[ImportQuery, Query()]) -> Response:
        """Take over a table of measurements from others (CSV or Parquet): all of its rows or none."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in (
            "text/csv",
            "application/vnd.apache.parquet",
        ):  # such as no form of another page can send
            raise HTTPException(415, "send a table as text/csv or application/vnd.apache.parquet")
        upload = Upload(query.name, query.column, query.header, query.images, query.leave_out_bad_rows)
        with TemporaryDirectory(dir=serving.folder) as folder:
            file = Path(folder) / "sent"
            with file.open("wb") as sent:
                async for part in request.stream():
                    sent.write(part)
            async with asyncio.timeout(serving.timeout_s):  # a thread goes on: it must not take over anything
                found = await asyncio.to_thread(checked, upload, file, serving.imported)
            await asyncio.to_thread(take_over, upload, found, serving.imported)
        await library.try_to_refresh()  # the table is taken over, whatever else cannot be read
        return as_response(replies.imported(query.name, found, MOST_PROBLEMS), status=201)

    @app.get("/measurements", response_model=replies.Measurements, responses=openapi_links.OF_MEASUREMENTS)
    async def measurements(query: Annotated[Filter, Query()]) -> Response:
        """Measured cells of all tables."""
        filters = {"table_name": query.table, **query.model_dump(exclude={"table", "limit", "offset"})}
        total, rows = await asyncio.to_thread(library.database.page, filters, query.limit, query.offset)
        return as_response({"total": total, "measurements": rows})

    @app.get("/choices", response_model=replies.Choices)
    async def choices() -> Response:
        """What can be asked: tables, names in them, machines."""
        tables = [
            {
                "name": each.name,
                "per": each.per,
                "measurements": each.count,
                "version": each.version,
                "problem": library.problem(each.name),
                "says_vcpus": bool(each.says_vcpus),  # SQLite has no other than 0 and 1
                "names": await asyncio.to_thread(library.database.names, each.name),
            }
            for each in library.stored.values()
        ]
        machines = [replies.machine(each, library.today()) for each in library.prices.values()]
        return as_response({"tables": tables, "machines": machines})

    @app.get("/health", response_model=replies.Health)
    async def health() -> Response:
        """Whether it answers, and from how many measurements."""
        status = "empty" if not library.stored else "learning" if library.learning else "ready"
        problems = {name: found for name in library.stored if (found := library.problem(name))}
        count = sum(each.count for each in library.stored.values())
        return as_response(
            {"status": status, "measurements": count, "learning": library.learning, "problems": problems}
        )

    @app.get("/metrics", responses={200: {"content": {"text/plain": {}}}}, response_class=Response)
    async def metrics() -> Response:
        """Numbers for Prometheus."""
        counts = Measurements({each.name: each.count for each in library.stored.values()})
        text = await asyncio.to_thread(for_prometheus, serving.folder / "metrics", counts)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    app.mount("/page", StaticFiles(directory=PAGE), name="page")
    return app


def _answer(body: RecommendBody, known: Learned, library: Library) -> Answer:
    """Answer a question, by tables of up to 100,000 rows: others are answered meanwhile."""
    question = understood(body, known.knowledge, library.prices)
    return recommended(question, known.knowledge, known.predictor, library.today())


def _predictions(body: PredictBody, known: Learned) -> dict[str, Any]:
    asked, knowledge = options_for(body, known.knowledge), known.knowledge
    epoch_steps = knowledge.epoch_steps(asked.cells[0])  # all are of the same model, images and batch
    found = estimates(known.predictor, knowledge.measured, asked.cells)
    return {
        "predictions": [replies.predicted(each, epoch_steps) for each in found],
        "per": knowledge.per,
        "assumed": dict(asked.assumed),
        "warnings": about_intervals(known.predictor, found),
        "version": known.version,
    }


def _keeping_fresh(library: Library) -> Callable[[FastAPI], AbstractAsyncContextManager[None]]:
    """Measurements are read anew as long as the application runs."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await (
            library.try_to_refresh()
        )  # what is there is known before the first answer; it is learned meanwhile
        refreshing = asyncio.create_task(library.keep_fresh())
        yield
        refreshing.cancel()
        with suppress(asyncio.CancelledError):
            await refreshing

    return lifespan
