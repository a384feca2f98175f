"""``predict`` and ``score``: a model on rows that it does not learn from."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Literal

import typer

from bomkl.cli.messages import UsageError, fail
from bomkl.cli.options import PipeOptions, RowOptions
from bomkl.cli.output import Output, ProgressTable, check_output, json_text, plain, prediction_text, writing
from bomkl.cli.rows import (
    FromOption,
    Inputs,
    ModelPath,
    OptionalInputs,
    ToOption,
    check_inputs,
    open_for_predicting,
    report_skipped,
)
from bomkl.cli.settings import row_settings

_METHODS = {"labels": "predict", "margins": "decision_function", "probabilities": "predict_proba"}
_MOST_CLASSES_SHOWN = 20  # in a confusion matrix that is printed


def predict(
    model: ModelPath,
    rows: RowOptions,
    pipe: PipeOptions,
    inputs: OptionalInputs = None,
    source: FromOption = None,
    to: ToOption = None,
    positions: Annotated[
        str | None,
        typer.Option(
            help="With --from and --to: file that remembers how far it is, so that no row is predicted twice.",
            metavar="FILE",
        ),
    ] = None,
    kind: Annotated[
        Literal["labels", "margins", "probabilities"],
        typer.Option("--kind", "-k", help="What to write: labels, margins or probabilities."),
    ] = "labels",
    json_lines: Annotated[bool, typer.Option("--json", help="Write a line of JSON for each row.")] = False,
    output: Output = "-",
) -> None:
    """Predict rows with a model, one line for each row.

    Rows are read with the settings of the training, and need no labels. Probabilities, and margins of more than two
    classes, have one column for each class, and the first line names the classes. From a pipe, predictions are written
    as rows arrive.
    """
    from bomkl import modelfile

    inputs = check_inputs(inputs, source)
    if (to is not None and (source is None or output != "-")) or (positions is not None and to is None):
        raise UsageError("--to needs --from and excludes --output; --positions needs --to.")
    chosen = row_settings(rows)
    if output != "-":
        check_output("--output", output, inputs=[model, *inputs])
    loaded = modelfile.read(model)
    estimator = loaded.estimator
    if not hasattr(type(estimator), _METHODS[kind]):
        fail(f"{model}: a {type(estimator).__name__} has no {kind}.")
    if source is not None:
        from bomkl.cli.from_source import predict_from

        predict_from(source, to, positions, loaded, model, chosen, pipe, kind, _METHODS[kind])
        return
    stream = open_for_predicting(loaded, model, inputs, chosen, pipe, labels=False)
    method, names = getattr(estimator, _METHODS[kind]), None
    table = ProgressTable(quiet=output == "-" and sys.stdout.isatty())  # the predictions themselves show the progress
    with writing("--output", output) as file, table.bar(None, "predicting"):
        for block in stream:
            found = method(block.X)
            if names is None:
                names = [str(label) for label in estimator.classes_] if found.ndim == 2 else []
                if names and not json_lines:
                    file.write("\t".join(names) + "\n")
            file.writelines(_line(row, kind, names, json_lines) for row in found.tolist())
            file.flush()
            table.advance(block.n_rows)
    report_skipped(stream)


def _line(row: Any, kind: str, names: list[str], as_json: bool) -> str:
    if as_json:
        return prediction_text(dict(zip(names, row, strict=True)) if isinstance(row, list) else row, kind) + "\n"
    return ("\t".join(map(str, row)) if isinstance(row, list) else str(row)) + "\n"


def score(
    model: ModelPath,
    inputs: Inputs,
    rows: RowOptions,
    pipe: PipeOptions,
    json_output: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
    output: Output = "-",
) -> None:
    """Score a model on labelled rows, without learning from them.

    For a classifier: accuracy, log loss, AUC and the confusion matrix. For a regressor: mean absolute error (MAE), root
    mean squared error (RMSE), R2, and the coverage of its intervals if it has any. --weight names the column with the
    weight of each row.
    """
    from bomkl import modelfile
    from bomkl.scores import score_model

    chosen = row_settings(rows)
    if output != "-":
        check_output("--output", output, inputs=[model, *inputs])
    loaded = modelfile.read(model)
    stream = open_for_predicting(loaded, model, inputs, chosen, pipe, labels=True)
    found = score_model(loaded.estimator, stream)
    with writing("--output", output) as file:
        if json_output:
            file.write(json_text({"model": model, "inputs": inputs} | found) + "\n")
        else:
            file.write(_as_text(plain(found)))
    report_skipped(stream)


def _as_text(found: dict[str, Any]) -> str:
    labels, counts = found.pop("labels", None), found.pop("confusion", None)
    lines = [f"{name}\t{_number(value)}" for name, value in found.items()]
    if labels is not None and counts is not None and len(labels) <= _MOST_CLASSES_SHOWN:
        width = max(len(str(each)) for row in [labels, *counts] for each in row)
        lines += [
            "",
            "label".ljust(max(width, 5)) + "  predicted " + " ".join(str(each).rjust(width) for each in labels),
        ]
        for label, row in zip(labels, counts, strict=True):
            cells = " ".join(str(each).rjust(width) for each in row)
            lines.append(str(label).ljust(max(width, 5)) + " " * 12 + cells)
    return "\n".join(lines) + "\n"


def _number(value: Any) -> str:
    return "not defined" if value is None else f"{value:.6f}" if isinstance(value, float) else str(value)
