"""Routes that only read: the state, the model as a file, a report, metrics and health."""

from __future__ import annotations

import asyncio
import contextlib
import os
import tempfile
import time
from collections.abc import AsyncIterator
from typing import Any

from fastapi import FastAPI
from fastapi.responses import FileResponse, HTMLResponse, PlainTextResponse, Response, StreamingResponse
from prometheus_client import generate_latest
from pydantic_core import to_json
from starlette.background import BackgroundTask

from bomkl import __version__, modelfile
from bomkl.report import report_page
from bomkl.serve.errors import RefusedError
from bomkl.serve.http.answers import REFUSALS, JsonResponse, Problem, Replaying
from bomkl.serve.http.traffic import Figures, Traffic
from bomkl.serve.model.columns import total_ignored
from bomkl.serve.model.learner import Learner
from bomkl.serve.requests.feed import Feed
from bomkl.serve.requests.service import Service

_MOST_LISTENERS = 50


def add_reading(app: FastAPI, service: Service, traffic: Traffic, feed: Feed | None) -> None:
    """Add the routes that only read: state, model, report, events, metrics and health."""
    listeners = 0

    async def current(curves: bool) -> dict[str, Any]:
        state: dict[str, Any] = await service.read(lambda learner: _state(learner, service, curves))
        state["traffic"] = list(traffic.samples)[-1:]
        state["source"] = None if feed is None else feed.figures()
        return state

    @app.get("/v1/state", responses={401: REFUSALS[401], 503: REFUSALS[503]})
    async def state() -> Response:
        """Rows, errors, kernel weights, classes, calibration, drift, memory, and the curves of the live page."""
        return JsonResponse(await current(True) | {"traffic": list(traffic.samples)})

    @app.get(
        "/v1/model",
        response_class=FileResponse,
        responses={
            200: {"content": {"application/octet-stream": {}}},
            **{status: REFUSALS[status] for status in (401, 503, 507)},
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

    @app.get("/v1/report", response_class=HTMLResponse, responses={401: REFUSALS[401], 503: REFUSALS[503]})
    async def report() -> Response:
        """Return a page about the model after the last learned row: its error, its columns, what to do next."""
        model = await service.read(lambda learner: learner.view.estimator if learner.fitted else None)
        if model is None:
            raise RefusedError(409, "The model has not learned from any row yet.")
        if not hasattr(model, "report"):
            raise RefusedError(409, f"A report needs an Auto model. This one is a {type(model).__name__}.")
        try:
            page = await asyncio.to_thread(report_page, model, None, "Report of the service")
        except ImportError as error:
            raise RefusedError(501, str(error)) from None
        return HTMLResponse(page)

    @app.get("/v1/events", response_class=StreamingResponse, responses={401: REFUSALS[401], 429: REFUSALS[429]})
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

    @app.get("/metrics", response_class=PlainTextResponse, responses={401: REFUSALS[401], 503: REFUSALS[503]})
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

    @app.get("/readyz", responses={503: {**REFUSALS[503], "model": Replaying}})
    async def readyz() -> Response:
        """200 while the service learns and predicts. While the log is replayed, 503 with the rows so far and in all."""
        await service.read(lambda learner: None)
        return JsonResponse({"status": "ready"})


def _state(learner: Learner, service: Service, curves: bool) -> dict[str, Any]:
    ledger = service.ledger
    columns = ledger.columns
    labels = None if columns is None else columns.labels
    state: dict[str, Any] = {
        "version": __version__,
        "task": labels and ("regress" if labels == "number" else "classify"),
        "estimator": type(learner.estimator).__name__ if learner.fitted else None,
        **learner.monitor.figures(),
        "drift_events": learner.drift_events(),
        "kernels": learner.kernels(),
        "kernel_weights": learner.kernel_weights() if learner.fitted else [],
        "columns": [] if columns is None else [{"name": n, "kind": kind} for n, kind in columns.kinds.items()],
        "ignored_columns": total_ignored(ledger.ignored, learner.ignored),
        "labels": {"waiting": ledger.waiting, "expired": ledger.expired, "timeout": service.settings.label_timeout},
        "queued": service.queued,
        "memory": {"model_bytes": learner.estimator.nbytes_ if learner.fitted else 0},
        "log": {"entries": learner.seq, "snapshot_failure": service.snapshot_failure},
        "uptime": time.monotonic() - service.started,
    }
    if curves:
        state["curves"] = learner.monitor.curves()
    return state


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
