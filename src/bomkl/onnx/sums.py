"""Inner products that are rounded as those of the core, where what follows shows every digit of them.

The core adds products column by column and rounds each sum once. Angles of many turns, and small differences of large
sums, are nothing but the last digits of such sums.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from bomkl.onnx.graph import Operators, Result

_SPLIT = 2.0**27 + 1  # cuts a double in two halves whose products are exact (Dekker, 1971)


def inner_products(rows: Result, matrix: NDArray[Any], dtype: Any) -> Result:
    """Inner products of rows with the rows of a matrix, in the precision of a model."""
    zero = (rows * 0.0).sum(axis=1) @ np.zeros((1, len(matrix)))
    body = (_single_step if np.dtype(dtype) == np.float32 else _double_step)(_Step())
    return zero.add("Scan", rows.add("Transpose"), np.asarray(matrix).T, body=body, num_scan_inputs=2)


class _Step(Operators):
    """A column more: from sums, a column of the rows and one of the matrix to new sums."""

    prefix = "step_"

    def __init__(self) -> None:
        super().__init__()
        self.sums, self.factors = Result(self, "sums"), Result(self, "factors")
        self.row = Result(self, "column").unsqueeze()

    def constant(self, value: NDArray[Any]) -> Result:
        return self.add("Constant", value=numpy_helper.from_array(value))

    def graph(self, result: Result) -> Any:
        def shaped(name: str, *shape: str) -> Any:
            return helper.make_tensor_value_info(name, TensorProto.DOUBLE, shape)

        self.nodes.append(helper.make_node("Identity", [result.name], ["sums_after"]))
        inputs = [shaped("sums", "rows", "width"), shaped("column", "rows"), shaped("factors", "width")]
        return helper.make_graph(self.nodes, "step", inputs, [shaped("sums_after", "rows", "width")])


def _single_step(step: _Step) -> Any:
    """In double precision the product is exact."""
    return step.graph((step.sums + step.row * step.factors).rounded())


def _double_step(step: _Step) -> Any:
    """Add what the product and the sum lost by rounding: then the result is rounded once."""
    product = step.row * step.factors
    (a, b), (c, d) = _halves(step.row), _halves(step.factors)
    off = a * c - product + a * d + b * c + b * d
    off = off.add("IsNaN").where(0.0, off)  # numbers too large to be cut
    total = step.sums + product
    of_product = total - step.sums
    of_sums = total - of_product
    return step.graph(total + ((step.sums - of_sums) + (product - of_product) + off))


def _halves(numbers: Result) -> tuple[Result, Result]:
    scaled = numbers * _SPLIT
    high = scaled - (scaled - numbers)
    return high, numbers - high
