"""Repair: a damaged log is cut off at its last good entry. Nothing is deleted: the damaged log is kept beside it."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass

from bomkl import modelfile
from bomkl._support.files import BusyError, locked
from bomkl.serve.errors import LogError
from bomkl.serve.folder.snapshots import Snapshot, Snapshots
from bomkl.serve.folder.start import Start, base, newest, stored_columns
from bomkl.serve.storage.entry import Place
from bomkl.serve.storage.log import Log
from bomkl.serve.storage.logfile import log_path


@dataclass(frozen=True)
class Plan:
    """What is kept of a damaged log."""

    problem: str  # what is wrong with the log
    begin: Place  # entries between them are kept; the model before the first of them is that of a snapshot, or is empty
    end: Place

    def __str__(self) -> str:
        rows = self.end.rows - self.begin.rows
        kept = (
            f"Entries {self.begin.seq + 1} to {self.end.seq} with {rows} rows will be kept."
            if rows
            else "No entry is kept."
        )
        before = (
            f" The snapshot after entry {self.begin.seq} has learned what came before them." if self.begin.seq else ""
        )
        return f"{self.problem}\n{kept}{before} The model will have learned from {self.end.rows} rows."


def problem_of(folder: str) -> str | None:
    """Tell what is wrong with the log of a folder, if anything is."""
    try:
        with Log(folder, read_only=True) as log:
            newest(folder, log)
            stored_columns(log)
            for _ in log.entries(base(folder, log).place):
                pass
    except LogError as error:
        return str(error)
    return None


@contextlib.contextmanager
def repairing(folder: str) -> Iterator[Plan | None]:
    """Find out what can be kept of the log of a folder, None if it is whole; nobody may serve it meanwhile."""
    try:
        with locked(log_path(folder)):
            problem = problem_of(folder)
            yield None if problem is None else _plan(folder, problem)
    except BusyError:
        raise LogError(f"{folder}: a process serves this folder. Stop it before a repair.") from None


def _plan(folder: str, problem: str) -> Plan:
    with Log(folder, read_only=True, checked=False) as log:
        try:
            start = Start.of(log)
            stored_columns(log)
        except LogError as error:
            raise LogError(f"{error} This cannot be repaired: put back a copy of the log.") from None
        begins = [log.start] if log.start.seq == 0 and start.model == "auto" else []
        for snapshot in Snapshots(folder).list():
            with contextlib.suppress(modelfile.ModelFileError, LogError, OSError):
                begins.append(Snapshots(folder).read(snapshot, log, compared=False).place)
        if not begins:
            raise LogError(f"{problem} This cannot be repaired: there is no good snapshot. Put back a copy of the log.")
        ends = [_good_end(log, begin) for begin in begins]
    best = max(range(len(ends)), key=lambda at: (ends[at].seq, -begins[at].seq))
    return Plan(problem, begins[best], ends[best])


def _good_end(log: Log, begin: Place) -> Place:
    end = begin
    with contextlib.suppress(LogError):
        for place, *_ in log.bodies(begin):
            end = place
    return end


def repair(folder: str, plan: Plan) -> str:
    """Write the log again without what is damaged; returns the name that the damaged one has now."""
    path = log_path(folder)
    with tempfile.TemporaryDirectory(prefix=".repair-", dir=folder) as scratch:
        with Log(folder, read_only=True, checked=False) as old, Log(scratch) as new:
            new.begin()
            _copy(old, new, plan)
            new.commit()
            strange = [each for each in Snapshots(folder).list() if each.seq >= plan.begin.seq and not _fits(each, new)]
        kept = next(name for n in range(1, 10**6) if not os.path.exists(name := f"{path}.damaged-{n}"))
        for ending in ("", "-wal"):  # under these names SQLite can open it
            with contextlib.suppress(FileNotFoundError):
                os.rename(path + ending, kept + ending)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}-shm")
        for snapshot in strange:
            os.rename(snapshot.path, f"{snapshot.path}.damaged")
        for ending in ("", ".end"):
            os.replace(log_path(scratch) + ending, path + ending)
    return kept


def _fits(snapshot: Snapshot, log: Log) -> bool:
    """Tell whether a snapshot is good and has learned what is in a log."""
    try:
        Snapshots(os.path.dirname(os.path.dirname(snapshot.path))).read(snapshot, log)
    except (modelfile.ModelFileError, LogError, OSError):
        return False
    return True


def _copy(old: Log, new: Log, plan: Plan) -> None:
    for name in ("start", "columns", "expired", "sources"):
        if (value := old.fact(name)) is not None:
            new.set_fact(name, value)
    if plan.begin.seq:
        new.start_after(plan.begin)
    before = plan.begin
    with contextlib.suppress(LogError):
        for place, at, body, rows in old.bodies(before):
            new.append_body(body, place.rows - rows, at)
    for table in ("keys", "waiting"):
        with contextlib.suppress(sqlite3.DatabaseError):
            for values, _, good in old.rows_of(table):
                if good and (table == "waiting" or values[1] <= plan.end.seq):
                    new.insert(table, *values)
