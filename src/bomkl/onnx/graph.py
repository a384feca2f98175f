"""A small writer of ONNX graphs: every call adds one operator and gives the name of its result.

All arithmetic is in double precision, whatever the precision of the model: squared distances by way of inner products
lose half of the digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl._support.extras import install_hint

try:
    from onnx import ModelProto, TensorProto, helper, numpy_helper
except ImportError as missing:
    raise ImportError(f"Export to ONNX needs the onnx package. {install_hint('onnx')}") from missing

OPSET = 17
TREE_DOMAIN, TREE_OPSET = "ai.onnx.ml", 3  # tree ensembles
_IR_VERSION = 8  # the one that came with the opset


class Graph:
    """Operators, constants and outputs of a model to be, with rows ``X`` as input.

    Parameters
    ----------
    n_features : int
        Width of the rows.
    dtype : dtype
        Precision of the rows, float32 or float64.
    """

    def __init__(self, n_features: int, dtype: Any) -> None:
        self._nodes: list[Any] = []
        self._constants: list[Any] = []
        self._outputs: list[Any] = []
        self._more_operators: list[Any] = []
        element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._input = helper.make_tensor_value_info("X", element, ["rows", n_features])
        self.rows = self.double("X")

    def add(self, operator: str, *inputs: str, **attributes: Any) -> str:
        """Add an operator."""
        name = f"{operator}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name

    def add_of_trees(self, *inputs: str, **attributes: Any) -> str:
        """Add the operator of tree ensembles, which is in a set of its own."""
        if not self._more_operators:
            self._more_operators.append(helper.make_opsetid(TREE_DOMAIN, TREE_OPSET))
        return self.add("TreeEnsembleRegressor", *inputs, domain=TREE_DOMAIN, **attributes)

    def constant(self, value: Any) -> str:
        """Add an array."""
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def number(self, value: Any) -> str:
        """Add an array of doubles; one of single precision is stored as such."""
        array = np.asarray(value)
        if array.dtype == np.float32:
            return self.double(self.constant(array))
        return self.constant(array.astype(np.float64))

    def plus(self, name: str, value: Any) -> str:
        """Add a number, however small: ONNX Runtime drops an Add of one that is zero in single precision."""
        return self.add("Sum", name, self.number(value))

    def double(self, name: str) -> str:
        """Take numbers as doubles."""
        return self.add("Cast", name, to=TensorProto.DOUBLE)

    def single(self, name: str) -> str:
        """Take numbers in single precision."""
        return self.add("Cast", name, to=TensorProto.FLOAT)

    def whole(self, name: str) -> str:
        """Take numbers as whole ones."""
        return self.add("Cast", name, to=TensorProto.INT64)

    def rounded(self, name: str) -> str:
        """Round doubles to single precision."""
        return self.double(self.add("Cast", name, to=TensorProto.FLOAT))

    def clip(self, name: str, low: float, high: float) -> str:
        """Bring numbers into an interval."""
        return self.add("Clip", name, self.number(low), self.number(high))

    def columns(self, name: str, places: Any) -> str:
        """Take some columns, in some order."""
        return self.add("Gather", name, self.constant(np.asarray(places, dtype=np.int64)), axis=1)

    def repeated(self, row: Any) -> str:
        """Give every row the same values."""
        values = np.asarray(row, dtype=np.float64)
        shape = self.add("Shape", "X", end=1)
        return self.add("Expand", self.number(values), self.add("Concat", shape, self.integers([len(values)]), axis=0))

    def integers(self, values: int | Sequence[int]) -> str:
        """Add whole numbers, as axes and shapes are."""
        return self.constant(np.array(values, dtype=np.int64))

    def least(self, name: str, k: int) -> str:
        """Places of the k least numbers of each row."""
        values, places = (f"TopK_{len(self._nodes)}_{each}" for each in ("values", "places"))
        self._nodes.append(
            helper.make_node("TopK", [name, self.integers([k])], [values, places], axis=1, largest=0, sorted=1)
        )
        return places

    def first_column(self, name: str) -> str:
        """Turn a matrix of one column into a vector."""
        return self.add("Squeeze", name, self.integers([1]))

    def output(self, name: str, result: str, values: NDArray[Any] | None = None, width: int | None = None) -> None:
        """Name a result as an output: doubles, or of the type of `values`; a vector, or `width` columns."""
        self._nodes.append(helper.make_node("Identity", [result], [name]))
        element = TensorProto.DOUBLE if values is None else numpy_helper.from_array(values).data_type
        shape: list[Any] = ["rows"] if width is None else ["rows", width]
        self._outputs.append(helper.make_tensor_value_info(name, element, shape))

    def model(self, name: str, version: str) -> ModelProto:
        """Finish the model."""
        graph = helper.make_graph(self._nodes, name, [self._input], self._outputs, self._constants)
        return helper.make_model(
            graph,
            producer_name="bomkl",
            producer_version=version,
            ir_version=_IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET), *self._more_operators],
        )
