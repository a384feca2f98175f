"""NATS JetStream, by nats-py: ``nats://HOST:PORT/STREAM?subject=NAME&start=earliest|latest&credentials=FILE``.

A stream numbers its messages, so it is one partition and needs no consumer that lasts. Predictions are published to
the subject ``subject``, else to one with the name of the stream.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from contextlib import suppress
from typing import Any, ClassVar, TypeVar
from uuid import uuid4

import nats
from nats.errors import Error as NatsError
from nats.errors import TimeoutError as NatsTimeoutError
from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy
from nats.js.errors import NotFoundError

from bomkl.sources.base import Positions, Record, SourceError, SourceUrl

T = TypeVar("T")
PARTITION = "0"
_SETTINGS = ("subject", "start", "credentials")
_SECONDS = 10.0  # for an answer of a server that is there
_AT_ONCE = 1024  # messages asked for in one request
_NO_MORE = ("", "404", "408")  # none, no messages, the time is over


class _Client:
    """A connection whose event loop has a thread of its own."""

    def __init__(self, url: SourceUrl) -> None:
        url.check_settings(_SETTINGS)
        self.url = url
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="bomkl-nats", daemon=True)
        self._thread.start()
        options = {} if (path := url.setting("credentials")) is None else {"user_credentials": path}

        self._closing = False

        async def gone() -> None:
            if not self._closing:
                url.tell(f"{url.shown}: the connection is lost; waiting for it.")

        async def back() -> None:
            url.tell(f"{url.shown}: is back.")

        async def silent(error: Exception) -> None:
            return  # what matters is raised where it happens, or told by `gone`

        try:
            self.connection = self.wait(
                nats.connect(
                    f"nats://{url.server}",
                    max_reconnect_attempts=-1,
                    reconnect_time_wait=0.5,
                    connect_timeout=5,
                    disconnected_cb=gone,
                    reconnected_cb=back,
                    error_cb=silent,
                    allow_reconnect=True,
                    **options,
                )
            )
        except (NatsError, OSError, FutureTimeoutError) as error:
            self.stop()
            raise SourceError(f"{url.shown}: cannot connect: {error or type(error).__name__}") from error
        self.stream = self.connection.jetstream(timeout=_SECONDS)

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Do something in the event loop, without waiting for it."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, work: Coroutine[Any, Any, T] | Future[T], seconds: float = 60.0) -> T:
        """Do something in the event loop, or wait for what was begun there."""
        future = work if isinstance(work, Future) else self.begin(work)
        try:
            return future.result(seconds)
        except BaseException:
            future.cancel()
            raise

    def stop(self) -> None:
        """End the event loop, and what still waits in it."""
        with suppress(FutureTimeoutError):
            self.wait(_cancel_others(), 5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        if not self._loop.is_running():
            self._loop.close()

    def close(self) -> None:
        self._closing = True
        with suppress(NatsError, OSError, FutureTimeoutError):  # it may be gone already
            self.wait(self.connection.close(), 5)
        self.stop()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)


class NatsSink:
    """A subject that predictions are published to; the server drops one that is sent again after a lost answer."""

    def __init__(self, url: SourceUrl) -> None:
        self._client, self._subject = _Client(url), url.setting("subject", url.topic)

    def send(self, records: list[Record]) -> None:
        self._client.wait(self._publish(records), 600.0)

    async def _publish(self, records: list[Record]) -> None:
        for begin in range(0, len(records), _AT_ONCE):
            await asyncio.gather(*map(self._publish_one, records[begin : begin + _AT_ONCE]))

    async def _publish_one(self, record: Record) -> None:
        headers = {"Nats-Msg-Id": uuid4().hex}  # of this message alone: a record may hold several rows
        while True:
            try:
                await self._client.stream.publish(self._subject, record.value, headers=headers)
                return
            except NotFoundError as error:
                raise SourceError(f"{self._client.url.shown}: no stream takes {self._subject!r}.") from error
            except (NatsError, OSError):  # the connection comes back by itself; the id keeps it from coming twice
                await asyncio.sleep(0.5)

    def close(self) -> None:
        self._client.close()


class NatsSource:
    """The messages of a stream."""

    sink: ClassVar[Any] = NatsSink

    def __init__(self, url: SourceUrl) -> None:
        self._url = url
        self._latest = url.setting("start", "earliest", ("earliest", "latest")) == "latest"
        self._client = _Client(url)
        self._subscription: Any = None
        self._renew = True  # whether the subscription must be made anew
        self._arrived: list[Any] = []  # messages that nobody has fetched yet
        self._asked, self._status, self._answered = 0, "", asyncio.Event()  # of the last request
        self._prefetched: Future[list[Any]] | None = None  # the next messages, fetched while others are used
        self._next = 1
        self._delivered = 0  # messages that the subscription has given
        self._reported_gone = False

    def seek(self, positions: Mapping[str, int]) -> None:
        """Go to a position; without one, to where ``start`` says."""
        first, end = self._range()
        self._next = positions.get(PARTITION, end if self._latest else first)
        if self._next < first and positions:
            raise SourceError(
                f"{self._url.shown}: message {self._next} was to come next, but the stream begins at {first}. To go on "
                "from what is there, use a new model file."
            )
        if self._next > end:
            raise SourceError(
                f"{self._url.shown}: message {self._next} was to come next, but the stream ends at {end - 1}: it was "
                "made anew. To learn from it, use a new model file."
            )

    def _range(self) -> tuple[int, int]:
        try:
            state = self._client.wait(self._client.stream.stream_info(self._url.topic)).state
        except NotFoundError as error:
            raise SourceError(f"{self._url.shown}: there is no such stream.") from error
        except (NatsError, OSError, FutureTimeoutError) as error:
            raise SourceError(f"{self._url.shown}: does not answer: {error or type(error).__name__}") from error
        return max(state.first_seq, 1), state.last_seq + 1

    def poll(self, most: int, seconds: float) -> list[Record]:
        most = min(most, _AT_ONCE)
        fetching, self._prefetched = self._prefetched or self._client.begin(self._fetch(most, seconds)), None
        try:
            messages = self._client.wait(fetching, seconds + 60.0)
        except (NatsTimeoutError, TimeoutError, FutureTimeoutError):
            return []
        except (NatsError, OSError) as error:
            if isinstance(error, NotFoundError) and not self._reported_gone:
                self._reported_gone = True
                self._url.tell(f"{self._url.shown}: the stream is gone; waiting for it.")
            self._renew = True  # a server that was started anew knows it no more
            threading.Event().wait(min(seconds, 1.0))
            return []
        self._reported_gone = False
        found = []
        for message in messages:
            number, delivery = _sequence(message.reply)
            if delivery != self._delivered + 1:
                self._renew = True  # one was lost between the server and here: all from it on are read again
                break
            self._delivered = delivery
            if number < self._next:
                continue  # delivered again
            self._next = number + 1
            found.append(Record(PARTITION, number, message.data, (message.headers or {}).get("key", "")))
        if len(messages) == most and not self._renew:  # more are likely there
            self._prefetched = self._client.begin(self._fetch(most, seconds))
        return found

    async def _fetch(self, most: int, seconds: float) -> list[Any]:
        """Return what is there, else wait for a first message.

        A fetch of nats-py waits for each message with a timer and two tasks, which takes longer than to read it.
        """
        if self._renew:
            await self._subscribe()
        seconds = max(seconds, 0.05)
        await self._ask(most, seconds, no_wait=True)
        if not self._arrived:
            await self._ask(1, seconds, expires=int(seconds * 1e9))
        messages = self._arrived[:]
        self._arrived.clear()
        if not messages and (await self._info()).delivered.consumer_seq != self._delivered:
            self._renew = True  # what was delivered did not come here
        return messages

    async def _subscribe(self) -> None:
        """Have a consumer that begins with the next message."""
        if self._subscription is not None:
            with suppress(NatsError, OSError):
                await self._subscription.unsubscribe()
        arrived = self._arrived = []  # anew: the old subscription may still add to its own

        async def take(message: Any) -> None:
            status = "" if message.data else (message.headers or {}).get("Status", "")
            if status:
                self._status = status
            else:
                arrived.append(message)
            if status or len(arrived) >= self._asked:
                self._answered.set()

        stream = self._client.stream
        settings = ConsumerConfig(
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=self._next,
            ack_policy=AckPolicy.NONE,
            inactive_threshold=300.0,
            filter_subject=self._url.setting("subject"),
        )
        self._consumer = (await stream.add_consumer(self._url.topic, settings)).name
        self._inbox = self._client.connection.new_inbox()
        self._subscription = await self._client.connection.subscribe(self._inbox, cb=take)
        self._renew, self._delivered = False, 0

    async def _ask(self, most: int, seconds: float, **how: Any) -> None:
        """Ask for messages and wait until they, or the reason why there are no more, have come."""
        self._asked, self._status = most, ""
        self._answered.clear()
        await self._client.connection.publish(
            f"$JS.API.CONSUMER.MSG.NEXT.{self._url.topic}.{self._consumer}",
            json.dumps({"batch": most, **how}).encode(),
            reply=self._inbox,
        )
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._answered.wait(), seconds)
        if self._status not in _NO_MORE:
            raise NatsError(f"nats: status {self._status}")

    async def _info(self) -> Any:
        return await self._client.stream.consumer_info(self._url.topic, self._consumer)

    def positions(self) -> Positions:
        return {PARTITION: self._next}

    def ends(self) -> Positions:
        """Return the position behind the last message that is there and has the subject."""
        first, _ = self._range()
        try:
            last = self._client.wait(
                self._client.stream.get_last_msg(self._url.topic, self._url.setting("subject", ">"))
            )
        except NotFoundError:
            return {PARTITION: first}
        except (NatsError, OSError, FutureTimeoutError) as error:
            raise SourceError(f"{self._url.shown}: does not answer: {error or type(error).__name__}") from error
        return {PARTITION: (last.seq or 0) + 1}

    def commit(self, positions: Mapping[str, int]) -> None:
        """Do nothing: the server keeps no position of a reader."""

    def close(self) -> None:
        self._client.close()


def _sequence(reply: str) -> tuple[int, int]:
    """Read the number of a message in its stream, and that of its delivery, without the rest of its metadata.

    They stand before the time, what is left, and, where the server names a domain, a last random token.

    Examples
    --------
    >>> _sequence("$JS.ACK.rows.consumer.1.205.7.1700000000000000000.0")
    (205, 7)
    >>> _sequence("$JS.ACK.domain.account.rows.consumer.1.205.7.1700000000000000000.0.random")
    (205, 7)
    """
    parts = reply.split(".")
    at = 5 if len(parts) == 9 else 7
    return int(parts[at]), int(parts[at + 1])
