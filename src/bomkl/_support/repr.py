"""What a notebook shows of an estimator: scikit-learn's diagram with its tables of parameters, then the state."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from sklearn import get_config
from sklearn.utils import estimator_html_repr

TOP_KERNELS = 5
State = list[tuple[str, str]]


class ShowsState:
    """Adds the state of an estimator to its HTML; mixed in before `BaseEstimator`."""

    def _shown_state(self) -> State:
        """Name what there is to see, with its value; nothing before the estimator has learned."""
        raise NotImplementedError

    def _repr_html_inner(self) -> str:
        return str(estimator_html_repr(self)) + state_html(self._shown_state())

    def _repr_mimebundle_(self, **_: Any) -> dict[str, str]:
        bundle = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            bundle["text/html"] = self._repr_html_inner()
        return bundle


def state_html(state: State) -> str:
    """Write a state as an HTML table.

    Examples
    --------
    >>> print(state_html([("rows", "120"), ("kernel", "<linear>")]))
    <details open><summary>State</summary><table>
    <tr><th scope="row">rows</th><td>120</td></tr>
    <tr><th scope="row">kernel</th><td>&lt;linear&gt;</td></tr>
    </table></details>
    """
    shown = state or [("rows", "0: it has not learned yet")]
    lines = [f'<tr><th scope="row">{escape(name)}</th><td>{escape(value)}</td></tr>' for name, value in shown]
    return "\n".join(["<details open><summary>State</summary><table>", *lines, "</table></details>"])


def top_kernels(names: Sequence[str], weights: Sequence[float]) -> State:
    """List the kernels with the largest weights.

    Examples
    --------
    >>> top_kernels(["linear", "gauss"], [0.25, 0.75])
    [('gauss', '75.0 %'), ('linear', '25.0 %')]
    """
    ranked = sorted(zip(weights, names, strict=True), key=lambda pair: -pair[0])[:TOP_KERNELS]
    return [(name, f"{100 * weight:.1f} %") for weight, name in ranked]


def mistakes_text(mistakes: int, rows: int) -> str:
    """Write the error of a classifier on a stream.

    Examples
    --------
    >>> mistakes_text(1, 8)
    '12.50 % of the rows, each predicted before learning from it'
    """
    return f"{100 * mistakes / max(rows, 1):.2f} % of the rows, each predicted before learning from it"


def bytes_text(count: int) -> str:
    """Write a number of bytes to be read.

    Examples
    --------
    >>> bytes_text(900), bytes_text(3_500_000)
    ('0.9 kB', '3.5 MB')
    """
    return f"{count / 1e6:.1f} MB" if count >= 1e5 else f"{count / 1e3:.1f} kB"
