"""Snapshots: model files that say up to which entry of the log they have learned."""

from __future__ import annotations

import contextlib
import glob
import os
import re
import sys
from dataclasses import dataclass

from bomkl import modelfile
from bomkl.serve.errors import LogError
from bomkl.serve.model.learner import Learner
from bomkl.serve.model.monitor import Monitor
from bomkl.serve.storage.log import Log

_NAME = re.compile(r"(\d{20})-(\d{20})\.bomkl")  # entries, rows
_NEWEST_KEPT = 3


@dataclass(frozen=True, order=True)
class Snapshot:
    """A snapshot by its position in the log: entries and rows learned."""

    seq: int
    rows: int
    path: str


class Snapshots:
    """The snapshots of a data folder."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.join(folder, "snapshots")

    def clean(self) -> None:
        """Delete what a killed process left half-written; only the one process that may write here calls this."""
        for path in glob.glob(os.path.join(glob.escape(self.folder), ".bomkl-*.tmp")):
            os.unlink(path)

    def list(self) -> list[Snapshot]:
        """All snapshots, the oldest first."""
        if not os.path.isdir(self.folder):
            return []
        names = [(match, name) for name in os.listdir(self.folder) if (match := _NAME.fullmatch(name))]
        return sorted(Snapshot(int(m[1]), int(m[2]), os.path.join(self.folder, name)) for m, name in names)

    def write(self, learner: Learner) -> Snapshot:
        """Write a snapshot; it is there whole or not at all."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(self.folder)  # and not the data folder: without it, there is no log
        seq, rows = learner.seq, learner.rows
        path = os.path.join(self.folder, f"{seq:020}-{rows:020}.bomkl")
        notes = {"seq": seq, "digest": learner.digest.hex(), "monitor": learner.monitor.state()}
        modelfile.save(learner.estimator, path, notes)
        return Snapshot(seq, rows, path)

    def read(self, snapshot: Snapshot, log: Log, compared: bool = True) -> Learner:
        """Read a snapshot of a log.

        Raises `modelfile.ModelFileError` if it is damaged and, if it is `compared`, `LogError` if the log has other
        entries than it learned.
        """
        model = modelfile.read(snapshot.path)
        if model.notes.get("seq", snapshot.seq) != snapshot.seq:
            raise modelfile.ModelFileError(f"{snapshot.path}: holds entry {model.notes['seq']}: it was renamed.")
        try:
            known = "digest" in model.notes  # version 0.2.0 did not write it
            digest = bytes.fromhex(model.notes["digest"]) if known else log.place_of(snapshot.seq).digest
            learner = Learner(model.estimator, Monitor.restore(model.notes["monitor"]), snapshot.seq, digest)
        except (LookupError, TypeError, AttributeError) as error:
            raise modelfile.ModelFileError(f"{snapshot.path}: is not a snapshot of bomkl serve ({error!r}).") from error
        if compared and learner.place != log.place_of(snapshot.seq):
            raise LogError(
                f"{snapshot.path}: has learned another entry {snapshot.seq}, or another number of rows, than "
                f"{log.path} has. One of them is damaged or belongs to another folder: 'bomkl replay DIR' tells which."
            )
        return learner

    def newest_good(self, log: Log) -> Learner | None:
        """Read the newest snapshot that is not damaged and from which the log goes on; None if there is none."""
        for snapshot in reversed(self.list()):
            try:
                if not log.start.seq <= snapshot.seq <= log.end.seq:
                    raise modelfile.ModelFileError(
                        f"{snapshot.path}: the log has entries {log.start.seq + 1} to {log.end.seq} only."
                    )
                return self.read(snapshot, log)
            except (modelfile.ModelFileError, OSError) as error:
                print(f"bomkl: {error} Going back to the snapshot before.", file=sys.stderr)
        return None

    def prune(self, keep_rows: int | None) -> int:
        """Delete snapshots that are not needed any more, and return the last entry that the log need not keep.

        `keep_rows`: rows that the log must keep; None keeps all.
        """
        snapshots = self.list()
        if not snapshots:
            return 0
        base = snapshots[0]
        if keep_rows is not None:
            base = max([each for each in snapshots if each.rows <= snapshots[-1].rows - keep_rows], default=base)
        for snapshot in snapshots[:-_NEWEST_KEPT]:
            if snapshot != base:
                with contextlib.suppress(OSError):
                    os.unlink(snapshot.path)
        return 0 if keep_rows is None else min(base.seq, snapshots[-_NEWEST_KEPT:][0].seq)
