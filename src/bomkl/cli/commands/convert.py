"""``convert``: rows of any format as text, with one writer per format."""

from __future__ import annotations

import csv
import dataclasses
import json
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, TextIO

import typer

from bomkl.cli.options import PipeOptions, RowOptions
from bomkl.cli.output import check_output, writing
from bomkl.cli.rows import Inputs, report_skipped
from bomkl.cli.settings import row_settings, stream_arguments

if TYPE_CHECKING:
    from bomkl.streams import Schema, Stream

_NAMES = {".csv": "csv", ".tsv": "tsv", ".jsonl": "jsonl", ".ndjson": "jsonl"}


def convert(
    inputs: Inputs,
    rows: RowOptions,
    pipe: PipeOptions,
    output: Annotated[
        str, typer.Option("--output", "-o", help="File to write; - for standard output.", metavar="FILE")
    ] = "-",
    to: Annotated[
        Literal["svmlight", "csv", "tsv", "jsonl"] | None,
        typer.Option(
            help="Format to write: svmlight, csv, tsv or jsonl.", show_default="by the file name, else svmlight"
        ),
    ] = None,
) -> None:
    """Convert rows to svmlight, CSV, TSV or JSON lines.

    Text columns become one column of zeros and ones for each value, or are hashed (--categorical hash).
    """
    from bomkl.streams import open_stream

    target = to or format_of_name(output)
    if output != "-":
        check_output("--output", output, inputs=inputs)
    arguments = stream_arguments(row_settings(rows), as_tables=False)
    stream = open_stream(inputs, **dataclasses.asdict(pipe), **arguments)
    schema = stream.scan()
    with writing("--output", output, whole=True) as file:
        WRITERS[target](file, stream, schema)
    report_skipped(stream)


def format_of_name(path: str) -> str:
    """Tell the format to write from the name of the file; svmlight if the name says nothing."""
    return _NAMES.get(os.path.splitext(path)[1].lower(), "svmlight")


def write_svmlight(file: TextIO, stream: Stream, schema: Schema) -> None:
    """Write ``label index:value ...`` lines; classes that are strings become 0, 1, 2 ... in sorted order."""
    from scipy import sparse

    codes = {label: code for code, label in enumerate(schema.classes or ())} if schema.label_kind == "string" else {}
    for X, y in stream:
        rows = sparse.csr_array(X)
        rows.sort_indices()
        for row, label in enumerate(_labels(y)):
            begin, end = int(rows.indptr[row]), int(rows.indptr[row + 1])
            pairs = zip(rows.indices[begin:end].tolist(), rows.data[begin:end].tolist(), strict=True)
            text = " ".join(f"{index + 1}:{_shortest(value)}" for index, value in pairs)
            file.write(f"{codes.get(label, label)} {text}\n")


def write_delimited(file: TextIO, stream: Stream, schema: Schema, delimiter: str) -> None:
    """Write a header and a line for each row, the label last."""
    writer = csv.writer(file, delimiter=delimiter, lineterminator="\n")
    writer.writerow([*_names(schema), "label"])
    for values, label in _dense_rows(stream):
        writer.writerow([*map(_shortest, values), label])


def write_jsonl(file: TextIO, stream: Stream, schema: Schema) -> None:
    names = _names(schema)
    for values, label in _dense_rows(stream):
        file.write(json.dumps({**dict(zip(names, values, strict=True)), "label": label}) + "\n")


WRITERS: dict[str, Callable[[TextIO, Stream, Schema], None]] = {
    "svmlight": write_svmlight,
    "csv": lambda file, stream, schema: write_delimited(file, stream, schema, ","),
    "tsv": lambda file, stream, schema: write_delimited(file, stream, schema, "\t"),
    "jsonl": write_jsonl,
}


def _names(schema: Schema) -> list[str]:
    return schema.feature_names() or [f"x{number + 1}" for number in range(schema.n_features)]


def _labels(y: Any) -> list[Any]:
    labels: list[Any] = y.tolist()
    return labels


def _dense_rows(stream: Stream) -> Iterator[tuple[list[float], Any]]:
    from scipy import sparse

    for X, y in stream:
        dense: Any = sparse.csr_array(X).toarray()
        yield from zip(dense.tolist(), _labels(y), strict=True)


def _shortest(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 1e16 else repr(value)
