"""Inner products that are rounded as those of the core, where what follows shows every digit of them.

The core adds products column by column and rounds each sum once. Angles of many turns, and small differences of large
sums, are nothing but the last digits of such sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto, helper

from bomkl.onnx.graph import Graph

_SPLIT = 2.0**27 + 1  # cuts a double in two halves whose products are exact (Dekker, 1971)


def inner_products(graph: Graph, rows: str, matrix: NDArray[Any], dtype: Any) -> str:
    """Inner products of rows with the rows of a matrix, in the precision of a model."""
    one = graph.add("ReduceSum", graph.add("Mul", rows, graph.number(0.0)), graph.integers([1]), keepdims=1)
    zero = graph.add("MatMul", one, graph.number(np.zeros((1, len(matrix)))))
    columns = graph.add("Transpose", rows)
    body = _single_step() if np.dtype(dtype) == np.float32 else _double_step()
    return graph.add("Scan", zero, columns, graph.number(np.asarray(matrix).T), body=body, num_scan_inputs=2)


class _Step:
    """A column more: from sums, a column of the rows and one of the matrix to new sums."""

    def __init__(self) -> None:
        self.nodes: list[NodeProto] = []
        self.row = self.add("Unsqueeze", "column", self._constant(np.array([1])))

    def add(self, operator: str, *inputs: str | float, **attributes: Any) -> str:
        name = f"step_{operator}_{len(self.nodes)}"
        names = [each if isinstance(each, str) else self._constant(np.array(each)) for each in inputs]
        self.nodes.append(helper.make_node(operator, names, [name], **attributes))
        return name

    def _constant(self, value: NDArray[Any]) -> str:
        name = f"step_constant_{len(self.nodes)}"
        tensor = helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape, value.ravel())
        self.nodes.append(helper.make_node("Constant", [], [name], value=tensor))
        return name

    def graph(self, result: str) -> Any:
        def shaped(name: str, *shape: str) -> Any:
            return helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape)

        self.nodes.append(helper.make_node("Identity", [result], ["sums_after"]))
        inputs = [shaped("sums", "rows", "width"), shaped("column", "rows"), shaped("factors", "width")]
        return helper.make_graph(self.nodes, "step", inputs, [shaped("sums_after", "rows", "width")])


def _single_step() -> Any:
    """In double precision the product is exact."""
    step = _Step()
    total = step.add("Add", "sums", step.add("Mul", step.row, "factors"))
    return step.graph(step.add("Cast", step.add("Cast", total, to=TensorProto.FLOAT), to=TensorProto.DOUBLE))


def _double_step() -> Any:
    """Add what the product and the sum lost by rounding: then the result is rounded once."""
    step = _Step()
    product = step.add("Mul", step.row, "factors")
    (a, b), (c, d) = (_halves(step, name) for name in (step.row, "factors"))
    off = step.add("Sub", step.add("Mul", a, c), product)
    for pair in ((a, d), (b, c), (b, d)):
        off = step.add("Add", off, step.add("Mul", *pair))
    off = step.add("Where", step.add("IsNaN", off), 0.0, off)  # numbers too large to be cut
    total = step.add("Add", "sums", product)
    of_product = step.add("Sub", total, "sums")
    of_sums = step.add("Sub", total, of_product)
    lost = step.add("Add", step.add("Sub", "sums", of_sums), step.add("Sub", product, of_product))
    return step.graph(step.add("Add", total, step.add("Add", lost, off)))


def _halves(step: _Step, name: str) -> tuple[str, str]:
    scaled = step.add("Mul", name, _SPLIT)
    high = step.add("Sub", scaled, step.add("Sub", scaled, name))
    return high, step.add("Sub", name, high)
