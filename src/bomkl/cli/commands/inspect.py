"""``inspect``: what is in a model file."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any

import typer

from bomkl.cli.messages import printable
from bomkl.cli.output import json_text, print_result, short_name
from bomkl.cli.rows import ModelPath, valid_notes

_MOST_SHOWN = 100  # columns in a text


def inspect(
    model: ModelPath,
    json_output: Annotated[bool, typer.Option("--json", help="Write JSON.")] = False,
) -> None:
    """Show a model: settings, columns, classes, weights, history."""
    from bomkl import modelfile

    loaded = modelfile.read(model)
    content = _describe(loaded.estimator, loaded.notes)
    if json_output:
        print_result(json_text(content))
        return
    with valid_notes(model):
        lines = _description(content)
    print_result("\n".join(map(printable, lines)))


def _description(content: dict[str, Any]) -> list[str]:
    lines = [
        f"{name:<12} {_plain(content[name])}"
        for name in ("estimator", "parameters", "rows", "mistakes", "features", "columns", "classes", "stored rows")
        if name in content
    ]
    if content["kernels"]:
        lines += ["", f"{'weight':>10} {'SVs':>9}  kernel"]
        lines += [
            f"{kernel['weight']:>10.4g} {kernel['support_vectors']:>9}  {kernel['kernel']}"
            for kernel in content["kernels"]
        ]
    if notes := content["notes"]:
        state = "complete" if notes["row"] == 0 and notes["done_passes"] else f"stopped at row {notes['row']}"
        passes = f"{notes['done_passes']} pass{'es' if notes['done_passes'] != 1 else ''}"
        lines += ["", f"{'trained on':<12} {' '.join(notes['inputs'])}: {passes}, {state}"]
        lines += [f"{'settings':<12} {_plain(_given(notes['settings']))}", ""]
        metric = short_name(str(notes["history"][0].get("metric", "error"))) if notes["history"] else "error"
        lines.append(f"{'rows':>12} {metric:>11} {'since last':>11} {'all SVs':>9}  top kernel")
        lines += [
            f"{entry['rows']:>12} {entry['error']:>11.4f} {entry['error_since_last']:>11.4f} "
            f"{entry['support_vectors']:>9}  {entry['top_kernel']}"
            for entry in notes["history"]
        ]
    return lines


def _given(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that were given, those of the rows and of the algorithm among them."""
    inner = {name: value for each in settings.values() if isinstance(each, dict) for name, value in each.items()}
    outer = {name: value for name, value in settings.items() if not isinstance(value, dict)}
    return {name: value for name, value in {**outer, **inner}.items() if value is not None}


def _describe(estimator: Any, notes: dict[str, Any]) -> dict[str, Any]:
    import numpy as np

    content: dict[str, Any] = {
        "estimator": type(estimator).__name__,
        "parameters": estimator.get_params(deep=False),
        "kernels": [],
        "notes": {
            name: notes[name] for name in ("settings", "inputs", "done_passes", "row", "history") if name in notes
        },
    }
    if not hasattr(estimator, "n_features_in_"):
        return content
    content["rows"] = int(estimator.n_seen_)
    content["features"] = int(estimator.n_features_in_)
    if estimator.encoder_ is not None:
        content["columns"] = {name: kind or "no value yet" for name, kind in estimator.encoder_.kinds_.items()}
    content["stored rows"] = int(estimator.support_vectors_.shape[0])
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
        shown = [f"{name}={each}" for name, each in islice(value.items(), _MOST_SHOWN)]
        return ", ".join(shown) + f" and {len(value) - _MOST_SHOWN} others" * (len(value) > _MOST_SHOWN)
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
