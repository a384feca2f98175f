"""The SQLite file of the log: its tables, how it is opened, and errors that name the file and the place."""

from __future__ import annotations

import contextlib
import os
import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

from bomkl.serve.errors import LogError
from bomkl.serve.storage.entry import byte_place

FORMAT = 2
# A log has exactly these statements as its schema: whoever changes one of them raises FORMAT.
TABLES = """
CREATE TABLE facts (name TEXT PRIMARY KEY, value TEXT NOT NULL, digest BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE entries (
    seq INTEGER PRIMARY KEY,        -- 1, 2, 3 ... without gaps
    last_row INTEGER NOT NULL,      -- rows in the log up to and including this entry
    at REAL NOT NULL,               -- seconds since 1970
    digest BLOB NOT NULL,           -- checksum of this entry and of the digest before
    body TEXT NOT NULL              -- JSON: [[cells of row 1, ...], [label of row 1, ...]]
);
CREATE TABLE keys (
    key TEXT PRIMARY KEY,
    seq INTEGER NOT NULL,
    fingerprint TEXT NOT NULL,      -- of the request that came with the key first
    reply TEXT,                     -- NULL until the entry has been learned
    digest BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX keys_by_seq ON keys (seq);
CREATE TABLE waiting (
    id TEXT PRIMARY KEY,
    at REAL NOT NULL,
    cells TEXT NOT NULL,            -- JSON: [cell, ...]
    digest BLOB NOT NULL
) WITHOUT ROWID;
CREATE INDEX waiting_by_time ON waiting (at);
"""
STATEMENTS = TABLES.split(";\n")[:-1]
_SCHEMA = "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL"


def log_path(folder: str | os.PathLike[str]) -> str:
    return os.path.join(folder, "log.sqlite")


def connect(path: str, read_only: bool) -> sqlite3.Connection:
    option = ""
    if read_only and os.path.exists(f"{path}-wal"):
        option = "?mode=ro"  # whoever closes a log for writing deletes what is damaged in the write-ahead log
    elif read_only and not os.access(os.path.dirname(path), os.W_OK):
        option = "?immutable=1"  # where there is no write-ahead log, and none can be made, nobody is writing
    name = f"{Path(path).resolve().as_uri()}{option}"
    db = sqlite3.connect(name, timeout=10, isolation_level=None, check_same_thread=False, uri=True)
    db.text_factory = text_of
    if read_only:
        db.execute("PRAGMA query_only=ON")
    return db


def text_of(text: bytes) -> str:
    """Read a text that may be damaged: its checksum will tell."""
    return text.decode("utf-8", "surrogateescape")


def identities(path: str) -> list[tuple[int, int] | None]:
    """Tell the log and its write-ahead log from other files of the same names."""
    found: list[tuple[int, int] | None] = []
    for name in (path, f"{path}-wal"):
        try:
            status = os.stat(name)
            found.append((status.st_dev, status.st_ino))
        except OSError:
            found.append(None)
    return found


def is_new(db: sqlite3.Connection, path: str) -> bool:
    """Tell whether a file has no tables yet; raises `LogError` if it is not a log."""
    schema = set(db.execute(_SCHEMA))
    if schema and "facts" not in {name for name, _ in schema}:  # nothing may be written to a file of someone else
        raise LogError(f"{path}: not a log of bomkl serve: it has other tables.")
    return not schema


def check_schema(db: sqlite3.Connection, path: str) -> None:
    """Compare the tables with those that were made."""
    with contextlib.closing(sqlite3.connect(":memory:")) as fresh:
        fresh.executescript(TABLES)
        if set(db.execute(_SCHEMA)) != set(fresh.execute(_SCHEMA)):
            raise damaged(path, "its tables are not those of a log", b"CREATE TABLE facts")


def damaged(path: str, problem: str, needle: object = None) -> LogError:
    """Make the error of a damaged log; the place is that of some bytes in the file."""
    place = byte_place(path, needle)
    return LogError(f"{path}: is damaged: {problem}{place}. 'bomkl replay DIR --repair' keeps what is good.")


@contextlib.contextmanager
def explained(path: str, db: Callable[[], sqlite3.Connection], doing: str = "") -> Iterator[None]:
    """Name the log and the place in errors of SQLite."""
    try:
        yield
    except sqlite3.OperationalError as error:  # such as a full disk, or a file that must not be written
        raise LogError(f"{path}: cannot be used as the log ({doing}{error}).") from error
    except UnicodeDecodeError as error:  # Python cannot even read the message of SQLite, which quotes the schema
        raise LogError(f"{path}: is damaged: its tables cannot be read ({doing}page 1, byte 0).") from error
    except sqlite3.DatabaseError as error:
        place = _bad_page(db())
        raise LogError(f"{path}: not a log of bomkl serve, or damaged ({doing}{error}; {place}).") from error


def _bad_page(db: sqlite3.Connection) -> str:
    """Tell where SQLite finds its file damaged."""
    try:
        size = db.execute("PRAGMA page_size").fetchone()[0]
        found = re.search(r"[Pp]age (\d+)", str(db.execute("PRAGMA quick_check(1)").fetchone()[0]))
    except sqlite3.Error:
        return "byte 0"
    return "the place is unknown" if found is None else f"page {found[1]}, byte {(int(found[1]) - 1) * size}"
