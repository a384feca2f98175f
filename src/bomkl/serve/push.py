"""Streams the rows of files to a service, in order, at a given rate."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, Self

import httpx
import numpy as np
from pydantic_core import to_json
from tqdm import tqdm

from bomkl.serve.formats.bodies import MOST_ROWS, NDJSON
from bomkl.streams import Stream
from bomkl.streams.labels import label_kind
from bomkl.tables.numbers import is_gap

_PATIENCE = 60.0  # seconds for which a service may be away
_SAY_AFTER = 2.0  # seconds after which the user is told so
_MOST_LATENCIES = 100_000
_RETRIED = frozenset({429, 503, 507})
Named = tuple[list[dict[str, Any]], list[Any]]


class PushError(ValueError):
    """The service refused rows, or cannot be reached."""


@dataclass
class Sent:
    rows: int = 0  # rows that the service has learned from, or predicted
    mistakes: float = 0.0  # how many of them were predicted wrongly; for numbers the sum of absolute errors
    # Seconds from each request to its answer, without those that had to be sent again; of many, every second one, then
    # every fourth, and so on
    latencies: list[float] = field(default_factory=list)
    requests: int = 0  # requests that were answered
    _stride: int = 1

    def note(self, seconds: float) -> None:
        if self.requests % self._stride == 0:
            self.latencies.append(seconds)
        self.requests += 1
        if len(self.latencies) > _MOST_LATENCIES:
            del self.latencies[1::2]
            self._stride *= 2

    def latency(self, share: float) -> float:
        """Seconds within which a share of the requests were answered."""
        return float(np.quantile(self.latencies, share)) if self.latencies else 0.0


def named_rows(stream: Stream, numbers: bool) -> Iterator[Named]:
    """Rows of files as mappings from column names to plain values, with their labels.

    `numbers`: whether labels are numbers to regress on; otherwise they are if the first block has one that is not
    whole.
    """
    if stream.rewindable:
        for part in stream.parts():  # labels are texts as soon as one of the first ones is
            kind = "number" if part.label_cells is None else label_kind(part.label_cells)
            stream.schema = replace(part.infer(stream.options), label_kind=kind)
            break
    whole: bool | None = None
    for block in stream:
        columns = _columns(block.X)
        rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
        labels = block.y.tolist()
        if whole is None:
            whole = not numbers and block.y.dtype.kind == "i"
        yield rows, labels if whole or block.y.dtype.kind == "U" else [float(label) for label in labels]


def _columns(X: Any) -> dict[str, list[Any]]:
    """Columns as lists of what JSON knows; features without names are called x1, x2 ..."""
    if isinstance(X, dict):
        return {name: _plain(cells) for name, cells in X.items()}
    dense = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    return {f"x{number + 1}": cells.tolist() for number, cells in enumerate(dense.T)}


def _plain(cells: Any) -> list[Any]:
    if not isinstance(cells, np.ndarray):
        return [None if is_gap(cell) else cell for cell in cells]
    found = cells.tolist() if cells.dtype.kind != "M" else cells.astype("datetime64[us]").astype(str).tolist()
    return [None if gap else cell for gap, cell in zip((cells != cells).tolist(), found, strict=True)]


class Pusher:
    """Sends rows to a service. Every request has a key, so that one that is sent again is learned once.

    `key`: begins the keys of this push; the same one again learns nothing twice. None makes one up.
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

        `rate`: rows a second; None sends as fast as the service learns.
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
        lines = [to_json({"row": row, "y": y}) for row, y in zip(rows, labels, strict=True)]
        headers = {"Content-Type": NDJSON, "Idempotency-Key": f"{self._key}-{sent.rows}"}
        reply = self._request(b"\n".join(lines), headers, sent)
        for y, prediction in zip(labels, reply["predictions"], strict=True):
            if isinstance(y, float) and not isinstance(prediction, str):
                sent.mistakes += abs(y - (prediction or 0.0))
            else:
                sent.mistakes += prediction is None or prediction != y  # None where the model could not tell
        sent.rows += len(labels)

    def _request(self, body: bytes, headers: dict[str, str], sent: Sent) -> Any:
        begun, pause, warned = time.monotonic(), 0.1, False
        while True:
            try:
                sending = time.monotonic()
                response = self._client.post("/v1/learn", content=body, headers=headers)
                if response.status_code == 200:
                    sent.note(time.monotonic() - sending)
                    return response.json()
                problem = f"{response.status_code}: {_detail(response)}"
                if response.status_code not in _RETRIED:
                    raise PushError(f"{self._client.base_url} refused rows after row {sent.rows}: {problem}")
                pause = float(response.headers.get("retry-after", pause))
            except httpx.TransportError as error:
                problem = str(error) or type(error).__name__
            waited = time.monotonic() - begun
            if waited > _PATIENCE:
                raise PushError(f"{self._client.base_url} cannot be reached: {problem}")
            if waited > _SAY_AFTER and not warned:
                warned = True
                where = self._client.base_url
                message = f"bomkl: {where} does not take rows ({problem}). Trying again for {_PATIENCE:.0f} s."
                tqdm.write(message, file=sys.stderr)
            time.sleep(pause)
            pause = min(2 * pause, 2.0)


def _detail(response: httpx.Response) -> str:
    try:
        return str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return response.text[:200]
