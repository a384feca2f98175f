"""``predict``, ``inspect`` and ``convert``."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from typing import Annotated, Any, TextIO

import typer

from bomkl.cli.learn import Inputs, report_skipped, schema_of, valid_notes
from bomkl.cli.options import EXIT_USAGE, RowOptions, check_output, fail
from bomkl.cli.settings import row_settings, stream_arguments

ModelPath = Annotated[str, typer.Argument(help="Model file.", metavar="MODEL")]
_BLOCK_ROWS = 4096


def predict(
    model: ModelPath,
    inputs: Inputs,
    rows: RowOptions,
    kind: Annotated[str, typer.Option("--kind", "-k", help="labels, margins or probabilities.")] = "labels",
    output: Annotated[str, typer.Option("--output", "-o", help="File to write.", show_default="standard output")] = "-",
) -> None:
    """Predict rows with a model, one line for each.

    Rows are read as they were for training; labels may be there or not. With more than two classes, margins and
    probabilities have one column for each, in the order that inspect shows.
    """
    from bomkl import modelfile
    from bomkl.streams import Schema, open_stream

    methods = {"labels": "predict", "margins": "decision_function", "probabilities": "predict_proba"}
    if kind not in methods:
        fail(f"--kind must be one of {', '.join(methods)}. Got {kind!r} instead.", EXIT_USAGE)
    chosen = row_settings(rows)
    _check_output(output)
    loaded = modelfile.read(model)
    estimator, notes = loaded.estimator, loaded.notes
    if not hasattr(estimator, methods[kind]):
        fail(f"{model}: a {type(estimator).__name__} has no {kind}.")
    with valid_notes(model):
        trained = dict(notes["settings"]["rows"]) if "settings" in notes else {}
        schema = schema_of(loaded, model) or Schema(estimator.n_features_in_)
    settings = stream_arguments({**trained, **chosen})
    stream = open_stream(inputs, labels=False, schema=schema, block_rows=_BLOCK_ROWS, **_for_new_files(settings, rows))
    with _writing(output) as file:
        for X, _ in stream:
            for row in getattr(estimator, methods[kind])(X).tolist():
                file.write("\t".join(map(str, row)) if isinstance(row, list) else str(row))
                file.write("\n")
    report_skipped(stream)


def inspect(
    model: ModelPath,
    json_output: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Show what is in a model: settings, classes, kernels with their weights, sizes and history."""
    from bomkl import modelfile

    loaded = modelfile.read(model)
    content = _describe(loaded.estimator, loaded.notes)
    if json_output:
        print(json.dumps(content))
    else:
        with valid_notes(model):
            _print_description(content)


def _print_description(content: dict[str, Any]) -> None:
    for name in ("estimator", "parameters", "rows", "mistakes", "features", "classes", "stored rows"):
        if name in content:
            print(f"{name:<12} {_plain(content[name])}")
    if content["kernels"]:
        print(f"\n{'weight':>10} {'SVs':>9}  kernel")
        for kernel in content["kernels"]:
            print(f"{kernel['weight']:>10.4g} {kernel['support_vectors']:>9}  {kernel['kernel']}")
    if notes := content["notes"]:
        state = "complete" if notes["row"] == 0 else f"stopped at row {notes['row']}"
        print(f"\n{'trained on':<12} {' '.join(notes['inputs'])}: {notes['done_passes']} passes, {state}")
        print(f"{'settings':<12} {_plain(notes['settings'])}")
        print(f"\n{'rows':>12} {'error':>9} {'since last':>11} {'SVs':>9}  top kernel")
        for entry in notes["history"]:
            print(
                f"{entry['rows']:>12} {entry['error']:>9.4f} {entry['error_since_last']:>11.4f} "
                f"{entry['support_vectors']:>9}  {entry['top_kernel']}"
            )


def convert(
    inputs: Inputs,
    rows: RowOptions,
    output: Annotated[str, typer.Option("--output", "-o", help="File to write; - for standard output.")] = "-",
    to: Annotated[
        str | None, typer.Option(help="svmlight, csv, tsv or jsonl.", show_default="by the name, else svmlight")
    ] = None,
) -> None:
    """Convert rows from any format to svmlight, CSV, TSV or JSON lines.

    Strings become the numbers that training would see: a column for each value, or hashed.
    """
    from bomkl.cli.writers import WRITERS, format_of_name
    from bomkl.streams import open_stream

    target = to or format_of_name(output)
    if target not in WRITERS:
        fail(f"--to must be one of {', '.join(WRITERS)}. Got {target!r} instead.", EXIT_USAGE)
    _check_output(output)
    stream = open_stream(inputs, block_rows=_BLOCK_ROWS, **stream_arguments(row_settings(rows)))
    schema = stream.scan()
    with _writing(output) as file:
        WRITERS[target](file, stream, schema)
    report_skipped(stream)


def _for_new_files(settings: dict[str, Any], rows: RowOptions) -> dict[str, Any]:
    """Keep those settings of the training rows that hold for other files; these may have another format."""
    if rows.format is None:
        settings.pop("format", None)
    return settings


def _describe(estimator: Any, notes: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    content: dict[str, Any] = {
        "estimator": type(estimator).__name__,
        "parameters": {name: str(value) for name, value in estimator.get_params(deep=False).items()},
        "kernels": [],
        "notes": {
            name: notes[name] for name in ("settings", "inputs", "done_passes", "row", "history") if name in notes
        },
    }
    if not hasattr(estimator, "kernels_"):
        return content
    content["rows"] = int(estimator.n_seen_)
    content["features"] = int(estimator.n_features_in_)
    content["stored rows"] = estimator.support_vectors_.shape[0]
    if hasattr(estimator, "classes_"):
        content["classes"] = np.asarray(estimator.classes_).tolist()
        content["mistakes"] = int(estimator.mistakes_)
    weights = np.atleast_2d(estimator.kernel_weights_).mean(axis=0).tolist()
    support = np.atleast_2d(estimator.n_support_).sum(axis=0).tolist()
    content["kernels"] = [
        {"kernel": str(kernel), "weight": weight, "support_vectors": count}
        for kernel, weight, count in zip(estimator.kernels_, weights, support, strict=True)
    ]
    return content


def _plain(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name}={each}" for name, each in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _check_output(path: str) -> None:
    if path != "-":
        check_output("--output", path)


@contextlib.contextmanager
def _writing(path: str) -> Iterator[TextIO]:
    if path == "-":
        yield sys.stdout
    else:
        with open(path, "w", encoding="utf-8", newline="") as file:
            yield file
