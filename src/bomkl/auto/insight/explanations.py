"""`Explanations`: what each column added to the scores of several rows."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bomkl.auto.features.geometry import Float

_MOST_SHOWN = 10
_WIDEST_BAR = 10.0  # em


@dataclass(frozen=True, repr=False)
class Explanations:
    """Scores of several rows, taken apart by columns.

    The attributes are those of ``shap.Explanation``, so the plots of the shap package take it as it is, or what
    `to_shap` returns.

    Attributes
    ----------
    values : ndarray of shape (n_rows, n_columns) or (n_rows, n_columns, n_classes)
        What each column added to the score of each row, compared with other rows of the stream: its Shapley value.
    base_values : ndarray of shape (n_rows,) or (n_rows, n_classes)
        The mean score of those rows. With the values of a row, it adds up to the score of the row, which
        ``decision_function`` gives, or ``predict`` for numbers.
    data : ndarray of shape (n_rows, n_columns)
        The rows.
    feature_names : list of str
        The columns.
    output_names : list of str or None
        The classes, if there are more than two.
    words : Explanations or None
        Of a table with texts, the same by words, such as "note: late": how much the score falls if the word is left
        out. What that does not explain is "note: the rest", so the sums are the same. The 200 words of a column that
        mattered most are listed; in `data` they are 1 where the text has them.

    Examples
    --------
    >>> import numpy as np
    >>> from bomkl import AutoMKLRegressor
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> model = AutoMKLRegressor(budget=50, random_state=0).fit(X, X[:, 0])
    >>> found = model.explain(X[:5])
    >>> bool(np.allclose(found.base_values + found.values.sum(axis=1), model.predict(X[:5])))
    True
    """

    values: Float
    base_values: Float
    data: NDArray[Any]
    feature_names: list[str]
    output_names: list[str] | None = None
    words: Explanations | None = None

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> Explanations:
        """Take some rows."""
        kept: Any = [rows] if isinstance(rows, int | np.integer) else rows
        return Explanations(
            self.values[kept],
            self.base_values[kept],
            self.data[kept],
            self.feature_names,
            self.output_names,
            None if self.words is None else self.words[rows],
        )

    def sizes(self) -> dict[str, float]:
        """Mean size of the part of each column, over the rows and classes, the largest first.

        Returns
        -------
        dict of str to float
        """
        size = np.abs(self.values).mean(axis=0)
        size = size if size.ndim == 1 else size.mean(axis=1)
        order = np.argsort(-size, kind="stable")
        return {self.feature_names[at]: float(size[at]) for at in order}

    def to_shap(self) -> Any:
        """Return a ``shap.Explanation``; the shap package is needed.

        Returns
        -------
        shap.Explanation
        """
        try:
            import shap
        except ImportError as error:
            raise ImportError("to_shap needs the shap package: pip install shap") from error
        return shap.Explanation(
            self.values, self.base_values, self.data, feature_names=self.feature_names, output_names=self.output_names
        )

    def _top(self) -> list[tuple[str, float]]:
        return list(self.sizes().items())[:_MOST_SHOWN]

    def _top_words(self) -> list[tuple[str, float]]:
        sizes = {} if self.words is None else self.words.sizes()
        return [(name, size) for name, size in sizes.items() if name not in self.feature_names][:_MOST_SHOWN]

    def __repr__(self) -> str:
        """Show the columns that mattered most, a line each."""
        top, words = self._top(), self._top_words()
        width = max((len(name) for name, _ in top + words), default=0)
        rest = len(self.feature_names) - len(top)
        lines = [f"{len(self)} rows, {len(self.feature_names)} columns; mean size of what a column added:"]
        lines += [f"  {name:<{width}}  {size:.4g}" for name, size in top]
        lines += [f"  and {rest} others"] if rest else []
        lines += ["by words:"] if words else []
        return "\n".join([*lines, *(f"  {name:<{width}}  {size:.4g}" for name, size in words)])

    def _repr_html_(self) -> str:
        top = self._top() + self._top_words()
        largest = max((size for _, size in top), default=0.0) or 1.0
        rows = [
            f'<tr><th scope="row" style="text-align:left">{escape(name)}</th><td>{size:.4g}</td><td style="text-align:'
            f'left"><div style="background:#4477aa;height:0.7em;width:{_WIDEST_BAR * size / largest:.2f}em"></div></td>'
            "</tr>"
            for name, size in top
        ]
        caption = (
            f"<caption>Mean size of what a column{'' if self.words is None else ' or word'} added to the score of "
            f"{len(self)} rows</caption>"
        )
        return "\n".join(["<table>", caption, *rows, "</table>"])
