"""The live page and its files."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from fastapi.responses import FileResponse

_PAGE = Path(__file__).parent / "page"


def add_page(app: FastAPI) -> None:
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
