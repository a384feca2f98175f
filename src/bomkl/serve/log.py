"""The log: every row the service has acknowledged, in the order in which the model learns, in one SQLite file.

What is in the log after a commit survives a crash of the process and of the machine (write-ahead log,
``synchronous=FULL``). One thread owns a `Log`; the caller decides how many requests share a commit.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic_core import to_json

_FORMAT = 1
_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS entries (
    seq INTEGER PRIMARY KEY,        -- 1, 2, 3 ... without gaps
    last_row INTEGER NOT NULL,      -- rows in the log up to and including this entry
    at REAL NOT NULL,               -- seconds since 1970
    body TEXT NOT NULL              -- JSON: [[cells of row 1, ...], [label of row 1, ...]]
);
CREATE TABLE IF NOT EXISTS keys (
    key TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,      -- of the request that came with the key first
    reply TEXT                      -- NULL until the entry has been learned
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS keys_by_seq ON keys (seq);
CREATE TABLE IF NOT EXISTS waiting (
    id TEXT PRIMARY KEY,
    at REAL NOT NULL,
    cells TEXT NOT NULL             -- JSON: [cell, ...]
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS waiting_by_time ON waiting (at);
"""
_PRUNED_AT_ONCE = 1000  # entries; a longer transaction would hold up the rows that come meanwhile


class LogError(ValueError):
    """A folder that is not one of ours, is in use, or has lost rows."""


@dataclass(frozen=True)
class Entry:
    """Rows that came in one request."""

    seq: int
    last_row: int
    rows: list[list[Any]]
    labels: list[Any]

    @property
    def first_row(self) -> int:
        """Rows in the log before this entry."""
        return self.last_row - len(self.labels)


@dataclass(frozen=True)
class Known:
    """A key that came before."""

    seq: int
    fingerprint: str
    reply: Any | None


def log_path(folder: str | os.PathLike[str]) -> str:
    """Path of the log in a data folder."""
    return os.path.join(folder, "log.sqlite")


def _connect(path: str, read_only: bool) -> sqlite3.Connection:
    # Beside a log in use there is a write-ahead log. Where there is none, and none can be made, nobody is writing.
    still = read_only and not os.access(os.path.dirname(path), os.W_OK) and not os.path.exists(f"{path}-wal")
    name = f"{Path(path).resolve().as_uri()}{'?immutable=1' if still else ''}"
    db = sqlite3.connect(name, timeout=10, isolation_level=None, check_same_thread=False, uri=True)
    if read_only:
        db.execute("PRAGMA query_only=ON")
    return db


def _identities(path: str) -> list[tuple[int, int] | None]:
    """Tell the log and its write-ahead log from other files of the same names."""
    found: list[tuple[int, int] | None] = []
    for name in (path, f"{path}-wal"):
        try:
            status = os.stat(name)
            found.append((status.st_dev, status.st_ino))
        except OSError:
            found.append(None)
    return found


class Log:
    """The log of one data folder.

    Parameters
    ----------
    folder : str
        The data folder.
    read_only : bool, default=False
        Whether only reading is wanted: that works beside a running service.
    """

    def __init__(self, folder: str, read_only: bool = False) -> None:
        self.path = log_path(folder)
        if read_only and not os.path.exists(self.path):
            raise LogError(f"{folder}: there is no log here. Name the folder that was given to 'bomkl serve --data'.")
        with self._explained(), contextlib.ExitStack() as undo:
            self._db = _connect(self.path, read_only)
            undo.callback(self._db.close)
            self._prepare(read_only)
            self.seq, self.rows = self._before = self._end()
            undo.pop_all()
        self._files = _identities(self.path)

    def _prepare(self, read_only: bool) -> None:
        tables = {name for (name,) in self._db.execute("SELECT name FROM sqlite_master")}
        if tables and "facts" not in tables:  # nothing may be written to a file of someone else
            raise LogError(f"{self.path}: not a log of bomkl serve: it has other tables.")
        if not read_only:
            self._db.execute("PRAGMA journal_mode=WAL")
            self._db.execute("PRAGMA synchronous=FULL")
            self._db.execute("PRAGMA wal_autocheckpoint=4000")
            self._db.executescript(_TABLES)
        version = self.fact("format")
        if version is None and not read_only:
            self.set_fact("format", _FORMAT)
        elif version != _FORMAT:
            raise LogError(f"{self.path}: format {version}, but this bomkl reads format {_FORMAT}.")

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        """Name the log in errors of SQLite."""
        try:
            yield
        except sqlite3.OperationalError as error:  # such as a full disk, or a file that must not be written
            raise LogError(f"{self.path}: cannot be used as the log ({error}).") from error
        except sqlite3.DatabaseError as error:
            raise LogError(f"{self.path}: not a log of bomkl serve, or damaged ({error}).") from error

    def _end(self) -> tuple[int, int]:
        last = self._db.execute("SELECT seq, last_row FROM entries ORDER BY seq DESC LIMIT 1").fetchone()
        if last is None:
            last = self.fact("pruned_through") or (0, 0)
        return int(last[0]), int(last[1])

    # ------------------------------------------------------------ transactions

    def begin(self) -> None:
        """Start a transaction; nothing is written until `commit`."""
        self._before = self.seq, self.rows
        if _identities(self.path) != self._files:  # SQLite would go on with files that no restart will find
            raise sqlite3.OperationalError("its file was deleted or replaced while the service used it")
        self._db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Return when everything since `begin` is safe on the disk."""
        self._db.execute("COMMIT")

    def rollback(self) -> None:
        """Undo everything since `begin`."""
        self.seq, self.rows = self._before  # known without the disk: a wrong number would leave a gap in the log
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    # ------------------------------------------------------------ facts

    def fact(self, name: str) -> Any:
        """Return a value stored under a name, or None."""
        try:
            found = self._db.execute("SELECT value FROM facts WHERE name = ?", (name,)).fetchone()
        except sqlite3.OperationalError as error:
            if "no such table" in str(error):
                return None
            raise
        return None if found is None else json.loads(found[0])

    def set_fact(self, name: str, value: Any) -> None:
        """Store a value under a name."""
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", (name, json.dumps(value)))

    # ------------------------------------------------------------ entries

    def append(self, rows: list[list[Any]], labels: list[Any], at: float) -> Entry:
        """Add rows at the end."""
        body = to_json([rows, labels], inf_nan_mode="constants").decode()
        entry = Entry(self.seq + 1, self.rows + len(labels), rows, labels)
        self._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?)", (entry.seq, entry.last_row, at, body))
        self.seq, self.rows = entry.seq, entry.last_row
        return entry

    def entries(self, after: int) -> Iterator[Entry]:
        """Entries after number `after`, in order; raises `LogError` where one is missing."""
        expected = after + 1
        while True:
            with self._explained():
                part = self._db.execute(
                    "SELECT seq, last_row, body FROM entries WHERE seq >= ? ORDER BY seq LIMIT 16", (expected,)
                ).fetchall()
            if not part:
                return
            for seq, last_row, body in part:
                if seq != expected:
                    raise LogError(f"{self.path}: entry {expected} is missing: the next one is {seq}.")
                try:
                    rows, labels = json.loads(body)
                except (TypeError, ValueError) as error:
                    raise LogError(f"{self.path}: entry {seq} is damaged ({error}).") from error
                yield Entry(seq, last_row, rows, labels)
                expected += 1

    def first_seq(self) -> int:
        """Return the number of the first entry that has not been pruned."""
        pruned = self.fact("pruned_through")
        return 1 if pruned is None else int(pruned[0]) + 1

    def prune(self, through: int) -> bool:
        """Delete some of the entries up to number `through`, and their keys; True when none is left."""
        begin = self.first_seq()
        end = min(through, begin + _PRUNED_AT_ONCE - 1)
        if end < begin:
            return True
        row = self._db.execute("SELECT last_row FROM entries WHERE seq = ?", (end,)).fetchone()
        self._db.execute("DELETE FROM entries WHERE seq <= ?", (end,))
        self._db.execute("DELETE FROM keys WHERE seq <= ?", (end,))
        self.set_fact("pruned_through", [end, row[0]])
        return end == through

    # ------------------------------------------------------------ keys

    def known(self, key: str) -> Known | None:
        """Find what came with a key before."""
        found = self._db.execute("SELECT seq, fingerprint, reply FROM keys WHERE key = ?", (key,)).fetchone()
        return None if found is None else Known(found[0], found[1], found[2] and json.loads(found[2]))

    def remember(self, key: str, seq: int, fingerprint: str) -> None:
        """Note that an entry came with a key."""
        self._db.execute("INSERT INTO keys VALUES (?, ?, ?, NULL)", (key, seq, fingerprint))

    def set_reply(self, seq: int, reply: Any) -> None:
        """Note what was answered to the request of an entry."""
        self._db.execute("UPDATE keys SET reply = ? WHERE seq = ?", (json.dumps(reply), seq))

    def unanswered(self, after: int) -> set[int]:
        """Numbers of entries that came with a key and whose answer is not stored."""
        found = self._db.execute("SELECT seq FROM keys WHERE seq > ? AND reply IS NULL", (after,))
        return {seq for (seq,) in found}

    # ------------------------------------------------------------ rows that wait for their label

    def wait_for_label(self, identifier: str, cells: list[Any], at: float) -> None:
        """Keep a row until its label comes."""
        self._db.execute("INSERT OR REPLACE INTO waiting VALUES (?, ?, ?)", (identifier, at, json.dumps(cells)))

    def waiting_row(self, identifier: str) -> list[Any] | None:
        """Find a row that waits for its label."""
        found = self._db.execute("SELECT cells FROM waiting WHERE id = ?", (identifier,)).fetchone()
        return None if found is None else json.loads(found[0])

    def stop_waiting(self, identifier: str) -> None:
        """Forget a row whose label has come."""
        self._db.execute("DELETE FROM waiting WHERE id = ?", (identifier,))

    def count_waiting(self) -> int:
        """Count the rows that wait for their label."""
        return int(self._db.execute("SELECT COUNT(*) FROM waiting").fetchone()[0])

    def expire(self, before: float) -> int:
        """Forget rows that began to wait before a time; returns how many."""
        return self._db.execute(
            "DELETE FROM waiting WHERE id IN (SELECT id FROM waiting WHERE at < ? LIMIT 1000)", (before,)
        ).rowcount
