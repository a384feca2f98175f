"""Bodies of requests as they come in: how large and how slow they may be."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

from fastapi import Request
from starlette.requests import ClientDisconnect

from bomkl.serve.errors import RefusedError
from bomkl.serve.formats.bodies import Parser

MOST_BYTES = 16 * 2**20
MOST_BYTES_OF_ALL = 8 * MOST_BYTES  # of the bodies of all requests that are not answered yet; small ones may pass
_SMALL_BODY = 2**16
_LONGEST_PAUSE, _LONGEST_BODY = 10.0, 300.0  # seconds within a body, and for all of it


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
                    if not part:
                        continue
                    patience.reschedule(min(now() + _LONGEST_PAUSE, last))
                    body += part
                    self.bytes += len(part)
                    if len(body) > MOST_BYTES:
                        raise _too_large()
                    if self.bytes > MOST_BYTES_OF_ALL and len(body) > _SMALL_BODY:
                        raise RefusedError(429, "Too many large bodies at once. Try again later.", retry_after=1)
        except TimeoutError:
            raise RefusedError(408, "The body came too slowly.", "body") from None


def _too_large() -> RefusedError:
    return RefusedError(413, f"body must have at most {MOST_BYTES} bytes.", "body")
