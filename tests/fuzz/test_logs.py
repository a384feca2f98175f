"""Logs with a flipped bit, or edited: the same model as before, or refused with the place; never another model."""

import contextlib
import re
import shutil
import sqlite3

import pytest

pytest.importorskip("fastapi", reason="the extra bomkl[serve] is not installed")

from tests.logs import model_of, write_log

from bomkl.serve.errors import LogError
from bomkl.serve.storage.log import Log
from bomkl.serve.storage.logfile import log_path

SIZES = (20, 12, 8, 1, 15)
PLACE = re.compile(
    r"entry \d+|byte \d+|in its table|its fact|its tables|a fact, a key|other tables|the place is unknown"
)
TABLES = {"entries": "seq", "facts": "name", "keys": "key", "waiting": "id"}


@pytest.fixture(scope="module")
def logs(tmp_path_factory):
    """Folders of every kind, each with its model: after SIGTERM and after SIGKILL, with and without snapshots."""
    folder = tmp_path_factory.mktemp("logs")
    found = []
    for snapshots in ((), (2,), (2, 4), (5,)):
        kind = folder / "-".join(map(str, snapshots))
        log = write_log(kind / "closed", SIZES, snapshots, close=False)
        shutil.copytree(kind / "closed", kind / "killed")
        log.close()
        for each in (kind / "closed", kind / "killed"):
            shutil.copytree(each, kind / "tried")  # to look at a log after SIGKILL changes its files
            found.append((each, model_of(kind / "tried"), entries_of(kind / "tried")))
            shutil.rmtree(kind / "tried")
    return found


def entries_of(folder):
    with Log(str(folder), read_only=True) as log:
        return str([(entry.seq, entry.rows, entry.labels) for entry in log.entries()])


def check(record_property, counts, folder, model, entries):
    """Open a damaged log as a service and as a replay does."""
    for what, read, expected in (("replay", entries_of, entries), ("serve", model_of, model)):
        try:
            assert read(folder) == expected, f"{what}: another model"
            counts[f"{what}: same"] = counts.get(f"{what}: same", 0) + 1
        except LogError as error:
            assert "log.sqlite" in str(error)
            assert PLACE.search(str(error)), error
            counts[f"{what}: refused"] = counts.get(f"{what}: refused", 0) + 1
    for name, count in counts.items():
        record_property(name, count)


def test_flipped_bits_of_logs(cases, choose, logs, tmp_path, record_property):
    counts = {}
    for rng in cases(25):
        folder, model, entries = choose(rng, logs)
        shutil.copytree(folder, tmp_path / "data")
        ending = choose(rng, [".end"] if rng.integers(20) == 0 else ["", "-wal"])
        path = tmp_path / "data" / f"log.sqlite{ending}"
        path = path if path.exists() else tmp_path / "data" / "log.sqlite"
        content = bytearray(path.read_bytes())
        if content:
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(content)
        check(record_property, counts, tmp_path / "data", model, entries)
        shutil.rmtree(tmp_path / "data")


def edit(rng, choose, database):
    """Change a log as somebody with SQL could."""
    table = choose(rng, ["entries", "entries", *TABLES])
    key = TABLES[table]
    names = [name for (name,) in database.execute(f"SELECT {key} FROM {table}")]
    if not names:
        return
    one, other = choose(rng, names), choose(rng, names)
    columns = [name for _, name, *_ in database.execute(f"PRAGMA table_info({table})")]
    rest = ", ".join(columns[1:])
    kind = choose(rng, ["delete", "copy over", "swap", "copy", "change", "change", "cut off", "drop the first"])
    if kind == "delete":
        database.execute(f"DELETE FROM {table} WHERE {key} = ?", (one,))
    elif kind == "copy over" and one != other:
        database.execute(f"REPLACE INTO {table} SELECT ?, {rest} FROM {table} WHERE {key} = ?", (one, other))
    elif kind == "swap" and one != other:
        found = {name: values for name, *values in database.execute(f"SELECT {key}, {rest} FROM {table}")}
        for name, values in ((one, found[other]), (other, found[one])):
            marks = ", ".join("?" * len(columns))
            database.execute(f"REPLACE INTO {table} VALUES ({marks})", (name, *values))
    elif kind == "copy":
        new = len(names) + int(rng.integers(1, 3)) if table == "entries" else f"{one}x"
        database.execute(f"REPLACE INTO {table} SELECT ?, {rest} FROM {table} WHERE {key} = ?", (new, one))
    elif kind == "cut off":
        database.execute(f"DELETE FROM {table} WHERE {key} >= ?", (one,))
    elif kind == "drop the first":
        database.execute(f"DELETE FROM {table} WHERE {key} <= ?", (one,))
    else:
        change(rng, choose, database, table, key, one, choose(rng, columns))


def change(rng, choose, database, table, key, name, column):
    (value,) = database.execute(f"SELECT {column} FROM {table} WHERE {key} = ?", (name,)).fetchone()
    odd = [None, "", "[]", "{}", -1, 0.5, b"\xff", '[[[1.0, "Oslo"]], ["fine"]]']
    if isinstance(value, str) and value and rng.integers(2):
        at = int(rng.integers(len(value)))
        value = value[:at] + choose(rng, ["0", "1", " ", '"', ",", "fine"]) + value[at + 1 :]
    elif isinstance(value, bytes) and value and rng.integers(2):
        value = value[1:] + value[:1]
    elif isinstance(value, int | float) and rng.integers(2):
        value += choose(rng, [1, -1, 0.5])
    else:
        value = choose(rng, odd)
    with contextlib.suppress(sqlite3.IntegrityError):
        database.execute(f"UPDATE {table} SET {column} = ? WHERE {key} = ?", (value, name))


def test_edited_logs(cases, choose, logs, tmp_path, record_property):
    counts = {}
    for rng in cases(25):
        folder, model, entries = choose(rng, logs)
        shutil.copytree(folder, tmp_path / "data")
        with contextlib.closing(sqlite3.connect(log_path(tmp_path / "data"))) as database, database:
            for _ in range(int(rng.integers(1, 3))):
                edit(rng, choose, database)
        check(record_property, counts, tmp_path / "data", model, entries)
        shutil.rmtree(tmp_path / "data")
