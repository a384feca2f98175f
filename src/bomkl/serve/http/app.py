"""The application: routes that predict and learn, and what the schema says about them."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import Response
from fastapi_offline import FastAPIOffline
from pydantic.json_schema import models_json_schema
from pydantic_core import to_json

from bomkl import __version__
from bomkl.serve.errors import RefusedError, wrong
from bomkl.serve.formats.bodies import ARROW, JSON, NDJSON, Parsed, Parser, label_body, learn_body, predict_body
from bomkl.serve.http.answers import REFUSALS, JsonResponse, Learned, LearnedRows, Prediction, Predictions, Problem
from bomkl.serve.http.guard import Guard, Post
from bomkl.serve.http.limits import Intake
from bomkl.serve.http.live import add_page
from bomkl.serve.http.reading import add_reading
from bomkl.serve.http.traffic import Traffic
from bomkl.serve.requests.feed import Feed
from bomkl.serve.requests.predictor import MOST_EXPLAINED
from bomkl.serve.requests.service import Service
from bomkl.serve.requests.work import Work

_LONGEST_KEY = 200
_PREFIX = "/v1"


def make_app(
    service: Service, token: str | None = None, metrics_token: str | None = None, feed: Feed | None = None
) -> Any:
    """Make the ASGI application of a service.

    `service`: what to serve; the application starts and stops it. `token`: bearer token that requests must carry.
    `metrics_token`: bearer token that opens the metrics and nothing else. `feed`: a broker whose rows the service
    learns from.
    """
    traffic = Traffic()
    stopping = asyncio.Event()

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        tasks = [asyncio.create_task(_sample(service, traffic))]
        if feed is not None:
            tasks.append(asyncio.create_task(_feed(feed, service)))
        yield
        stopping.set()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await service.stop()

    app = FastAPIOffline(
        title="bomkl serve",
        version=__version__,
        description="Predict now, learn from the label later, lose nothing.",
        lifespan=lifespan,
        default_response_class=JsonResponse,
    )
    app.state.stopping = stopping
    app.add_exception_handler(RefusedError, _refuse)
    posts = _add_learning(app, service, traffic)
    add_reading(app, service, traffic, feed)
    add_page(app)
    _document(app)
    routes = frozenset(getattr(route, "path", "") for route in app.routes)
    guarded = Guard(app, traffic, routes, posts, service.down, token, metrics_token)
    guarded.stopping = stopping  # type: ignore[attr-defined]
    guarded.openapi = app.openapi  # type: ignore[attr-defined]
    return guarded


async def _sample(service: Service, traffic: Traffic) -> None:
    while True:
        with contextlib.suppress(RefusedError):
            traffic.sample(await service.read(lambda learner: learner.monitor.rows))
        await asyncio.sleep(1.0)


async def _feed(feed: Feed, service: Service) -> None:
    try:
        await feed.run(service)
    except Exception as error:
        service.fail(error)


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return JsonResponse(error.body, error.status, error.headers)


# ------------------------------------------------------------ learning and predicting

_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Any string that is unique to this request. A request that comes again with it learns nothing more "
    "and gets the same answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": _LONGEST_KEY, "pattern": "^[!-~]+$"},
}
_INTERVAL = {
    "name": "interval",
    "in": "query",
    "required": False,
    "description": "For regression: adds the ends of an interval that contains this share of the targets.",
    "schema": {"type": "number", "minimum": 0.5, "maximum": 0.99},
}
_EXPLAIN = {
    "name": "explain",
    "in": "query",
    "required": False,
    "description": f"Whether to add reasons for each prediction, of at most {MOST_EXPLAINED} rows.",
    "schema": {"type": "boolean"},
}
_SINGLE = {"predictions": "prediction", "explanations": "explanation"}


def _add_learning(app: FastAPI, service: Service, traffic: Traffic) -> dict[str, Post]:
    intake = Intake()

    @app.post(
        "/v1/predict",
        openapi_extra={**_body(predict_body), "parameters": [_INTERVAL, _EXPLAIN]},
        responses={200: {"model": Prediction | Predictions}, **REFUSALS},
    )
    async def predict(request: Request) -> Response:
        """Predict one row or several. Rows with an `id` are kept until their label comes."""
        interval, explain = _asked_for(request.query_params) if request.scope["query_string"] else (None, False)
        async with intake.content(request, predict_body) as (body, content_type):
            parsed = predict_body(body, content_type)
            work = Work(parsed.rows, parsed.where, ids=parsed.ids, interval=interval, explain=explain)
            found = await service.predict(work)
        traffic.predicted += work.size
        if parsed.single:
            return JsonResponse({_SINGLE.get(name, name): v[0] if name != "rows" else v for name, v in found.items()})
        if each := found.get("probabilities"):
            found["probabilities"] = {name: [row[name] for row in each] for name in each[0]}
        return JsonResponse(found)

    @app.post(
        "/v1/learn",
        openapi_extra={**_body(learn_body), "parameters": [_KEY]},
        responses={200: {"model": Learned | LearnedRows}, **REFUSALS},
    )
    async def learn(request: Request) -> Response:
        """Learn from rows and their labels. Answers once they are safe on the disk."""
        return await _learn(request, learn_body)

    @app.post(
        "/v1/label",
        openapi_extra={**_body(label_body), "parameters": [_KEY]},
        responses={200: {"model": Learned | LearnedRows}, 404: {"model": Problem}, **REFUSALS},
    )
    async def label(request: Request) -> Response:
        """Learn from rows that were predicted with an `id`, as they were then, now that their labels are known."""
        return await _learn(request, label_body)

    async def _learn(request: Request, parser: Parser) -> Response:
        key = _idempotency_key(request)
        async with intake.content(request, parser) as (body, content_type):
            parsed = parser(body, content_type)
            fingerprint = _fingerprint(request.scope["path"], body, parsed, parser)
            ids = parsed.ids if parser is label_body else None
            reply = await service.submit(Work(parsed.rows, parsed.where, parsed.labels, ids, key, fingerprint))
        if parsed.single:
            return JsonResponse({"rows": reply["rows"], "prediction": reply["predictions"][0]})
        return JsonResponse(reply)

    return {"/v1/predict": predict, "/v1/learn": learn, "/v1/label": label}


def _asked_for(query: Mapping[str, str]) -> tuple[float | None, bool]:
    """Read what a prediction is to come with."""
    interval, explain = query.get("interval"), query.get("explain", "false")
    share = None
    if interval is not None:
        with contextlib.suppress(ValueError):
            share = float(interval)
        if share is None or not 0.5 <= share <= 0.99:
            raise wrong("interval", "be a number from 0.5 to 0.99", interval)
    if explain not in ("true", "false"):
        raise wrong("explain", "be true or false", explain)
    return share, explain == "true"


def _fingerprint(path: str, body: bytes, parsed: Parsed, parser: Parser) -> str:
    """Tell whether two requests with one key are the same. A label may come again in another body."""
    if parser is label_body and parsed.single:
        body = to_json([parsed.ids, parsed.labels])
    return hashlib.blake2b(path.encode() + b"\0" + body, digest_size=16).hexdigest()


def _idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    if not (0 < len(key) <= _LONGEST_KEY and key.isascii() and key.isprintable() and " " not in key):
        raise RefusedError(
            422,
            f"Idempotency-Key must be 1 to {_LONGEST_KEY} printable ASCII characters without spaces.",
            "Idempotency-Key",
        )
    return f"key:{key}"


def _body(parser: Parser) -> dict[str, Any]:
    refs = [{"$ref": f"#/components/schemas/{model.__name__}"} for model in (parser.one, parser.many)]
    content: dict[str, Any] = {
        JSON: {"schema": {"anyOf": refs}},
        NDJSON: {"schema": {"type": "string", "description": f"{parser.one.__name__} objects, one a line"}},
    }
    if ARROW in parser.content_types:
        text = "An Arrow IPC stream without compression; the labels in a column y, ids in a column id"
        content[ARROW] = {"schema": {"type": "string", "format": "binary", "description": text}}
    return {"requestBody": {"required": True, "content": content}}


def _document(app: FastAPI) -> None:
    """Add the models of bodies, which the routes read themselves, to the OpenAPI schema."""
    original: Callable[[], dict[str, Any]] = app.openapi
    parsers = (predict_body, learn_body, label_body)
    models = [(model, "validation") for parser in parsers for model in (parser.one, parser.many)]
    _, definitions = models_json_schema(models, ref_template="#/components/schemas/{model}")  # type: ignore[arg-type]

    def openapi() -> dict[str, Any]:
        schema = original()
        schema["components"]["schemas"].update(definitions["$defs"])
        return schema

    app.openapi = openapi  # type: ignore[method-assign]
