"""Saved hashed models."""

from __future__ import annotations

import numpy as np

from bomkl._core import HashedModel
from bomkl.auto.limits import HASHED_NUMBERS, SINGLES
from bomkl.auto.saved import Saved, State

_SLOTS = 3  # of a column, as the core has them
_CUTS = 15
_NUMBERS = 11
_NAME = 24  # bytes of a name: its length and its letters


def hashed_state(model: HashedModel) -> State:
    """Everything the models have learned, as plain values and arrays."""
    numbers, cuts, kept, codes, name_codes, name_counts, name_letters = model.slots
    return {
        "columns": model.columns,
        "outputs": model.outputs,
        "models": [
            {"places": places, "entries": entries, "dense": dense, "rows": rows, "parts": parts}
            for places, entries, dense, rows, parts in model.models
        ],
        "numbers": numbers,
        "n_cuts": (~np.isnan(cuts)).sum(axis=1),
        "cuts": np.nan_to_num(cuts, nan=0.0),
        "kept": kept,
        "codes": codes,
        "name_codes": name_codes,
        "name_counts": name_counts,
        "name_letters": name_letters,
    }


def hashed_from_state(saved: Saved) -> HashedModel:
    """Go on where `hashed_state` was called; refuse what does not fit together."""
    columns, outputs = saved.integer("columns", 1, 2**20), saved.integer("outputs", 1, 2**20)
    width = 2 * (outputs + 1)
    models = []
    for part in saved.parts("models", 3):
        entries = part.array("entries", (None, width), np.float32, *SINGLES)
        dense = part.array("dense", (1 + _SLOTS * columns, width), np.float32, *SINGLES)
        if min(entries[:, 2 * outputs :].min(initial=0.0), dense[:, 2 * outputs :].min()) < 0:
            raise part.wrong("entries", "entries whose sums are not negative", "negative ones")
        places = part.array("places", (len(entries),), np.int32, 0)
        rows, parts = part.array("rows", (3,)), part.array("parts", (_SLOTS * columns,))
        if min(rows[:2]) < 0:
            raise part.wrong("rows", "counts that are not negative", rows)
        models.append((places, entries, dense, rows, parts))
        part.end()
    n_slots = _SLOTS * columns
    numbers = saved.array("numbers", (n_slots, _NUMBERS), np.float64, *HASHED_NUMBERS)
    n_cuts = saved.array("n_cuts", (n_slots,), np.int64, 0, _CUTS)
    cuts = saved.array("cuts", (n_slots, _CUTS))
    cuts[np.arange(_CUTS) >= n_cuts[:, None]] = np.nan
    kept, codes = saved.array("kept", (None,)), saved.array("codes", (None,), np.uint64)
    name_codes = saved.array("name_codes", (None,), np.uint64)
    name_counts = saved.array("name_counts", (len(name_codes),))
    name_letters = saved.array("name_letters", (len(name_codes), _NAME), np.uint8)
    saved.end()
    try:
        slots = (numbers, cuts, kept, codes, name_codes, name_counts, name_letters)
        return HashedModel.of(columns, outputs, models, slots)
    except ValueError as error:
        raise ValueError(f"The saved hashed models cannot be used: {error}.") from None
