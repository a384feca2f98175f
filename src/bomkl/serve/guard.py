"""What stands before every request: host, token, headers, and the count of requests."""

from __future__ import annotations

import hmac
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from pydantic_core import to_json

from bomkl.serve.traffic import Traffic

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
_OPEN = ("/", "/healthz", "/page.css", "/page.js", "/plotly.min.js", "/icon.svg")  # no data in them
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# Swagger UI starts itself by a script in its page.
_DOCS_POLICY = _CONTENT_POLICY.replace("script-src 'self'", "script-src 'self' 'unsafe-inline'")
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Guard:
    """ASGI middleware.

    Parameters
    ----------
    app : ASGI application
        What it guards.
    traffic : Traffic
        Where requests are counted.
    routes : set of str
        Paths that are counted by name; all others are counted together.
    token : str or None
        Bearer token that requests must carry; None only on loopback, where requests must then name a loopback host.
    """

    def __init__(self, app: Any, traffic: Traffic, routes: frozenset[str], token: str | None) -> None:
        self.app, self.traffic, self.routes = app, traffic, routes
        self._token = None if token is None else token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, path, status = time.perf_counter(), scope["path"], 500
        policy = (_DOCS_POLICY if path.startswith(("/docs", "/redoc")) else _CONTENT_POLICY).encode()

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = [*_HEADERS, (b"content-security-policy", policy)]
                if not any(name == b"cache-control" for name, _ in message["headers"]):
                    extra.append((b"cache-control", b"no-store"))
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        headers = dict(scope["headers"])
        try:
            if refusal := self._refusal(path, headers):
                await _answer(send_guarded, *refusal)
            else:
                await self.app(scope, receive, send_guarded)
        finally:
            self.traffic.count(path if path in self.routes else "other", status, time.perf_counter() - began)

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> tuple[int, str, str] | None:
        if self._token is None:
            # A page of another site could reach a service on loopback through a name of its own (DNS rebinding).
            host = headers.get(b"host", b"").decode("latin-1").rsplit("]", 1)[0].lstrip("[")
            name = host if host in LOOPBACK else host.rsplit(":", 1)[0]
            if name not in LOOPBACK:
                return 421, "Host", f"Host must be one of {', '.join(LOOPBACK)} unless the service has a token."
            return None
        if path in _OPEN:
            return None
        given = headers.get(b"authorization", b"")
        if not hmac.compare_digest(given, b"Bearer " + self._token):
            return 401, "Authorization", "Authorization must be 'Bearer TOKEN' with the token of this service."
        return None


async def _answer(send: Send, status: int, field: str, message: str) -> None:
    headers = [(b"content-type", b"application/json")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": to_json({"detail": message, "field": field})})
