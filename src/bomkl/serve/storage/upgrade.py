"""Logs of version 0.2.0, which had no checksums."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Any

from bomkl.serve.errors import LogError
from bomkl.serve.storage.entry import Place, byte_place, link, parse_body, row_checksum

_TABLES = ("facts", "entries", "keys", "waiting")


def is_old(db: sqlite3.Connection) -> bool:
    """Tell whether a log is one of version 0.2.0."""
    return "digest" not in [name for _, name, *_ in db.execute("PRAGMA table_info(facts)")]


def upgrade(db: sqlite3.Connection, path: str, statements: Iterable[str], checked: bool = True) -> None:
    """Give a log the checksums that version 0.2.0 did not write, within a transaction of the caller.

    What can be compared is compared: counts and places of rows, rows with the columns, and labels with the classes. If
    it is not to be `checked`, the log ends before an entry that is damaged.
    """
    for index in ("keys_by_seq", "waiting_by_time"):
        db.execute(f"DROP INDEX IF EXISTS {index}")
    for table in _TABLES:
        db.execute(f"ALTER TABLE {table} RENAME TO old_{table}")
    for statement in statements:
        db.execute(statement)
    facts = dict(db.execute("SELECT name, value FROM old_facts"))
    end = _copy_entries(db, path, facts, checked)
    facts["format"] = "2"
    total = 0
    tables: dict[str, Iterable[tuple[Any, ...]]] = {
        "facts": facts.items(),
        "keys": db.execute("SELECT key, seq, fingerprint, reply FROM old_keys"),
        "waiting": db.execute("SELECT id, at, cells FROM old_waiting"),
    }
    for table, found in tables.items():
        for row in found:
            check = row_checksum(*row)
            db.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * (len(row) + 1))})", (*row, check))
            total ^= int.from_bytes(check, "big")
    text = json.dumps([end.seq, end.rows, end.digest.hex(), total])
    db.execute("INSERT INTO facts VALUES ('end', ?, ?)", (text, row_checksum("end", text)))
    for table in _TABLES:
        db.execute(f"DROP TABLE old_{table}")


def _copy_entries(db: sqlite3.Connection, path: str, facts: dict[str, str], checked: bool) -> Place:
    place = Place()
    if "pruned_through" in facts:
        place = Place(*json.loads(facts["pruned_through"]))
        facts["pruned_through"] = json.dumps([place.seq, place.rows, place.digest.hex()])
    columns = json.loads(facts.get("columns", "null"))
    classes = None if columns is None or columns["labels"] == "number" else set(columns["classes"])
    for seq, last_row, at, body in db.execute(
        "SELECT seq, last_row, at, CAST(body AS BLOB) FROM old_entries ORDER BY seq"
    ):
        try:
            if seq != place.seq + 1:
                raise ValueError(f"entry {place.seq + 1} is missing before it")
            rows, labels = parse_body(body, place.rows, last_row)
            if columns is None:
                raise ValueError("its columns are missing")
            if len(rows[0]) != len(columns["kinds"]):
                raise ValueError(f"its rows have {len(rows[0])} cells for {len(columns['kinds'])} columns")
            if classes is not None and (strange := set(labels) - classes):
                raise ValueError(f"no class is {strange.pop()!r}")
        except (TypeError, ValueError) as error:
            if not checked:
                break
            where = byte_place(path, body[:80] if type(body) is bytes else None)
            raise LogError(f"{path}: entry {seq}{where} is damaged: {error}.") from error
        place = Place(seq, last_row, link(place.digest, seq, last_row, at, body))
        db.execute("INSERT INTO entries VALUES (?, ?, ?, ?, ?)", (seq, last_row, at, place.digest, body.decode()))
    return place
