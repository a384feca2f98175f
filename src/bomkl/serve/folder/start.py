"""What a data folder starts from, and how a model is brought up to its log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, TypeVar

from pydantic import Field, TypeAdapter, ValidationError
from sklearn.base import is_classifier

from bomkl import AutoMKLClassifier, AutoMKLRegressor, modelfile
from bomkl.serve.errors import LogError
from bomkl.serve.folder.snapshots import Snapshots
from bomkl.serve.model.columns import Columns
from bomkl.serve.model.learner import BULK_BATCH, Learner
from bomkl.serve.storage.entry import Entry
from bomkl.serve.storage.log import Log

FRESH = "auto"
_Fact = TypeVar("_Fact", "Start", Columns)


@dataclass(frozen=True)
class Start:
    """The model before its first row; the same for the life of a data folder."""

    model: str = FRESH  # "auto" for a fresh AutoMKL model, or the SHA-256 of a model file
    # "auto", "classify", "regress": what a fresh model learns; "auto" decides by the first label: a number with a
    # decimal point is regression
    task: Annotated[str, Field(pattern="^(auto|classify|regress)$")] = "auto"
    budget: Annotated[int, Field(ge=1)] = 1000  # budget of a fresh model
    # "auto", None, "adapt": how a fresh model follows drift
    drift: Annotated[str | None, Field(pattern="^(auto|adapt)$")] = "auto"
    random_state: Annotated[int, Field(ge=0, lt=2**32)] = 0  # source of all random draws of a fresh model
    # "learn", "ignore", "refuse": what to do with columns that were not in the first row
    new_columns: Annotated[str, Field(pattern="^(learn|ignore|refuse)$")] = "learn"

    @classmethod
    def of(cls, log: Log) -> Start:
        if log.fact("start") is None:
            raise LogError(f"{log.path}: is damaged: it does not say what model it started from.")
        return _checked(log, "start", cls)

    def estimator(self, labels: str | None) -> Any:
        kind = AutoMKLRegressor if labels == "number" else AutoMKLClassifier
        return kind(budget=self.budget, drift=self.drift, random_state=self.random_state, new_columns=self.new_columns)

    def difference(self, other: Start) -> str:
        """Tell in words what another start has differently."""
        pairs = zip(asdict(self).items(), asdict(other).values(), strict=True)
        return ", ".join(f"{name} was {value!r}, not {now!r}" for (name, value), now in pairs if value != now)


def set_up(folder: str, log: Log, start: Start, model_file: str | None) -> None:
    """Write down what a new folder starts from; refuse to change that of one that has begun."""
    if model_file is not None:
        with open(model_file, "rb") as file:
            start = replace(Start(new_columns=start.new_columns), model=hashlib.file_digest(file, "sha256").hexdigest())
    if log.fact("start") is not None:
        found = Start.of(log)
        if found.drift is None and start.drift == "auto":  # the default of earlier versions
            start = replace(start, drift=None)
        if difference := found.difference(start):
            raise LogError(
                f"{folder}: was started with other options ({difference}). Use the same options, or another folder."
            )
        return
    columns = None
    if model_file is not None:
        estimator = modelfile.load(model_file)
        columns = columns_of(estimator, start.new_columns)
        Snapshots(folder).write(Learner(estimator))
    log.begin()
    log.set_fact("start", asdict(start))
    if columns is not None:
        log.set_fact("columns", columns.to_dict())
    log.commit()


def columns_of(estimator: Any, new_columns: str = "learn") -> Columns | None:
    """Tell which rows a model takes that has learned already; None for one that has not."""
    if not hasattr(estimator, "n_features_in_"):
        return None
    names = getattr(estimator, "feature_names_in_", None)
    names = [f"x{number + 1}" for number in range(estimator.n_features_in_)] if names is None else names.tolist()
    encoder = getattr(estimator, "encoder_", None)
    kinds: dict[str, str | None] = dict.fromkeys(names, "number") if encoder is None else dict(encoder.kinds_)
    tables = encoder is not None
    if new_columns == "learn" and not (encoder is not None and encoder.grows):
        new_columns = "ignore"  # the model has no room for them
    if not is_classifier(estimator):
        return Columns(kinds, "number", tables=tables, new_columns=new_columns)
    classes = estimator.classes_.tolist()
    labels = {"b": "boolean", "i": "integer", "u": "integer", "f": "integer"}.get(
        estimator.classes_.dtype.kind, "string"
    )
    if labels == "integer" and any(label != int(label) for label in classes):
        raise LogError(
            f"The labels of the model must be whole numbers, strings or booleans for a service. Got {classes} instead."
        )
    return Columns(
        kinds, labels, classes, closed=getattr(estimator, "_declared", True), tables=tables, new_columns=new_columns
    )


def takes_tables(estimator: Any) -> bool:
    """Tell whether a model that has not learned yet takes strings, dates and missing values."""
    fresh = not hasattr(estimator, "score_and_learn")
    return bool(getattr(AutoMKLClassifier if fresh else estimator, "takes_tables_", False))


def stored_columns(log: Log) -> Columns | None:
    """Return what is known of the rows of a folder."""
    return None if log.fact("columns") is None else _checked(log, "columns", Columns)


_FACTS: dict[type, TypeAdapter[Any]] = {kind: TypeAdapter(kind) for kind in (Start, Columns)}


def _checked(log: Log, name: str, kind: type[_Fact]) -> _Fact:
    """Read a fact; it must have the fields of a class, and their types."""
    try:
        stored = kind(**(log.fact(name) or {}))
        checked: _Fact = _FACTS[kind].validate_json(json.dumps(asdict(stored)), strict=True)
        return checked
    except ValidationError as error:
        wrong = error.errors()[0]
        problem = f"{'.'.join(map(str, wrong['loc']))}: {wrong['msg']}"
    except TypeError as error:
        problem = str(error)
    raise LogError(f"{log.path}: is damaged: its fact {name!r} is not one that bomkl serve writes ({problem}).")


def base(folder: str, log: Log) -> Learner:
    """Return the model before the first entry that the log still has."""
    snapshots, before = Snapshots(folder), log.start.seq
    for snapshot in snapshots.list():
        if snapshot.seq == before:
            return snapshots.read(snapshot, log)
    start = Start.of(log)
    if before > 0 or start.model != FRESH:
        raise LogError(f"{folder}: the snapshot before entry {before + 1} of the log is missing.")
    return Learner(start.estimator)


def newest(folder: str, log: Log) -> Learner:
    """Return the newest good snapshot, or failing that the model before the first entry."""
    if ahead := [each for each in Snapshots(folder).list() if each.seq > log.end.seq]:
        raise LogError(
            f"{folder}: rows that were acknowledged are missing from the log. It ends with entry {log.end.seq}, but "
            f"{ahead[-1].path} has learned entry {ahead[-1].seq}. Put back the log that belongs to the snapshots; or, "
            f"to go on without these rows, delete the snapshots after entry {log.end.seq}."
        )
    return Snapshots(folder).newest_good(log) or base(folder, log)


def catch_up(learner: Learner, log: Log) -> Iterator[tuple[list[Entry], list[list[Any]]]]:
    """Learn the entries of the log that a model has not learned yet; yields each group and its predictions."""
    columns = stored_columns(log)
    for entries in _groups(log.entries(learner.place)):
        if columns is None:  # they are written with the first row
            raise LogError(f"{log.path}: is damaged: its columns are missing.")
        yield entries, learner.learn(entries, columns)


def _groups(entries: Iterator[Entry]) -> Iterator[list[Entry]]:
    group: list[Entry] = []
    rows = 0
    for entry in entries:
        group.append(entry)
        rows += len(entry.labels)
        if rows >= BULK_BATCH:
            yield group
            group, rows = [], 0
    if group:
        yield group
