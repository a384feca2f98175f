"""What a broker must offer so that rows can be learned from it exactly once.

A package that adds a broker registers a class under the entry point group ``bomkl.sources``; its name there is the
scheme of its URLs. The class is called with a `SourceUrl` and has the methods of `Source`. Where predictions can
be published, the class has an attribute ``sink``, which is called in the same way and has the methods of `Sink`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, quote, unquote, urlsplit, urlunsplit

from bomkl._support.extras import install_hint
from bomkl._support.validation import did_you_mean

GROUP = "bomkl.sources"
_COMMON = ("payload", "columns", "until", "labels", "key", "most_waiting", "dead_letters")  # settings of any broker
Positions = dict[str, int]  # of each partition, the position of the record that comes next


class SourceError(ValueError):
    """A broker that cannot be read as asked."""


class Record(NamedTuple):
    """One message of a broker.

    Attributes
    ----------
    partition : str
        Part of the topic that it stands in; positions are counted in each.
    position : int
        Its place there. A later record has a larger one.
    value : bytes
        What it holds.
    key : str
        Its key; empty where it has none.
    """

    partition: str
    position: int
    value: bytes
    key: str = ""


class Source(Protocol):
    """A topic or stream of a broker, read from positions that the reader keeps."""

    def seek(self, positions: Mapping[str, int]) -> None:
        """Go to positions; partitions that are not named start where the URL says. Called before the first `poll`."""

    def poll(self, most: int, seconds: float) -> list[Record]:
        """Return the next records, as many as `most`; after `seconds` those that are there, which may be none."""

    def positions(self) -> Positions:
        """Return what comes next in each partition that is read here, also before its first record has come."""

    def ends(self) -> Positions:
        """Return the position behind the last record of each partition as of now."""

    def commit(self, positions: Mapping[str, int]) -> None:
        """Tell the broker how far records are used, for those who watch it; nothing depends on it."""

    def close(self) -> None:
        """Leave the broker."""


class Sink(Protocol):
    """A topic or stream that predictions are published to."""

    def send(self, records: list[Record]) -> None:
        """Publish values, in this order for each partition; returns when the broker has them."""

    def close(self) -> None:
        """Leave the broker."""


@dataclass(frozen=True)
class SourceUrl:
    """Where records come from or go to: ``SCHEME://HOST:PORT/TOPIC?SETTING=VALUE&...``.

    Some settings are the same for all brokers: ``payload`` (json, csv or arrow), ``columns`` (their names, for CSV),
    ``until=end`` (stop at what is there at the start), ``labels`` (a topic of labels that come later), ``key`` (the
    field that joins them; else the keys of the records do), ``most_waiting`` (rows that may wait for their label) and
    ``dead_letters`` (a file, or the URL of a topic, for records that cannot be used).

    Parameters
    ----------
    text : str
        The URL.
    tell : callable, default=print
        Called with one line whenever something happens that a person may want to know.

    Examples
    --------
    >>> url = SourceUrl("kafka://localhost:9092/clicks?group=bomkl&security.protocol=SSL")
    >>> url.scheme, url.server, url.topic, url.setting("group")
    ('kafka', 'localhost:9092', 'clicks', 'bomkl')
    """

    text: str
    tell: Callable[[str], None] = field(default=print, compare=False)
    scheme: str = field(init=False)
    server: str = field(init=False)
    topic: str = field(init=False)
    settings: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        parts = urlsplit(self.text)
        try:
            settings = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=bool(parts.query)))
        except ValueError as error:
            raise SourceError(f"{self.shown}: its settings must be NAME=VALUE, joined by '&'") from error
        topic = unquote(parts.path.removeprefix("/"))
        if not parts.scheme or not parts.netloc or not topic or "/" in topic:
            rule = "a URL such as kafka://HOST:PORT/TOPIC or nats://HOST:PORT/STREAM"
            raise SourceError(f"A source must be {rule}. Got {self.shown!r} instead.")
        for name, value in (("scheme", parts.scheme), ("server", parts.netloc), ("topic", topic)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "settings", settings)

    def with_topic(self, topic: str) -> SourceUrl:
        """Return the same URL for another topic."""
        parts = urlsplit(self.text)
        return SourceUrl(urlunsplit(parts._replace(path="/" + quote(topic, safe=""))), self.tell)

    @property
    def shown(self) -> str:
        """The URL for messages: without settings and passwords.

        Examples
        --------
        >>> SourceUrl("nats://me:secret@host:4222/rows?x=1").shown
        'nats://host:4222/rows'
        """
        parts = urlsplit(self.text)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    def setting(self, name: str, default: str | None = None, choices: tuple[str, ...] | None = None) -> Any:
        """Return a setting of the URL; one that is not among the choices is refused."""
        value = self.settings.get(name, default)
        if choices is not None and value not in choices:
            raise SourceError(f"{self.shown}: {name!r} must be one of {list(choices)}. Got {value!r} instead.")
        return value

    def check_settings(self, known: tuple[str, ...], passed_on: Callable[[str], bool] = lambda name: False) -> None:
        """Refuse settings that nobody reads."""
        for name in self.settings:
            if name not in (*known, *_COMMON) and not passed_on(name):
                hint = did_you_mean(name, known)
                raise SourceError(
                    f"{self.shown}: there is no setting {name!r}.{hint} Known are {sorted((*known, *_COMMON))}."
                )


def open_source(url: SourceUrl) -> Source:
    """Open a source by the scheme of its URL.

    Parameters
    ----------
    url : SourceUrl
        Where records come from.

    Returns
    -------
    Source
    """
    source: Source = _broker(url)(url)
    return source


def open_sink(url: SourceUrl) -> Sink:
    """Open what predictions are published to, by the scheme of its URL.

    Parameters
    ----------
    url : SourceUrl
        Where they go.

    Returns
    -------
    Sink
    """
    broker = _broker(url)
    if not hasattr(broker, "sink"):
        raise SourceError(f"{url.shown}: nothing can be published there, only read.")
    sink: Sink = broker.sink(url)
    return sink


def lag(source: Source, at: Mapping[str, int]) -> int:
    """Count the records behind some positions, of the partitions that are read here."""
    ends = source.ends()
    return sum(max(ends.get(each, 0) - at.get(each, begin), 0) for each, begin in source.positions().items())


def _broker(url: SourceUrl) -> Any:
    found = {each.name: each for each in entry_points(group=GROUP)}
    if url.scheme not in found:
        hint = did_you_mean(url.scheme, tuple(found))
        raise SourceError(f"{url.shown}: no broker is known as {url.scheme!r}.{hint} Known are {sorted(found)}.")
    try:
        return found[url.scheme].load()
    except ImportError as error:
        raise SourceError(f"{url.shown}: this needs the package {error.name!r}. {install_hint(url.scheme)}") from error
