"""The log: every row the service has acknowledged, in the order in which the model learns, in one SQLite file.

What is in the log after a commit survives a crash of the process and of the machine (write-ahead log,
``synchronous=FULL``). One thread owns a `Log`; the caller decides how many requests share a commit.

Every row of every table has a checksum. That of an entry covers the entry before, so entries that are missing, changed,
copied or in another order are noticed. The fact "end" tells with each commit where the chain ends, and the sum of the
checksums of all other rows. A log that is refused is left as it is.
"""

from __future__ import annotations

import contextlib
import json
import os
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_core import to_json

from bomkl.serve.errors import LogError
from bomkl.serve.storage.entry import Entry, Place, link, parse_body, row_checksum
from bomkl.serve.storage.logfile import (
    FORMAT,
    STATEMENTS,
    check_schema,
    connect,
    damaged,
    explained,
    identities,
    is_new,
    log_path,
    text_of,
)
from bomkl.serve.storage.mark import Mark
from bomkl.serve.storage.upgrade import is_old, upgrade

_PRUNED_AT_ONCE = 1000  # entries; a longer transaction would hold up the rows that come meanwhile
# Rows are found through an index and then by their name: what can be read this way will be found later.
_ROWS = {
    "facts": "SELECT name, value, digest FROM facts ORDER BY name",
    "keys": "SELECT key, seq, fingerprint, reply, digest FROM keys INDEXED BY keys_by_seq ORDER BY seq",
    "waiting": "SELECT id, at, cells, digest FROM waiting INDEXED BY waiting_by_time ORDER BY at",
}


@dataclass(frozen=True)
class Known:
    """A key that came before."""

    seq: int
    fingerprint: str
    reply: Any | None


@dataclass(frozen=True)
class _State:
    """What a transaction changes and `rollback` brings back."""

    end: Place = field(default_factory=Place)
    facts: dict[str, str] = field(default_factory=dict)
    total: int = 0  # exclusive or of the checksums of all rows that are neither entries nor the fact "end"


class Log(contextlib.AbstractContextManager["Log"]):
    """The log of one data folder.

    `read_only`: whether only reading is wanted: that works beside a running service. `checked`: whether a damaged log
    is refused; `entries` checks in any case.
    """

    def __init__(self, folder: str, read_only: bool = False, checked: bool = True) -> None:
        self.path = log_path(folder)
        exists = os.path.exists(self.path)
        if read_only and not exists:
            raise LogError(f"{folder}: there is no log here. Name the folder that was given to 'bomkl serve --data'.")
        self._mark = Mark(f"{self.path}.end")
        self._state = self._before = _State()
        self._db = sqlite3.connect(":memory:")
        with contextlib.ExitStack() as undo, self.explained():
            undo.callback(self.close)
            marked = self._mark.read() if checked else None
            if exists:
                self._use(connect(self.path, True))
                self._load(checked)
            if checked:
                self._compare(marked)
            if not read_only:
                self._use(connect(self.path, False))
                self._open_for_writing()
            self._files = identities(self.path)
            undo.pop_all()

    def _use(self, db: sqlite3.Connection) -> None:
        self._db.close()
        self._db = db

    def _open_for_writing(self) -> None:
        self._db.execute("PRAGMA journal_mode=WAL")
        self._db.execute("PRAGMA synchronous=FULL")
        self._db.execute("PRAGMA wal_autocheckpoint=4000")
        self._db.execute("BEGIN IMMEDIATE")
        if not self._state.facts:
            for statement in STATEMENTS:
                self._db.execute(statement)
            self.set_fact("format", FORMAT)
            self._write_end()
        elif is_old(self._db):
            upgrade(self._db, self.path, STATEMENTS)
        self._db.execute("COMMIT")
        self._mark.write(self.end)

    def _load(self, checked: bool) -> None:
        """Read what a log holds beside its entries, all at one moment: a service may be writing."""
        if is_new(self._db, self.path):
            return
        if is_old(self._db):
            copy = sqlite3.connect("", isolation_level=None, check_same_thread=False)  # a file that SQLite deletes
            self._db.backup(copy)
            self._use(copy)
            copy.text_factory = text_of
            upgrade(copy, self.path, STATEMENTS, checked)
        else:
            check_schema(self._db, self.path)
        facts, total = {}, 0
        self._db.execute("BEGIN")
        for table in _ROWS:
            for (name, *values), digest, good in self.rows_of(table):
                if checked and not good:
                    raise self._damaged(f"the checksum of {name!r} in its table {table!r} is wrong", digest)
                if table == "facts" and good:
                    facts[name] = values[0]
                if good and (table, name) != ("facts", "end"):
                    total ^= int.from_bytes(digest, "big")
        self._state = _State(facts=facts, total=total)
        if checked:
            self._check_facts()
        self._db.execute("COMMIT")

    def _check_facts(self) -> None:
        facts = self._state.facts
        for name in ("format", "end"):
            if name not in facts:
                raise self._damaged(f"its fact {name!r} is missing")
        if self.fact("format") != FORMAT:
            raise LogError(
                f"{self.path}: format {self.fact('format')}, but this bomkl reads formats 1 and {FORMAT}. "
                "Use a newer bomkl."
            )
        seq, rows, digest, expected = self.fact("end")
        self._state = replace(self._state, end=Place(seq, rows, bytes.fromhex(digest)))
        if self._state.total != expected:
            raise self._damaged("a fact, a key or a row that waits for its label is missing, or is one of another time")
        if self.place_of(seq) != self.end:
            raise self._damaged(f"its last entry is not entry {seq} as it was written")

    def rows_of(self, table: str) -> Iterator[tuple[tuple[Any, ...], Any, bool]]:
        """Rows of a table other than the entries, their checksums, and whether these are right."""
        for *values, digest in self._db.execute(_ROWS[table]):
            yield tuple(values), digest, row_checksum(*values) == digest

    def _compare(self, marked: Place | None) -> None:
        """Compare the end of the log with the end that was written down beside it."""
        if marked is None:
            return
        if marked.seq > self.end.seq:
            raise LogError(
                f"{self.path}: rows that were acknowledged are missing. It ends with entry {self.end.seq}, but "
                f"according to {self._mark.path} there were {marked.seq} entries with {marked.rows} rows. Put back the "
                "log that belongs here; or, to go on without these rows, use 'bomkl replay DIR --repair'."
            )
        if marked.seq >= self.start.seq and self.place_of(marked.seq) != marked:
            raise self._damaged(f"entry {marked.seq} is not the one that {self._mark.path} names", marked.digest)

    def explained(self, doing: str = "") -> contextlib.AbstractContextManager[None]:
        return explained(self.path, lambda: self._db, doing)

    def _damaged(self, problem: str, needle: object = None) -> LogError:
        return damaged(self.path, problem, needle)

    # ------------------------------------------------------------ transactions

    @property
    def start(self) -> Place:
        """The place before the first entry that has not been pruned."""
        pruned = self.fact("pruned_through")
        return Place() if pruned is None else Place(pruned[0], pruned[1], bytes.fromhex(pruned[2]))

    @property
    def end(self) -> Place:
        return self._state.end

    def begin(self) -> None:
        """Start a transaction; nothing is written until `commit`."""
        self._before = self._state
        if identities(self.path) != self._files:  # SQLite would go on with files that no restart will find
            raise sqlite3.OperationalError("its file was deleted or replaced while the service used it")
        self._db.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Return when everything since `begin` is safe on the disk."""
        if self._state is not self._before:
            self._write_end()
        self._db.execute("COMMIT")
        self._mark.write(self.end)

    def rollback(self) -> None:
        self._state = self._before  # known without the disk: a wrong number would leave a gap in the log
        if self._db.in_transaction:
            self._db.execute("ROLLBACK")

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        self._db.close()
        self._mark.close()

    def _write_end(self) -> None:
        end = json.dumps([self.end.seq, self.end.rows, self.end.digest.hex(), self._state.total])
        self._db.execute("INSERT OR REPLACE INTO facts VALUES ('end', ?, ?)", (end, row_checksum("end", end)))

    def insert(self, table: str, *values: Any) -> None:
        digest = row_checksum(*values)
        self._db.execute(f"INSERT INTO {table} VALUES ({'?, ' * len(values)}?)", (*values, digest))
        self._count(digest)

    def _delete(self, table: str, where: str, *values: Any) -> int:
        """Delete rows; returns how many."""
        for (digest,) in self._db.execute(f"SELECT digest FROM {table} WHERE {where}", values).fetchall():
            self._count(digest)
        return self._db.execute(f"DELETE FROM {table} WHERE {where}", values).rowcount

    def _count(self, digest: bytes) -> None:
        """Add a checksum to the sum, or take it away."""
        self._state = replace(self._state, total=self._state.total ^ int.from_bytes(digest, "big"))

    # ------------------------------------------------------------ facts

    def fact(self, name: str) -> Any:
        text = self._state.facts.get(name)
        return None if text is None else json.loads(text)

    def set_fact(self, name: str, value: Any) -> None:
        text = json.dumps(value)
        self._delete("facts", "name = ?", name)
        self.insert("facts", name, text)
        self._state = replace(self._state, facts={**self._state.facts, name: text})

    # ------------------------------------------------------------ entries

    def append(self, rows: list[list[Any]], labels: list[Any], at: float) -> Entry:
        body = to_json([rows, labels], inf_nan_mode="constants")
        place = self.append_body(body, len(labels), at)
        return Entry(place.seq, place.rows, rows, labels, place.digest)

    def append_body(self, body: bytes, rows: int, at: float) -> Place:
        """Add rows that are in the form of the log already."""
        seq, last_row = self.end.seq + 1, self.end.rows + rows
        digest = link(self.end.digest, seq, last_row, at, body)
        self._db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", (seq, last_row, at, digest, body.decode()))
        end = Place(seq, last_row, digest)
        self._state = _State(end, self._state.facts, self._state.total)
        return end

    def entries(self, after: Place | None = None) -> Iterator[Entry]:
        """Entries after a place, by default all, in order; raises `LogError` where one is missing or damaged."""
        for place, _, body, before in self.bodies(self.start if after is None else after):
            try:
                rows, labels = parse_body(body, before, place.rows)
            except ValueError as error:
                raise self._damaged(f"entry {place.seq}: {error}", place.digest) from error
            yield Entry(place.seq, place.rows, rows, labels, place.digest)

    def bodies(self, after: Place) -> Iterator[tuple[Place, float, bytes, int]]:
        """Return the place after each entry, its time, its rows in the form of the log, and the rows before it."""
        place = after
        while True:
            with self.explained(f"entry {place.seq + 1}: "):
                part = self._db.execute(
                    "SELECT seq, last_row, at, digest, CAST(body AS BLOB) FROM entries WHERE seq > ? "
                    "ORDER BY seq LIMIT 16",
                    (place.seq,),
                ).fetchall()
            if not part and place.seq < self.end.seq:
                raise self._damaged(f"entry {place.seq + 1} is missing", place.digest)
            if not part:
                return
            for seq, last_row, at, digest, body in part:
                if seq != place.seq + 1:
                    raise self._damaged(f"entry {place.seq + 1} is missing: the next one is {seq}", digest)
                if link(place.digest, seq, last_row, at, body) != digest:
                    raise self._damaged(f"the checksum of entry {seq} is wrong", digest)
                before, place = place.rows, Place(seq, last_row, digest)
                yield place, at, body, before

    def start_after(self, place: Place) -> None:
        """Let an empty log begin after a place: a snapshot has learned what came before."""
        self._state = replace(self._state, end=place)
        self.set_fact("pruned_through", [place.seq, place.rows, place.digest.hex()])

    def place_of(self, seq: int) -> Place:
        if seq == self.start.seq:
            return self.start
        found = self._db.execute("SELECT seq, last_row, digest FROM entries WHERE seq = ?", (seq,)).fetchone()
        if found is None:
            raise self._damaged(f"entry {seq} is missing")
        return Place(*found)

    def prune(self, through: int) -> bool:
        """Delete some of the entries up to number `through`, and their keys; True when none is left."""
        begin = self.start.seq + 1
        end = min(through, begin + _PRUNED_AT_ONCE - 1)
        if end < begin:
            return True
        place = self.place_of(end)
        self._db.execute("DELETE FROM entries WHERE seq <= ?", (end,))
        self._delete("keys", "seq <= ?", end)
        self.set_fact("pruned_through", [place.seq, place.rows, place.digest.hex()])
        return end == through

    # ------------------------------------------------------------ keys

    def known(self, key: str) -> Known | None:
        found = self._db.execute("SELECT seq, fingerprint, reply FROM keys WHERE key = ?", (key,)).fetchone()
        return None if found is None else Known(found[0], found[1], found[2] and json.loads(found[2]))

    def remember(self, key: str, seq: int, fingerprint: str) -> None:
        self.insert("keys", key, seq, fingerprint, None)

    def set_reply(self, seq: int, reply: Any) -> None:
        """Note what was answered to the request of an entry."""
        found = self._db.execute("SELECT key, fingerprint FROM keys WHERE seq = ?", (seq,)).fetchall()
        self._delete("keys", "seq = ?", seq)
        for key, fingerprint in found:
            self.insert("keys", key, seq, fingerprint, json.dumps(reply))

    def unanswered(self, after: int) -> set[int]:
        """Numbers of entries that came with a key and whose answer is not stored."""
        found = self._db.execute("SELECT seq FROM keys WHERE seq > ? AND reply IS NULL", (after,))
        return {seq for (seq,) in found}

    # ------------------------------------------------------------ rows that wait for their label

    def wait_for_label(self, identifier: str, cells: list[Any], at: float) -> None:
        self.stop_waiting(identifier)
        self.insert("waiting", identifier, at, json.dumps(cells))

    def waiting_row(self, identifier: str) -> list[Any] | None:
        found = self._db.execute("SELECT cells FROM waiting WHERE id = ?", (identifier,)).fetchone()
        return None if found is None else json.loads(found[0])

    def stop_waiting(self, identifier: str) -> None:
        self._delete("waiting", "id = ?", identifier)

    def count_waiting(self) -> int:
        return int(self._db.execute("SELECT COUNT(*) FROM waiting").fetchone()[0])

    def expire(self, before: float) -> int:
        """Forget rows that began to wait before a time; returns how many."""
        return self._delete("waiting", "id IN (SELECT id FROM waiting WHERE at < ? ORDER BY at, id LIMIT 1000)", before)

    def forget_oldest(self, count: int) -> int:
        """Forget the rows that have waited for longest; returns how many."""
        return self._delete("waiting", "id IN (SELECT id FROM waiting ORDER BY at, id LIMIT ?)", count)
