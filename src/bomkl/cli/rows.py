"""The rows of a command: how they are opened for an estimator, and what is known of them from a model file."""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bomkl.cli.messages import UsageError, printable, say
from bomkl.cli.options import PipeOptions
from bomkl.cli.settings import RunSettings, stream_arguments, takes_new_classes, takes_tables

if TYPE_CHECKING:
    from bomkl.modelfile import Model
    from bomkl.streams import Schema, Stream
    from bomkl.streams.sources import Lines

_INPUTS = typer.Argument(help="Files, folders, globs, or - for standard input.", metavar="INPUT", show_default=False)
Inputs = Annotated[list[str], _INPUTS]
OptionalInputs = Annotated[list[str] | None, _INPUTS]
FromOption = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="Broker to read rows from, such as kafka://HOST:PORT/TOPIC or nats://HOST:PORT/STREAM.",
        metavar="URL",
    ),
]
ToOption = Annotated[
    str | None, typer.Option("--to", help="With --from: topic or stream to publish predictions to.", metavar="URL")
]
ModelPath = Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")]
# Strings that people take for numbers or dates, and how to write them so that they are
_ODD_STRINGS = {
    r"[-+]?[$€£]?\s?\d{1,3}([.,' ]?\d{3})*([.,]\d+)?\s?[%$€£]?": "numbers, write them as 1234.5",
    r"(\d{1,2}[./-]\d{1,2}[./-]\d{4}|\d{4}/\d{1,2}/\d{1,2})([ T]\d.*)?": "dates, write them as 2024-02-29T12:00",
}


def check_inputs(inputs: list[str] | None, source: str | None, **others: Any) -> list[str]:
    """Give the files to read rows from; they and options for files exclude a source."""
    given = ["INPUT"] * bool(inputs) + [f"--{name.replace('_', '-')}" for name, value in others.items() if value]
    if source is not None and given:
        raise UsageError(f"--from excludes {', '.join(given)}. Leave out one or the other.")
    if source is None and not inputs:
        raise UsageError("INPUT is missing: files to read rows from, - for standard input, or --from URL.")
    return inputs or []


def open_for_learning(
    inputs: list[str] | Lines, settings: RunSettings, pipe: PipeOptions, estimator: Any, schema: Schema | None
) -> Stream:
    """Open rows to learn from; what is not known of them, a first pass over files tells, or the start of a pipe."""
    from sklearn.base import is_classifier

    from bomkl.streams import StreamError, open_stream

    classify, grows = is_classifier(estimator), takes_new_classes(estimator)
    arguments = stream_arguments(settings.rows, takes_tables(estimator))
    if not hasattr(estimator, "new_columns") and arguments.get("new_columns", "learn") == "learn":
        arguments["new_columns"] = "ignore"  # a Budget model has no room for them
    stream = open_stream(
        inputs, target="class" if classify else "number", schema=schema, **dataclasses.asdict(pipe), **arguments
    )
    if schema is not None:
        return stream

    def adjust(found: Schema) -> Schema:
        if not classify:
            # Labels that look like names are then refused one by one, each with its line.
            return dataclasses.replace(found, label_kind="number")
        return dataclasses.replace(found, classes=settings.class_labels(numbers=found.label_kind == "number"))

    found = stream.scan(classes=settings.classes is None and (stream.rewindable or not grows), adjust=adjust)
    if not stream.rewindable and found.columns is None and "features" not in settings.rows:
        # Rare features may come later in a pipe; room up to a power of two costs little and changes no result.
        found = dataclasses.replace(found, n_features=1 << (found.n_features - 1).bit_length())
    if classify and settings.classes is None:
        if len(known := found.classes or ()) < 2 and (stream.rewindable or not grows):
            only = f"{stream.name}: there is only one class ({', '.join(map(str, known))})"
            if not (grows and known):
                raise StreamError(f"{only}; name all of them with --classes.")
            say(printable(f"bomkl: warning: {only}: that is all the model can predict until more come."))
        if grows:
            found = dataclasses.replace(found, classes=None)
    stream.schema = found
    return stream


def open_for_predicting(
    model: Model, path: str, inputs: list[str] | Lines, chosen: dict[str, Any], pipe: PipeOptions, labels: bool
) -> Stream:
    """Open rows as those that the model learned from were opened; settings given now override the earlier ones."""
    from sklearn.base import is_classifier

    from bomkl.streams import open_stream

    estimator = model.estimator
    with valid_notes(path):
        trained = dict(model.notes["settings"]["rows"]) if "settings" in model.notes else {}
        schema = schema_of(model, path)
    if not hasattr(estimator, "n_features_in_"):
        raise ValueError(f"{path}: has not learned from any row yet, so it cannot predict.")
    if "format" not in chosen:
        trained.pop("format", None)  # other files may have another format
    schema = _schema_of_estimator(estimator) if schema is None else with_kinds(schema, estimator)
    if {"label", "weight"} & chosen.keys():
        schema = dataclasses.replace(schema, label=None, weight=None)
    classify = is_classifier(estimator)
    if labels and classify:
        schema = dataclasses.replace(schema, classes=None, label_kind=label_kind_of(estimator))
    settings = {**trained, **chosen}
    if not labels:
        settings.pop("weight", None)
    return open_stream(
        inputs,
        labels=labels,
        target="class" if classify else "number",
        schema=schema,
        **dataclasses.asdict(pipe),
        **stream_arguments(settings, takes_tables(estimator)),
    )


def _schema_of_estimator(estimator: Any) -> Schema:
    """Give the columns of an estimator that was trained in Python."""
    from bomkl.streams import Column, Schema

    if not takes_tables(estimator):
        return Schema(estimator.n_features_in_)
    columns = tuple(Column(str(name), _stream_kind(kind)) for name, kind in estimator.encoder_.kinds_.items())
    return Schema(len(columns), columns)


def with_kinds(schema: Schema, estimator: Any) -> Schema:
    """Tell what columns hold that had not shown it, if the estimator knows."""
    encoder = getattr(estimator, "encoder_", None)
    if schema.columns is None or encoder is None:
        return schema
    columns = tuple(
        dataclasses.replace(each, kind=_stream_kind(encoder.kinds_.get(each.name))) if each.kind == "unknown" else each
        for each in schema.columns
    )
    return dataclasses.replace(schema, columns=columns)


def _stream_kind(kind: str | None) -> Any:
    """Name what an encoder knows of a column as the schema of a stream does."""
    return {"category": "text", None: "unknown"}.get(kind, kind)


def label_kind_of(estimator: Any) -> Any:
    """Tell whether the labels that a classifier knows are numbers or strings."""
    import numpy as np

    return "number" if np.asarray(estimator.classes_).dtype.kind in "biuf" else "string"


def schema_of(model: Model, path: str) -> Schema | None:
    """Give the schema that a model file holds; None if it was not written by ``bomkl train``."""
    from bomkl.streams import Schema

    with valid_notes(path):
        return Schema.from_dict(model.notes["schema"]) if model.notes.get("schema") is not None else None


@contextlib.contextmanager
def valid_notes(path: str) -> Iterator[None]:
    """Turn what notes of a wrong shape lead to into one message."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError, ArithmeticError, RecursionError) as error:
        raise ValueError(f"{path}: what it says about its training cannot be read: {str(error)[:200]!r}") from error


def report_odd_strings(estimator: Any) -> None:
    """Say which columns were learned as strings though they look like numbers or dates in another notation."""
    encoder = getattr(estimator, "encoder_", None)
    if encoder is None:
        return
    for name, text in encoder.first_categories().items():
        for pattern, advice in _ODD_STRINGS.items():
            if (
                name not in (encoder.types or {})
                and re.fullmatch(pattern, text)
                and not re.fullmatch(r"[-+]?\d+(\.\d+)?", text)
            ):
                say(printable(f"bomkl: column {name} holds strings such as {text!r}. To use them as {advice}."))


def report_skipped(stream: Stream) -> None:
    """Say how many bad lines were skipped, and which columns, if any."""
    if stream.skipped:
        first = printable(str(stream.first_skipped))
        say(f"bomkl: {stream.skipped} bad lines were skipped; the first: {first}")
    for name, rows in stream.ignored.items():
        say(printable(f"bomkl: The column {name!r} is ignored: it was not there in the first row. Rows: {rows}."))
