"""Views of the columns that the kernels of the Auto models work on (`bomkl.auto.features.geometry`), as operators."""

from __future__ import annotations

import numpy as np

from bomkl.auto.features import geometry
from bomkl.auto.features.coding import Coding
from bomkl.auto.features.geometry import Float, Geometry
from bomkl.onnx.graph import Result


class Views:
    """Rows in the views of a geometry, each computed at most once and rounded to single precision as in the model.

    `geometry`: what to do with the columns.
    """

    def __init__(self, rows: Result, geometry: Geometry) -> None:
        self._rows, self._geometry = rows, geometry
        self._made: dict[str, Result] = {}

    def __getitem__(self, name: str) -> Result:
        if name not in self._made:
            self._made[name] = self._make(name).rounded()
        return self._made[name]

    def _make(self, name: str) -> Result:
        parts = self._geometry
        if name == "standard":
            return ((self._rows + -parts.mean) / parts.deviation).clip(-geometry.CLIP, geometry.CLIP)
        if name == "common":
            return ((self._rows + -parts.middle) / parts.common).clip(-geometry.FAR, geometry.FAR)
        if name == "leading":
            axes = parts.axes.transpose(1, 0, 2).reshape(parts.axes.shape[1], -1)
            count = min(geometry._LEADING, len(parts.mean))
            return self["common"] @ axes[:, :count]
        if name == "normal":
            return self._normal()
        if name == "squares":
            return (self["normal"] * self["normal"] - parts.square_means()) * geometry.ROOT_HALF
        if name == "codes":
            assert parts.coding is not None
            return codes_of(self._rows, parts.coding)
        base = name.removeprefix("relevant ")
        return self[base] * parts.relevance[base].astype(np.float32)

    def _normal(self) -> Result:
        """Places among the sorted values of the column, looked up in the table of normal scores."""
        parts = self._geometry
        columns = list(parts.sorted_columns)
        below, up_to = (_count(self._rows, comparison, columns) for comparison in ("Less", "LessOrEqual"))
        scores = (below + up_to).select_from(parts.score_table)
        return (scores - parts.normal_mean) / parts.normal_deviation


def codes_of(rows: Result, coding: Coding) -> Result:
    """How many cuts of its column lie below each value."""
    return _count(rows, "Less", np.split(coding.cuts, coding.starts[1:-1]))


def _count(rows: Result, comparison: str, columns: list[Float]) -> Result:
    """How many of the sorted values of its column are less than (or equal to) each value: binary search.

    Columns are filled up with infinity to one less than a power of two, so that no step leaves them.
    """
    n_columns = len(columns)
    steps = max(map(len, columns), default=0).bit_length() or 1
    full = 2**steps - 1
    padded = np.full((n_columns, full), np.inf)
    for row, values_of_column in zip(padded, columns, strict=True):
        row[: len(values_of_column)] = values_of_column
    values = rows.constant(padded.ravel())
    starts = (np.arange(n_columns) * full).tolist()
    place = rows.constant(np.array(starts))
    for step in (2**power for power in reversed(range(steps))):
        passed = place.add("Add", [step - 1]).select_from(values).add(comparison, rows)
        place = passed.where(place.add("Add", [step]), place)
    return place - starts
