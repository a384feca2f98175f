"""What stands before every request: host, token, readiness, headers, and the count of requests."""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from pydantic_core import to_json
from starlette.requests import Request
from starlette.responses import Response

from bomkl.serve.errors import RefusedError
from bomkl.serve.http.traffic import Traffic

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Post = Callable[[Request], Awaitable[Response]]

LOOPBACK = ("localhost", "127.0.0.1", "::1")
# Starlette's TrustedHostMiddleware does not know addresses such as [::1]:8471
_LOOPBACK_HOST = re.compile(rb"(localhost|127\.0\.0\.1|\[::1\])(:[0-9]{0,5})?", re.IGNORECASE)
_OPEN = ("/", "/healthz", "/readyz", "/page.css", "/page.js", "/plotly.min.js", "/icon.svg")  # no data in them
_CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# Swagger UI starts itself by a script in its page.
_DOCS_POLICY = _CONTENT_POLICY.replace("script-src 'self'", "script-src 'self' 'unsafe-inline'")
_SMALL_UPLOAD = 2**16
_LONGEST_DRAIN, _LONGEST_SILENCE = 30.0, 5.0  # seconds
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)


class Upload:
    """The body of a request, of which a refusal may leave a part unread.

    If the server closed a connection on which data are still coming, the client would see a reset instead of the
    answer. So the answer is sent at once, and then what comes is read for a while, as nginx does (lingering close).
    """

    def __init__(self, receive: Receive, headers: dict[bytes, bytes]) -> None:
        self._receive, self._headers = receive, headers
        self.open = headers.get(b"content-length", b"0") != b"0" or b"transfer-encoding" in headers

    async def receive(self) -> MutableMapping[str, Any]:
        message = await self._receive()
        self.open = self.open and bool(message.get("more_body"))
        return message

    def is_long(self) -> bool:
        """Tell whether the connection must end with the answer: so much is to come that nobody wants to wait for it."""
        few = self._headers.get(b"content-length", b"")
        return self.open and (b"expect" in self._headers or not few.isdigit() or int(few) > _SMALL_UPLOAD)

    async def drain(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LONGEST_DRAIN):
                while self.open:
                    async with asyncio.timeout(_LONGEST_SILENCE):
                        await self.receive()


class Guard:
    """ASGI middleware.

    `routes`: paths that are counted by name; all others are counted together. `posts`: answers to POST requests by
    path: the same as those of `app`, without its machinery, which takes longer than a prediction. `down`: tells why the
    service cannot answer; None if it can. `token`: bearer token that requests must carry; None only on loopback, where
    requests must then name a loopback host. `metrics_token`: bearer token that opens ``/metrics`` and nothing else.
    """

    def __init__(
        self,
        app: Any,
        traffic: Traffic,
        routes: frozenset[str],
        posts: dict[str, Post],
        down: Callable[[], RefusedError | None],
        token: str | None,
        metrics_token: str | None = None,
    ) -> None:
        self.app, self.traffic, self.routes, self._posts, self._down = app, traffic, routes, posts, down
        self._token, self._metrics_token = (None if each is None else each.encode() for each in (token, metrics_token))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, path, status = time.perf_counter(), scope["path"], 500
        headers = dict(scope["headers"])
        upload = Upload(receive, headers)
        policy = (_DOCS_POLICY if path.startswith(("/docs", "/redoc")) else _CONTENT_POLICY).encode()

        async def send_guarded(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                extra = [*_HEADERS, (b"content-security-policy", policy)]
                if not any(name == b"cache-control" for name, _ in message["headers"]):
                    extra.append((b"cache-control", b"no-store"))
                if upload.is_long():
                    extra.append((b"connection", b"close"))
                message["headers"] = [*message["headers"], *extra]
            elif upload.open and not message.get("more_body"):
                await send({**message, "more_body": True})
                await upload.drain()
                message = {"type": "http.response.body"}
            await send(message)

        if scope["method"] == "HEAD" and path != "/v1/events":  # the server leaves out the body
            scope = {**scope, "method": "GET"}
        try:
            if refusal := self._refusal(path, headers):
                await _answer(send_guarded, refusal)
            elif scope["method"] == "POST" and (post := self._posts.get(path)):
                response = await post(Request(scope, upload.receive))
                await response(scope, upload.receive, send_guarded)
            else:
                await self.app(scope, upload.receive, send_guarded)
        except RefusedError as error:
            await _answer(send_guarded, error)
        except MemoryError:
            if status != 500:  # the answer has begun
                raise
            await _answer(send_guarded, RefusedError(503, "There is no memory left for this request.", retry_after=5))
        finally:
            self.traffic.count(path if path in self.routes else "other", status, time.perf_counter() - began)

    def _refusal(self, path: str, headers: dict[bytes, bytes]) -> RefusedError | None:
        if self._token is None:
            # A page of another site could reach a service on loopback through a name of its own (DNS rebinding).
            if not _LOOPBACK_HOST.fullmatch(headers.get(b"host", b"")):
                message = f"Host must be one of {', '.join(LOOPBACK)} unless the service has a token."
                return RefusedError(421, message, "Host")
        elif not self._may_see(path, headers.get(b"authorization", b"")):
            message = "Authorization must be 'Bearer TOKEN' with the token of this service."
            return RefusedError(401, message, "Authorization")
        return self._down() if path.startswith("/v1/") or path in ("/readyz", "/metrics") else None

    def _may_see(self, path: str, given: bytes) -> bool:
        tokens = [self._token, self._metrics_token if path == "/metrics" else None]
        return path in _OPEN or any(each and hmac.compare_digest(given, b"Bearer " + each) for each in tokens)


async def _answer(send: Send, refusal: RefusedError) -> None:
    body = to_json(refusal.body)
    headers = [(name.lower().encode(), value.encode()) for name, value in refusal.headers.items()]
    headers += [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if refusal.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
