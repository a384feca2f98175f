"""Views of the columns that the kernels of the Auto models work on (`bomkl.auto.features.geometry`), as operators."""

from __future__ import annotations

import numpy as np

from bomkl.auto.features import geometry
from bomkl.auto.features.coding import Coding
from bomkl.auto.features.geometry import Float, Geometry
from bomkl.onnx.graph import Graph


class Views:
    """Rows in the views of a geometry, each computed at most once and rounded to single precision as in the model.

    Parameters
    ----------
    graph : Graph
        Where to add operators.
    rows : str
        Name of the rows.
    geometry : Geometry
        What to do with the columns.
    """

    def __init__(self, graph: Graph, rows: str, geometry: Geometry) -> None:
        self._graph, self._rows, self._geometry = graph, rows, geometry
        self._made: dict[str, str] = {}

    def __getitem__(self, name: str) -> str:
        if name not in self._made:
            self._made[name] = self._graph.rounded(self._make(name))
        return self._made[name]

    def _make(self, name: str) -> str:
        graph, parts = self._graph, self._geometry
        if name == "standard":
            return graph.clip(self._scaled(parts.mean, parts.deviation), -geometry.CLIP, geometry.CLIP)
        if name == "common":
            return graph.clip(self._scaled(parts.middle, parts.common), -geometry.FAR, geometry.FAR)
        if name == "leading":
            axes = parts.axes.transpose(1, 0, 2).reshape(parts.axes.shape[1], -1)
            count = min(geometry._LEADING, len(parts.mean))
            return graph.add("MatMul", self["common"], graph.number(axes[:, :count]))
        if name == "normal":
            return self._normal()
        if name == "squares":
            squares = graph.add("Mul", self["normal"], self["normal"])
            centred = graph.add("Sub", squares, graph.number(parts.square_means()))
            return graph.add("Mul", centred, graph.number(geometry.ROOT_HALF))
        if name == "codes":
            assert parts.coding is not None
            return codes_of(graph, self._rows, parts.coding)
        base = name.removeprefix("relevant ")
        return graph.add("Mul", self[base], graph.number(parts.relevance[base].astype(np.float32)))

    def _scaled(self, centre: Float, deviation: Float | float) -> str:
        graph = self._graph
        return graph.add("Div", graph.plus(self._rows, -centre), graph.number(deviation))

    def _normal(self) -> str:
        """Places among the sorted values of the column, looked up in the table of normal scores."""
        graph, parts = self._graph, self._geometry
        columns = list(parts.sorted_columns)
        below, up_to = (_count(graph, self._rows, comparison, columns) for comparison in ("Less", "LessOrEqual"))
        scores = graph.add("Gather", graph.number(parts.score_table), graph.add("Add", below, up_to))
        centred = graph.add("Sub", scores, graph.number(parts.normal_mean))
        return graph.add("Div", centred, graph.number(parts.normal_deviation))


def codes_of(graph: Graph, rows: str, coding: Coding) -> str:
    """How many cuts of its column lie below each value."""
    return _count(graph, rows, "Less", np.split(coding.cuts, coding.starts[1:-1]))


def _count(graph: Graph, rows: str, comparison: str, columns: list[Float]) -> str:
    """How many of the sorted values of its column are less than (or equal to) each value: binary search.

    Columns are filled up with infinity to one less than a power of two, so that no step leaves them.
    """
    n_columns = len(columns)
    steps = max(map(len, columns), default=0).bit_length() or 1
    full = 2**steps - 1
    padded = np.full((n_columns, full), np.inf)
    for row, values_of_column in zip(padded, columns, strict=True):
        row[: len(values_of_column)] = values_of_column
    values = graph.number(padded.ravel())
    starts = np.arange(n_columns) * full
    place = graph.integers(starts.tolist())
    for step in (2**power for power in reversed(range(steps))):
        probe = graph.add("Gather", values, graph.add("Add", place, graph.integers(step - 1)))
        passed = graph.add(comparison, probe, rows)
        place = graph.add("Where", passed, graph.add("Add", place, graph.integers(step)), place)
    return graph.add("Sub", place, graph.integers(starts.tolist()))
