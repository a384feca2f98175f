"""The HTTP layer: routes, their documentation, and the live page."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib.util
import os
import tempfile
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.responses import FileResponse, PlainTextResponse, Response, StreamingResponse
from fastapi_offline import FastAPIOffline
from prometheus_client import generate_latest
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from pydantic_core import to_json
from starlette.background import BackgroundTask
from starlette.requests import ClientDisconnect

from bomkl import __version__, modelfile
from bomkl.serve.bodies import ARROW, JSON, NDJSON, Label, Parsed, Parser, label_body, learn_body, predict_body
from bomkl.serve.errors import RefusedError
from bomkl.serve.guard import Guard
from bomkl.serve.learner import Learner
from bomkl.serve.service import Service
from bomkl.serve.traffic import Figures, Traffic
from bomkl.serve.work import Work

MOST_BYTES = 16 * 2**20
MOST_BYTES_TOGETHER = 8 * MOST_BYTES  # of the bodies of all requests that are not answered yet; small ones may pass
_SMALL_BODY = 2**16
_LONGEST_PAUSE, _LONGEST_BODY = 10.0, 300.0  # seconds within a body, and for all of it
_MOST_LISTENERS = 50
_LONGEST_KEY = 200
_PAGE = Path(__file__).parent / "page"
_PREFIX = "/v1"


class Prediction(BaseModel):
    """What the model says about a row; null before it has learned from any."""

    prediction: Label | None
    probabilities: dict[str, float] | None = None


class Predictions(BaseModel):
    """What the model says about rows."""

    predictions: list[Label | None]
    probabilities: dict[str, list[float]] | None = None


class Learned(BaseModel):
    """The prediction made before the model learned from the row, and the number of rows in the log."""

    rows: int
    prediction: Label | None


class LearnedRows(BaseModel):
    """The predictions made before the model learned from each row, and the number of rows in the log."""

    rows: int
    predictions: list[Label | None]


class Problem(BaseModel):
    """Why a request was refused; nothing was learned."""

    detail: str
    field: str | None = None


class Replaying(Problem):
    """Why every request is refused for a while: after a start, the model learns the rows after the last snapshot."""

    replayed: int | None = None
    rows: int | None = None


class JsonResponse(Response):
    """JSON, written by pydantic."""

    media_type = JSON

    def render(self, content: Any) -> bytes:
        """Write it."""
        return to_json(content)


def make_app(service: Service, token: str | None = None, metrics_token: str | None = None) -> Any:
    """Make the ASGI application of a service.

    Parameters
    ----------
    service : Service
        What to serve; the application starts and stops it.
    token : str or None, default=None
        Bearer token that requests must carry.
    metrics_token : str or None, default=None
        Bearer token that opens the metrics and nothing else.

    Returns
    -------
    ASGI application
    """
    traffic = Traffic()
    stopping = asyncio.Event()

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        service.start()
        sampling = asyncio.create_task(_sample(service, traffic))
        yield
        stopping.set()
        sampling.cancel()
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
    _add_learning(app, service, traffic)
    _add_reading(app, service, traffic)
    _add_page(app)
    _document(app)
    routes = frozenset(getattr(route, "path", "") for route in app.routes)
    guarded = Guard(app, traffic, routes, service.down, token, metrics_token)
    guarded.stopping = stopping  # type: ignore[attr-defined]
    guarded.openapi = app.openapi  # type: ignore[attr-defined]
    return guarded


async def _sample(service: Service, traffic: Traffic) -> None:
    while True:
        with contextlib.suppress(RefusedError):
            traffic.sample(await service.read(lambda learner: learner.monitor.rows))
        await asyncio.sleep(1.0)


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedError)
    return JsonResponse(error.body, error.status, error.headers)


# ------------------------------------------------------------ learning and predicting

_REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in {
        400: "The body cannot be read.",
        401: "The token is missing or wrong.",
        408: "The body came too slowly.",
        409: "The id is in use.",
        413: "The body or the number of rows is too large.",
        415: "The content type is none of those named here.",
        422: "A field is wrong; it is named.",
        429: "Too many rows are waiting; try again after Retry-After seconds.",
        503: "The log is being replayed, or the service is stopping or has failed.",
        507: "The disk is full; nothing was learned.",
    }.items()
}
_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Any text that is unique to this request. A request that comes again with it learns nothing more "
    "and gets the same answer.",
    "schema": {"type": "string", "minLength": 1, "maxLength": _LONGEST_KEY, "pattern": "^[!-~]+$"},
}


def _add_learning(app: FastAPI, service: Service, traffic: Traffic) -> None:
    intake = Intake()

    @app.post(
        "/v1/predict",
        openapi_extra=_body(predict_body),
        responses={200: {"model": Prediction | Predictions}, **_REFUSALS},
    )
    async def predict(request: Request) -> Response:
        """Predict one row or several. Rows with an `id` are kept until their label comes."""
        async with intake.content(request, predict_body) as (body, content_type):
            parsed = predict_body(body, content_type)
            answers = await service.submit(Work(parsed.rows, parsed.where, ids=parsed.ids))
        traffic.predicted += len(answers)
        if parsed.single:
            return JsonResponse(answers[0])
        together: dict[str, Any] = {"predictions": [answer["prediction"] for answer in answers]}
        if "probabilities" in answers[0]:
            names = answers[0]["probabilities"]
            together["probabilities"] = {name: [each["probabilities"][name] for each in answers] for name in names}
        return JsonResponse(together)

    @app.post(
        "/v1/learn",
        openapi_extra={**_body(learn_body), "parameters": [_KEY]},
        responses={200: {"model": Learned | LearnedRows}, **_REFUSALS},
    )
    async def learn(request: Request) -> Response:
        """Learn from rows and their labels. Answers once they are safe on the disk."""
        return await _learn(request, learn_body)

    @app.post(
        "/v1/label",
        openapi_extra={**_body(label_body), "parameters": [_KEY]},
        responses={200: {"model": Learned | LearnedRows}, 404: {"model": Problem}, **_REFUSALS},
    )
    async def label(request: Request) -> Response:
        """Learn from rows that were predicted with an `id`, as they were then, now that their labels are known."""
        return await _learn(request, label_body)

    async def _learn(request: Request, parser: Parser) -> Response:
        key = _idempotency_key(request)
        async with intake.content(request, parser) as (body, content_type):
            parsed = parser(body, content_type)
            fingerprint = _fingerprint(request.url.path, body, parsed, parser)
            ids = parsed.ids if parser is label_body else None
            reply = await service.submit(Work(parsed.rows, parsed.where, parsed.labels, ids, key, fingerprint))
        if parsed.single:
            return JsonResponse({"rows": reply["rows"], "prediction": reply["predictions"][0]})
        return JsonResponse(reply)


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


class Intake:
    """Reads bodies, but not more than allowed: neither of one request nor of all at once."""

    def __init__(self) -> None:
        self.bytes = 0  # of the bodies of requests that are not answered yet

    @contextlib.asynccontextmanager
    async def content(self, request: Request, parser: Parser) -> AsyncIterator[tuple[bytes, str]]:
        """Read a body and its content type; the body counts until the block ends."""
        content_type = request.headers.get("content-type", "")
        parser.kind(content_type)  # what can be refused is refused before the body is sent
        if "content-encoding" in request.headers:
            raise RefusedError(
                415, "Content-Encoding must be absent: send bodies that are not compressed.", "Content-Encoding"
            )
        if int(request.headers.get("content-length", 0)) > MOST_BYTES:
            raise _too_large()
        body = bytearray()
        try:
            await self._read(request, body)
            yield bytes(body), content_type
        except ClientDisconnect:  # nobody will read the answer; without one, the log would show a traceback
            raise RefusedError(400, "The body was cut off.", "body") from None
        finally:
            self.bytes -= len(body)

    async def _read(self, request: Request, body: bytearray) -> None:
        now = asyncio.get_running_loop().time
        last = now() + _LONGEST_BODY
        try:
            async with asyncio.timeout(_LONGEST_PAUSE) as patience:
                async for part in request.stream():
                    patience.reschedule(min(now() + _LONGEST_PAUSE, last))
                    body += part
                    self.bytes += len(part)
                    if len(body) > MOST_BYTES:
                        raise _too_large()
                    if self.bytes > MOST_BYTES_TOGETHER and len(body) > _SMALL_BODY:
                        raise RefusedError(429, "Too many large bodies at once. Try again later.", retry_after=1)
        except TimeoutError:
            raise RefusedError(408, "The body came too slowly.", "body") from None


def _too_large() -> RefusedError:
    return RefusedError(413, f"body must have at most {MOST_BYTES} bytes.", "body")


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


# ------------------------------------------------------------ reading


def _add_reading(app: FastAPI, service: Service, traffic: Traffic) -> None:
    listeners = 0

    async def current(curves: bool) -> dict[str, Any]:
        state: dict[str, Any] = await service.read(lambda learner: _state(learner, service, curves))
        state["traffic"] = list(traffic.samples)[-1:]
        return state

    @app.get("/v1/state", responses={401: _REFUSALS[401], 503: _REFUSALS[503]})
    async def state() -> Response:
        """Rows, errors, kernel weights, classes, calibration, drift, memory, and the curves of the live page."""
        return JsonResponse(await current(True) | {"traffic": list(traffic.samples)})

    @app.get(
        "/v1/model",
        response_class=FileResponse,
        responses={
            200: {"content": {"application/octet-stream": {}}},
            **{status: _REFUSALS[status] for status in (401, 503, 507)},
        },
    )
    async def model() -> Response:
        """Return the model after the last learned row, as a file for `bomkl.modelfile.load`."""
        try:
            path = await service.read(lambda learner: _model_file(learner, service.folder))
        except OSError as error:
            raise RefusedError(507, f"The file cannot be written ({error.strerror}).", retry_after=5) from None
        if path is None:
            raise RefusedError(409, "The model has not learned from any row yet.")
        clean = BackgroundTask(os.unlink, path)
        return FileResponse(path, media_type="application/octet-stream", filename="model.bomkl", background=clean)

    @app.get("/v1/events", response_class=StreamingResponse, responses={401: _REFUSALS[401], 429: _REFUSALS[429]})
    async def events() -> Response:
        """Return the state every second as server-sent events; the curves are in it when they have changed."""
        nonlocal listeners
        if listeners >= _MOST_LISTENERS:
            raise RefusedError(429, f"{listeners} pages are open already.", retry_after=10)
        listeners += 1

        async def stream() -> AsyncIterator[bytes]:
            nonlocal listeners
            drawn: list[int] | None = None
            try:
                while not app.state.stopping.is_set():
                    points = await service.read(lambda learner: learner.monitor.points.columns["rows"][-1:])
                    yield b"data: " + to_json(await current(points != drawn)) + b"\n\n"
                    drawn = points
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(app.state.stopping.wait(), 1.0)
            except RefusedError:
                return
            finally:
                listeners -= 1

        return StreamingResponse(stream(), media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    @app.get("/metrics", response_class=PlainTextResponse, responses={401: _REFUSALS[401], 503: _REFUSALS[503]})
    async def metrics() -> Response:
        """Figures in the Prometheus text format."""
        text = generate_latest(Figures(await current(False))) + generate_latest(traffic.registry)
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/healthz", responses={503: {"model": Problem, "description": "The service has failed."}})
    async def healthz() -> Response:
        """200 from the start to the end of the service, unless it has failed."""
        if service.failed is not None:
            raise service.down() or RefusedError(503, "The service has failed.")
        return JsonResponse({"status": "ok"})

    @app.get("/readyz", responses={503: {**_REFUSALS[503], "model": Replaying}})
    async def readyz() -> Response:
        """200 while the service learns and predicts. While the log is replayed, 503 with the rows so far and in all."""
        await service.read(lambda learner: None)
        return JsonResponse({"status": "ready"})


def _state(learner: Learner, service: Service, curves: bool) -> dict[str, Any]:
    ledger = service.ledger
    columns = ledger.columns
    state: dict[str, Any] = {
        "version": __version__,
        "task": None if columns is None or columns.labels is None else _TASKS[columns.labels == "number"],
        "estimator": type(learner.estimator).__name__ if learner.fitted else None,
        **learner.monitor.figures(),
        "kernels": learner.kernels(),
        "kernel_weights": learner.kernel_weights() if learner.fitted else [],
        "columns": [] if columns is None else [{"name": n, "kind": kind} for n, kind in columns.kinds.items()],
        "labels": {"waiting": ledger.waiting, "expired": ledger.expired, "timeout": service.settings.label_timeout},
        "queued": service.queued,
        "memory": {"model_bytes": learner.estimator.nbytes_ if learner.fitted else 0},
        "log": {"entries": learner.seq, "snapshot_failure": service.snapshot_failure},
        "uptime": time.monotonic() - service.started,
    }
    if curves:
        state["curves"] = learner.monitor.curves()
    return state


_TASKS = {False: "classify", True: "regress"}


def _model_file(learner: Learner, folder: str) -> str | None:
    if not learner.fitted:
        return None
    descriptor, path = tempfile.mkstemp(".bomkl", "download-", folder)
    os.close(descriptor)
    try:
        modelfile.save(learner.estimator, path)
    except BaseException:
        os.unlink(path)
        raise
    return path


# ------------------------------------------------------------ the page


def _add_page(app: FastAPI) -> None:
    plotly = importlib.util.find_spec("plotly")
    assert plotly is not None
    assert plotly.origin is not None
    files = {
        "/": (_PAGE / "index.html", "text/html; charset=utf-8", "no-cache"),
        "/page.js": (_PAGE / "page.js", "text/javascript; charset=utf-8", "no-cache"),
        "/page.css": (_PAGE / "page.css", "text/css; charset=utf-8", "no-cache"),
        "/icon.svg": (_PAGE / "icon.svg", "image/svg+xml", "max-age=86400"),
        "/plotly.min.js": (
            Path(plotly.origin).parent / "package_data" / "plotly.min.js",
            "text/javascript; charset=utf-8",
            "max-age=86400",
        ),
    }
    for route, (path, media_type, caching) in files.items():
        app.add_api_route(route, _file_sender(path, media_type, caching), include_in_schema=False, methods=["GET"])


def _file_sender(path: Path, media_type: str, caching: str) -> Callable[[], Any]:
    async def send() -> FileResponse:
        return FileResponse(path, media_type=media_type, headers={"Cache-Control": caching})

    return send
