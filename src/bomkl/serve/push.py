"""Streams the rows of files to a service, in order, at a given rate."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import httpx
import numpy as np

from bomkl.serve.bodies import MOST_ROWS, NDJSON
from bomkl.streams import Stream, StreamError
from bomkl.streams.columns import infer_column
from bomkl.streams.labels import is_missing, label_kind, to_number
from bomkl.streams.parts import Matrix, Table

_PATIENCE = 60.0  # seconds for which a service may be away
_RETRIED = frozenset({429, 503, 507})
Named = tuple[list[dict[str, Any]], list[Any]]


class PushError(ValueError):
    """The service refused rows, or cannot be reached."""


@dataclass
class Sent:
    """What was sent.

    Parameters
    ----------
    rows : int
        Rows that the service has learned from, or predicted.
    mistakes : float
        How many of them were predicted wrongly; for numbers the sum of absolute errors.
    latencies : list of float
        Seconds from each request to its answer, without those that had to be sent again.
    """

    rows: int = 0
    mistakes: float = 0.0
    latencies: list[float] = field(default_factory=list)

    def latency(self, share: float) -> float:
        """Seconds within which a share of the requests were answered."""
        return float(np.quantile(self.latencies, share)) if self.latencies else 0.0


def named_rows(stream: Stream, numbers: bool) -> Iterator[Named]:
    """Rows of files as mappings from column names to plain values, with their labels.

    Parameters
    ----------
    stream : Stream
        The files. What a column holds is decided by the first rows.
    numbers : bool
        Whether labels are numbers to regress on; otherwise they are if the first rows have one that is not whole.
    """
    options = replace(stream.options, categorical="hash")  # any number of different strings
    kinds: dict[str, str] = {}
    whole: bool | None = None
    for part in stream.parts():
        if isinstance(part, Table):
            names = [name for name in part.cells if name != part.label and name not in stream.options.ignore]
            for name in names:
                if name not in kinds:
                    kinds[name] = infer_column(name, part.cells[name], options, part.file).kind
            columns = [_cells(part.cells[name], kinds[name]) for name in names]
            rows = [dict(zip(names, cells, strict=True)) for cells in zip(*columns, strict=True)]
        else:
            assert isinstance(part, Matrix)
            dense = part.X.toarray() if hasattr(part.X, "toarray") else np.asarray(part.X)
            names = [
                f"x{number + 1}" for number in range(stream.schema.n_features if stream.schema else dense.shape[1])
            ]
            rows = [dict(zip(names, cells, strict=False)) for cells in dense.tolist()]
        if part.label_cells is None:
            raise StreamError(f"{stream.name}: there are no labels")
        labels, whole = _labels(part.label_cells, numbers, whole)
        yield rows, labels


def _cells(cells: Any, kind: str) -> list[Any]:
    if isinstance(cells, np.ndarray):
        return [None if cell != cell else cell for cell in cells.tolist()]
    if kind != "number":
        return [None if is_missing(cell) else cell if isinstance(cell, bool) else str(cell) for cell in cells]
    return [None if is_missing(cell) else to_number(cell) for cell in cells]


def _labels(cells: Any, numbers: bool, whole: bool | None) -> tuple[list[Any], bool | None]:
    plain = cells.tolist() if isinstance(cells, np.ndarray) else list(cells)
    if label_kind(cells) == "string":
        return [str(cell) for cell in plain], whole
    values = [float(to_number(cell)) for cell in plain]
    if whole is None:
        whole = not numbers and all(value.is_integer() for value in values)
    return ([int(value) for value in values] if whole else values), whole


class Pusher:
    """Sends rows to a service. Every request has a key, so that one that is sent again is learned once.

    Parameters
    ----------
    url : str
        Address of the service.
    token : str or None, default=None
        Its token.
    key : str or None, default=None
        Begins the keys of this push; the same one again learns nothing twice. None makes one up.
    """

    def __init__(self, url: str, token: str | None = None, key: str | None = None) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._client = httpx.Client(base_url=url, headers=headers, timeout=60.0, trust_env=False)
        self._key = key or secrets.token_hex(8)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def push(self, rows: Iterator[Named], batch: int, rate: float | None) -> Iterator[Sent]:
        """Send rows in order; yields what was sent after every request.

        Parameters
        ----------
        rows : iterator of rows and labels
            What to send.
        batch : int
            Most rows of a request.
        rate : float or None
            Rows a second; None sends as fast as the service learns.
        """
        sent, begun = Sent(), time.monotonic()
        for named, labels in rows:
            at = 0
            while at < len(labels):
                size = min(batch, MOST_ROWS, len(labels) - at)
                if rate is not None:
                    ahead = (sent.rows + 1) / rate - (time.monotonic() - begun)
                    if ahead > 0:
                        time.sleep(ahead)
                    due = int((time.monotonic() - begun) * rate) - sent.rows
                    size = max(min(size, due), 1)
                part = slice(at, at + size)
                self._send(named[part], labels[part], sent)
                at += size
                yield sent

    def _send(self, rows: list[dict[str, Any]], labels: list[Any], sent: Sent) -> None:
        lines = [json.dumps({"row": row, "y": y}) for row, y in zip(rows, labels, strict=True)]
        headers = {"Content-Type": NDJSON, "Idempotency-Key": f"{self._key}-{sent.rows}"}
        reply = self._request("\n".join(lines).encode(), headers, sent)
        for y, prediction in zip(labels, reply["predictions"], strict=True):
            if isinstance(y, float) and not isinstance(prediction, str):
                sent.mistakes += abs(y - (prediction or 0.0))
            else:
                sent.mistakes += prediction is None or prediction != y
        sent.rows += len(labels)

    def _request(self, body: bytes, headers: dict[str, str], sent: Sent) -> Any:
        begun, pause = time.monotonic(), 0.1
        while True:
            try:
                sending = time.monotonic()
                response = self._client.post("/v1/learn", content=body, headers=headers)
                if response.status_code == 200:
                    sent.latencies.append(time.monotonic() - sending)
                    return response.json()
                problem = f"{response.status_code}: {_detail(response)}"
                if response.status_code not in _RETRIED:
                    raise PushError(f"{self._client.base_url} refused rows after row {sent.rows}: {problem}")
                pause = float(response.headers.get("retry-after", pause))
            except httpx.TransportError as error:
                problem = str(error) or type(error).__name__
            if time.monotonic() - begun > _PATIENCE:
                raise PushError(f"{self._client.base_url} cannot be reached: {problem}")
            time.sleep(pause)
            pause = min(2 * pause, 2.0)


def _detail(response: httpx.Response) -> str:
    try:
        return str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return response.text[:200]
