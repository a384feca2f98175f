"""Limits of HTTP: how many connections there may be, and how large and how slow headers and bodies."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass

from fastapi import Request
from starlette.requests import ClientDisconnect

from bomkl.serve.errors import RefusedError
from bomkl.serve.formats.bodies import Parser

try:
    import resource
except ImportError:  # not a POSIX system
    resource = None  # type: ignore[assignment]

MOST_CONNECTIONS = 1000
_RESERVED = 32  # descriptors for the log, snapshots and whatever else has to be opened
_BATCHES = 4  # of connections that may be accepted before the first of them can be closed
HEADER_SECONDS = 30.0
HEADER_BYTES = 2**16
MOST_BYTES = 16 * 2**20
MOST_BYTES_OF_ALL = 8 * MOST_BYTES  # of the bodies of all requests that are not answered yet; small ones may pass
_SMALL_BODY = 2**16
_LONGEST_PAUSE, _LONGEST_BODY = 10.0, 300.0  # seconds within a body, and for all of it


@dataclass(frozen=True)
class Room:
    """Connections for which there are file descriptors."""

    connections: int  # connections that are kept; beyond it, a new one takes the place of one that is idle
    at_once: int  # connections that are accepted at once

    @property
    def limit(self) -> int:
        """Connections at which requests get status 503: none of those there are is idle."""
        return self.connections + _BATCHES * self.at_once

    @classmethod
    def of_process(cls) -> Room:
        """Take as many descriptors as the process may have."""
        if resource is None:
            return cls(MOST_CONNECTIONS, 100)
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = _RESERVED + 2 * MOST_CONNECTIONS
        if soft != resource.RLIM_INFINITY and soft < wanted:
            with contextlib.suppress(ValueError, OSError):
                most = wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
                soft = most
        spare = wanted - _RESERVED if soft == resource.RLIM_INFINITY else max(soft - _RESERVED, 2 * _BATCHES)
        at_once = max(min(spare // (2 * _BATCHES), 100), 1)
        return cls(min(spare - _BATCHES * at_once, MOST_CONNECTIONS), at_once)


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
