"""A small writer of ONNX graphs: formulas of results add operators.

All arithmetic is in double precision, whatever the precision of the model: squared distances by way of inner products
lose half of the digits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
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


def _with_other(operator: str, first: bool = True) -> Callable[[Result, Any], Result]:
    """Return a method that adds an operator on a result and something else, in this order or the other."""
    return lambda own, other: own.operators.add(operator, *((own, other) if first else (other, own)))


class Result:
    """What an operator gives. Arithmetic with results, numbers and arrays adds operators."""

    __array_ufunc__ = None  # so that an array on the left leaves arithmetic to the result

    def __init__(self, operators: Operators, name: str) -> None:
        self.operators, self.name = operators, name

    def add(self, operator: str, *inputs: Any, **attributes: Any) -> Result:
        """Add an operator whose first input this is."""
        return self.operators.add(operator, self, *inputs, **attributes)

    def __add__(self, other: Any) -> Result:
        # ONNX Runtime drops an Add of a double that is zero in single precision; a Sum of whole numbers is no operator
        return self.add("Add" if isinstance(other, Result | list) else "Sum", other)

    __radd__ = __add__
    __mul__ = __rmul__ = _with_other("Mul")
    __sub__, __rsub__ = _with_other("Sub"), _with_other("Sub", first=False)
    __truediv__, __rtruediv__ = _with_other("Div"), _with_other("Div", first=False)
    __matmul__, __rmatmul__ = _with_other("MatMul"), _with_other("MatMul", first=False)
    __pow__, __lt__ = _with_other("Pow"), _with_other("Less")

    def constant(self, value: NDArray[Any]) -> Result:
        return self.operators.constant(value)

    def select_from(self, values: Any, axis: int = 0) -> Result:
        """Take the values at these places."""
        return self.operators.add("Gather", values, self, axis=axis)

    def where(self, yes: Any, no: Any) -> Result:
        return self.add("Where", yes, no)

    def cast(self, to: int) -> Result:
        return self.add("Cast", to=to)

    def rounded(self) -> Result:
        """Round doubles to single precision."""
        return self.cast(TensorProto.FLOAT).cast(TensorProto.DOUBLE)

    def clip(self, low: float, high: float) -> Result:
        return self.add("Clip", low, high)

    def at_least(self, low: Any) -> Result:
        """Replace what is less."""
        return self.add("Max", low)

    def columns(self, places: Any) -> Result:
        return self.add("Gather", np.asarray(places).tolist(), axis=1)

    def sum(self, axis: int, keepdims: int = 1) -> Result:
        return self.add("ReduceSum", [axis], keepdims=keepdims)

    def largest(self, axis: int, keepdims: int = 1) -> Result:
        return self.add("ReduceMax", axes=[axis], keepdims=keepdims)

    def mean(self, axis: int, keepdims: int = 1) -> Result:
        return self.add("ReduceMean", axes=[axis], keepdims=keepdims)

    def unsqueeze(self) -> Result:
        """Put an axis of length one behind the rows."""
        return self.add("Unsqueeze", [1])

    def squeeze(self) -> Result:
        """Drop an axis of length one behind the rows."""
        return self.add("Squeeze", [1])


class Operators(ABC):
    """Operators in their order. Inputs are results or constants: lists of whole numbers, or doubles."""

    prefix = ""  # of the names of results

    def __init__(self) -> None:
        self.nodes: list[Any] = []

    def add(self, operator: str, *inputs: Any, **attributes: Any) -> Result:
        names = [self._name_of(each) for each in inputs]
        name = f"{self.prefix}{operator}_{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, names, [name], **attributes))
        return Result(self, name)

    def _name_of(self, value: Any) -> str:
        if isinstance(value, Result):
            return value.name
        if isinstance(value, np.ndarray) and value.dtype == np.float32:  # stored as such
            return self.constant(value).cast(TensorProto.DOUBLE).name
        return self.constant(np.asarray(value, dtype=np.int64 if isinstance(value, list) else np.float64)).name

    @abstractmethod
    def constant(self, value: NDArray[Any]) -> Result:
        """Add an array of any type."""


class Graph(Operators):
    """Operators, constants and outputs of a model to be, with rows ``X`` as input.

    `dtype`: precision of the rows, float32 or float64.
    """

    def __init__(self, n_features: int, dtype: Any) -> None:
        super().__init__()
        self._constants: list[Any] = []
        self._outputs: list[Any] = []
        self._more_operators: list[Any] = []
        element = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
        self._input = helper.make_tensor_value_info("X", element, ["rows", n_features])
        self.rows = Result(self, "X").cast(TensorProto.DOUBLE)

    def add_of_trees(self, *inputs: Any, **attributes: Any) -> Result:
        """Add the operator of tree ensembles, which is in a set of its own."""
        if not self._more_operators:
            self._more_operators.append(helper.make_opsetid(TREE_DOMAIN, TREE_OPSET))
        return self.add("TreeEnsembleRegressor", *inputs, domain=TREE_DOMAIN, **attributes)

    def constant(self, value: NDArray[Any]) -> Result:
        name = f"constant_{len(self._constants)}"
        self._constants.append(numpy_helper.from_array(value, name))
        return Result(self, name)

    def repeated(self, row: Any) -> Result:
        """Give every row the same values."""
        shape = Result(self, "X").add("Shape", end=1)
        return self.add("Expand", np.asarray(row), shape.add("Concat", [len(row)], axis=0))

    def least(self, numbers: Result, k: int) -> Result:
        """Places of the k least numbers of each row."""
        names = [f"TopK_{len(self.nodes)}_{each}" for each in ("values", "places")]
        self.nodes.append(
            helper.make_node("TopK", [numbers.name, self._name_of([k])], names, axis=1, largest=0, sorted=1)
        )
        return Result(self, names[1])

    def output(self, name: str, result: Result, values: NDArray[Any] | None = None, width: int | None = None) -> None:
        """Name a result as an output: doubles, or of the type of `values`; a vector, or `width` columns."""
        self.nodes.append(helper.make_node("Identity", [result.name], [name]))
        element = TensorProto.DOUBLE if values is None else numpy_helper.from_array(values).data_type
        shape: list[Any] = ["rows"] if width is None else ["rows", width]
        self._outputs.append(helper.make_tensor_value_info(name, element, shape))

    def model(self, name: str, version: str) -> ModelProto:
        graph = helper.make_graph(self.nodes, name, [self._input], self._outputs, self._constants)
        return helper.make_model(
            graph,
            producer_name="bomkl",
            producer_version=version,
            ir_version=_IR_VERSION,
            opset_imports=[helper.make_opsetid("", OPSET), *self._more_operators],
        )
