"""``merge``: one model file from several."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from bomkl._support.files import locked
from bomkl.cli.output import check_output, print_result


def merge(
    models: Annotated[list[str], typer.Argument(help="Model files.", metavar="MODEL")],
    output: Annotated[str, typer.Option("--output", "-o", help="Model file to write.", metavar="FILE")],
) -> None:
    """Make one model of models that learned from different rows.

    Auto models must be copies of one model that have gone on learning in rounds (-p update=rounds), each from other
    rows. Budget models of the same settings are merged by least squares.
    """
    from bomkl import merge as merged
    from bomkl import modelfile

    check_output("--output", output, replaced=True, inputs=models)
    loaded = [modelfile.read(path) for path in models]
    with locked(output):
        try:
            model = merged([each.estimator for each in loaded])
        except (TypeError, ValueError) as error:
            raise ValueError(_with_names(str(error), models)) from error
        most = max(loaded, key=lambda each: int(each.estimator.n_seen_))
        modelfile.save(model, output, _notes(most.notes, [each.notes for each in loaded]))
    print_result(f"rows\t{model.n_seen_}")


def _with_names(message: str, models: list[str]) -> str:
    """Name files where the library counts models."""
    return re.sub(r"\b[Mm]odel (\d+)\b", lambda found: models[int(found[1])], message)


def _notes(most: dict[str, Any], all_notes: list[dict[str, Any]]) -> dict[str, Any]:
    """Tell how to read rows, as the model that has learned from most of them; there is no run to resume."""
    if "settings" not in most:
        return {}
    inputs = [path for notes in all_notes for path in notes.get("inputs", ())]
    kept: dict[str, Any] = {name: most[name] for name in ("settings", "schema") if name in most}
    return {**kept, "inputs": list(dict.fromkeys(inputs)), "done_passes": 1, "row": 0, "history": []}
