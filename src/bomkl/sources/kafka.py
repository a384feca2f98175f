"""Kafka, by confluent-kafka: ``kafka://HOST:PORT/TOPIC?group=NAME&start=earliest|latest``.

A setting whose name has a dot goes to librdkafka as it is, such as ``security.protocol=SASL_SSL``; ``settings=FILE``
names a file with such settings, one ``NAME=VALUE`` a line, for those that nobody else should see.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from confluent_kafka import OFFSET_END, Consumer, KafkaError, KafkaException, Producer, TopicPartition

from bomkl.sources.base import Positions, Record, SourceError, SourceUrl

_SETTINGS = ("group", "start", "settings")
_SECONDS = 3.0  # for an answer of a broker that is there; a signal waits as long
_WATCHED = (KafkaError._ALL_BROKERS_DOWN, KafkaError._TRANSPORT, KafkaError._RESOLVE, KafkaError._AUTHENTICATION)

# What librdkafka would log: all that people need to know is told by `error_cb`
_SILENT = logging.Logger("librdkafka", logging.CRITICAL + 1)


def _configuration(url: SourceUrl) -> dict[str, Any]:
    url.check_settings(_SETTINGS, passed_on=lambda name: "." in name)
    found = {"bootstrap.servers": url.server}
    if (path := url.setting("settings")) is not None:
        try:
            lines = Path(path).read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise SourceError(f"{url.shown}: cannot read its settings: {path}: {error.strerror}") from error
        for line in filter(None, map(str.strip, lines)):
            name, equals, value = line.partition("=")
            if not equals:
                raise SourceError(f"{path}: each line must be NAME=VALUE. Got {name.split()[0]!r} and no '='.")
            found[name.strip()] = value.strip()
    return found | {name: value for name, value in url.settings.items() if "." in name}


def _made(url: SourceUrl, kind: Any, configuration: dict[str, Any]) -> Any:
    try:
        return kind(configuration, logger=_SILENT)
    except (KafkaException, ValueError, TypeError) as error:
        raise SourceError(f"{url.shown}: {error}") from error


class _Connection:
    """Tells once that a broker is gone, and once that it is back."""

    def __init__(self, url: SourceUrl) -> None:
        self._url, self._gone = url, False

    def failed(self, error: KafkaError) -> None:
        if error.code() in _WATCHED and not self._gone:
            self._gone = True
            self._url.tell(f"{self._url.shown}: {error.str()}; waiting for it.")

    def answered(self) -> None:
        if self._gone:
            self._gone = False
            self._url.tell(f"{self._url.shown}: is back.")


class KafkaSink:
    """A topic for predictions; record p of any partition goes to partition p of the topic, or wraps."""

    def __init__(self, url: SourceUrl) -> None:
        self._url, self._connection = url, _Connection(url)
        own = {"enable.idempotence": "true", "linger.ms": "5", "error_cb": self._connection.failed}
        self._producer = _made(url, Producer, _configuration(url) | own)
        self._failed: KafkaError | None = None

    def send(self, records: list[Record]) -> None:
        for record in records:
            while True:
                try:
                    self._producer.produce(
                        self._url.topic, record.value, key=record.key or record.partition, on_delivery=self._delivered
                    )
                    break
                except BufferError:
                    self._producer.poll(0.1)
        while self._producer.flush(0.2):
            pass
        if self._failed is not None:
            raise SourceError(f"{self._url.shown}: a prediction was not taken: {self._failed.str()}")
        self._connection.answered()

    def _delivered(self, error: KafkaError | None, message: Any) -> None:
        self._failed = self._failed or error

    def close(self) -> None:
        """Leave the broker."""


class KafkaSource:
    """The records of a topic.

    With ``group``, the broker shares its partitions out among the members of the group; without, all are read.
    """

    sink: ClassVar[Any] = KafkaSink

    def __init__(self, url: SourceUrl) -> None:
        self._url, self._connection = url, _Connection(url)
        self._latest = url.setting("start", "earliest", ("earliest", "latest")) == "latest"
        self._group = url.setting("group")
        own = {
            "group.id": self._group or "bomkl",
            "enable.auto.commit": "false",
            "auto.offset.reset": "error",
            "enable.partition.eof": "true",
            "error_cb": self._connection.failed,
        }
        self._consumer = _made(url, Consumer, _configuration(url) | own)
        # A broker answers the questions of a connection one by one, and a fetch waits for records to come: what is
        # asked beside it goes through a connection of its own
        self._asking = _made(url, Consumer, _configuration(url) | own)
        self._next: Positions = {}
        self._wanted: Positions = {}
        self._mine: set[str] = set()  # partitions that are read here
        self._vanished = False

    def seek(self, positions: Mapping[str, int]) -> None:
        """Go to positions; others start at ``start``, or where the group has come to."""
        self._wanted = dict(positions)
        if self._group is not None:
            self._consumer.subscribe([self._url.topic], on_assign=self._assigned, on_revoke=self._revoked)
            return
        while True:
            try:
                self._assigned(self._consumer, self._partitions())
                return
            except KafkaException as error:
                self._connection.failed(error.args[0])

    def _partitions(self) -> list[TopicPartition]:
        topic = self._asking.list_topics(self._url.topic, timeout=_SECONDS).topics[self._url.topic]
        if topic.error is not None:
            raise SourceError(f"{self._url.shown}: there is no such topic ({topic.error.str()}).")
        self._connection.answered()
        return [TopicPartition(self._url.topic, each) for each in sorted(topic.partitions)]

    def _assigned(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        """Take partitions over at the saved position or, if another member of the group has gone on since, there."""
        committed = {}
        if self._group is not None:
            committed = {each.partition: each.offset for each in consumer.committed(partitions, timeout=_SECONDS)}
        for each in partitions:
            name = str(each.partition)
            place = max(self._wanted.get(name, -1), self._next.get(name, -1), committed.get(each.partition, -1), -1)
            if place < 0:
                low, high = consumer.get_watermark_offsets(each, timeout=_SECONDS)
                place = high if self._latest else low
            self._next[name] = each.offset = place
            self._mine.add(name)
        consumer.assign(partitions)
        if self._group is not None:
            numbers = ", ".join(str(each.partition) for each in partitions) or "none"
            self._url.tell(f"{self._url.shown}: group {self._group} reads partitions here: {numbers}.")

    def _revoked(self, consumer: Any, partitions: list[TopicPartition]) -> None:
        self._mine -= {str(each.partition) for each in partitions}
        consumer.unassign()

    def poll(self, most: int, seconds: float) -> list[Record]:
        found: list[Record] = []
        for message in self._consumer.consume(most, seconds):
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:  # behind the end of a transaction, too
                    self._next[str(message.partition())] = message.offset()
                else:
                    self._problem(error)
                continue
            self._connection.answered()
            self._vanished = False
            partition, position = str(message.partition()), message.offset()
            if position < self._next.get(partition, 0):
                continue  # delivered again
            self._next[partition] = position + 1
            key = message.key()
            text = "" if key is None else key.decode("utf-8", "replace") if isinstance(key, bytes) else str(key)
            found.append(Record(partition, position, message.value() or b"", text))
        return found

    def _problem(self, error: KafkaError) -> None:
        code = error.code()
        if code == KafkaError._AUTO_OFFSET_RESET:
            raise SourceError(
                f"{self._url.shown}: records that were to come next are no longer there: {error.str()}. To go on from "
                "what is there, use a new model file."
            )
        if code in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
            if not self._vanished:
                self._url.tell(f"{self._url.shown}: the topic is gone; waiting for it.")
            self._vanished = True
        elif code == KafkaError.TOPIC_AUTHORIZATION_FAILED or error.fatal():
            raise SourceError(f"{self._url.shown}: {error.str()}")
        else:
            self._connection.failed(error)

    def positions(self) -> Positions:
        return {each: at for each, at in self._next.items() if each in self._mine}

    def ends(self) -> Positions:
        try:
            wanted = [TopicPartition(self._url.topic, each.partition, OFFSET_END) for each in self._partitions()]
            found = self._asking.offsets_for_times(wanted, timeout=_SECONDS)
        except KafkaException as error:
            raise SourceError(f"{self._url.shown}: {error.args[0].str()}") from error
        return {str(each.partition): max(each.offset, 0) for each in found}

    def commit(self, positions: Mapping[str, int]) -> None:
        if self._group is not None and (mine := {each: at for each, at in positions.items() if each in self._next}):
            places = [TopicPartition(self._url.topic, int(each), at) for each, at in mine.items()]
            try:
                self._consumer.commit(offsets=places, asynchronous=True)
            except KafkaException as error:
                self._connection.failed(error.args[0])

    def close(self) -> None:
        self._consumer.close()
        self._asking.close()
