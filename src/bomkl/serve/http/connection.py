"""Connections of clients that are slow, send no end of headers, or have nothing more to say."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from bomkl.serve.http.limits import HEADER_BYTES, HEADER_SECONDS, MOST_CONNECTIONS, Room


class Connection(HttpToolsProtocol):
    """HTTP/1.1 of uvicorn with limits on the time and the size of a header, which it has not.

    Without them, a thousand clients that send nothing would keep out all others, and one header could fill the memory.
    """

    room = Room(MOST_CONNECTIONS, 100)
    _waiting: asyncio.TimerHandle | None = None
    _heard = 0.0  # when something came last
    _in_header = False
    _header_bytes = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._heard = self.loop.time()
        self._expect_header()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what came; a header that does not end is refused."""
        if self._in_header:  # data in which one begins do not count: a long body may come before it
            self._header_bytes += len(data)
        self._heard = self.loop.time()
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._in_header and self._header_bytes > HEADER_BYTES:
            self.send_400_response("The header is too large.")
            return
        if self._waiting is None and (self.cycle is None or self.cycle.response_complete):
            self._expect_header()

    def eof_received(self) -> bool | None:  # type: ignore[override]
        """Answer a client that has closed its side after a whole request, as some do."""
        if self.cycle is None or self.cycle.response_complete or self.cycle.more_body:
            return None
        self.cycle.keep_alive = False
        return True

    def on_message_begin(self) -> None:
        self._in_header, self._header_bytes = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_header = False
        self._stop_waiting()
        super().on_headers_complete()

    def _make_room(self) -> None:
        """Close the connection that has been idle for longest if there are too many: it must not keep others out."""
        if len(self.connections) <= self.room.connections:
            return
        idle = [each for each in self.connections if isinstance(each, Connection) and each._is_idle()]
        min(idle, key=lambda each: each._heard)._give_up()

    def _is_idle(self) -> bool:
        return (self.cycle is None or self.cycle.response_complete) and not self.transport.is_closing()

    def _expect_header(self) -> None:
        self._waiting = self.loop.call_later(HEADER_SECONDS, self._give_up)

    def _stop_waiting(self) -> None:
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _give_up(self) -> None:
        self._waiting = None
        if not self.transport.is_closing():
            self.transport.close()
