"""Attributes of a fitted estimator, its explanations and a plot of its weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from bomkl._support.extras import install_hint
from bomkl._support.repr import ShowsState, bytes_text, top_kernels
from bomkl._support.repr import State as ShownState
from bomkl.auto.build import drift_of
from bomkl.auto.components.pool import PoolMember
from bomkl.auto.device import on_host
from bomkl.auto.drift.events import DriftEvent, drift_events
from bomkl.auto.features.geometry import Float
from bomkl.auto.hashed.explain import explain_row
from bomkl.auto.insight.explaining import explain_rows
from bomkl.auto.insight.explanations import Explanations
from bomkl.auto.learner import Learner, PoolLearner
from bomkl.auto.rows.arrays import array_bytes
from bomkl.auto.rows.explain import Explanation
from bomkl.tables.frames import is_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class FittedAttributes(ShowsState):
    """Attributes of a fitted model."""

    _learner: Learner
    _now: Callable[[], Any]
    _n_columns: Callable[[], int]

    @property
    def _leader(self) -> PoolLearner:
        check_is_fitted(self)
        leader: PoolLearner = self._now()._learner.leader
        return leader

    @property
    def n_seen_(self) -> int:
        """Number of rows that the model has learned from."""
        check_is_fitted(self)
        return self._learner.seen

    @property
    def kernels_(self) -> list[PoolMember]:
        """Members of the pool: the kernels, the linear model and the trees, in the order of `kernel_weights_`."""
        return self._leader.members()

    @property
    def kernel_weights_(self) -> Float:
        """Weight of each member in the combination; zero for those that were dropped. The weights sum to 1."""
        return self._leader.kernel_weights()

    @property
    def component_errors_(self) -> Float:
        """Error of each member alone, each row predicted before learning: share of mistakes, or mean squared error."""
        return self._leader.component_errors()

    @property
    def n_support_(self) -> NDArray[np.int64]:
        """Number of landmarks of each member; linear models and trees have none."""
        return self._leader.n_support()

    @property
    def support_vectors_(self) -> Float:
        """The stored rows: all of them until the budget is full, then the landmarks."""
        rows = self._leader.stored_rows()[:, : self._n_columns()]  # without the score of hashed models
        return rows if rows.size else np.empty((0, self._n_columns()))

    @property
    def drift_(self) -> list[DriftEvent]:
        """Changes of the stream that were noticed, the last 256 at most; only with ``drift="auto"``."""
        check_is_fitted(self)
        now = self._now()
        return drift_events(drift_of(now._learner), now._learner.task.is_regression, now._columns_of_features())

    @property
    def nbytes_(self) -> int:
        """Memory of the learned arrays, in bytes."""
        check_is_fitted(self)
        state = self.__dict__
        return sum(
            array_bytes(state[name]) for name in ("_learner", "_errors", "_importance", "_history") if name in state
        )

    def _shown_state(self) -> ShownState:
        if not hasattr(self, "_learner"):
            return []
        now = self._now()
        state = [("rows", f"{now.n_seen_:,}"), ("error", now._shown_error()), ("memory", bytes_text(now.nbytes_))]
        return state + top_kernels([str(kernel) for kernel in now.kernels_], now.kernel_weights_.tolist())

    def _shown_error(self) -> str:
        """Return the error so far in words."""
        raise NotImplementedError

    def explain(self, X: Any) -> Explanation | Explanations:
        """Explain predictions: what each column added to the score.

        Parameters
        ----------
        X : array-like of shape (n_features,) or (n_samples, n_features), dict, Series or table
            One row, or several. A dict of lists is a table if the model knows a column of it, and otherwise one row
            whose lists are cells, as `learn_one` takes it.

        Returns
        -------
        explanation : Explanation or Explanations
            Of one row, what each column, kernel and stored row added to the score; with ``drift="adapt"`` it explains
            the learner that counts most. Of several rows, Shapley values: what each column added, compared with other
            rows of the stream. They add up to the score. With more than 512 columns of an array, each column that is
            not zero in a row has a part of its own; all others share one.
        """
        now = self._now()
        check_is_fitted(now)
        if not sp.issparse(X) and not is_table(X):
            X = now._whole_row(X) if hasattr(X, "keys") else np.atleast_2d(on_host(X))  # a Series names its columns
        elif isinstance(X, Mapping) and not set(X).intersection(now._encoder.kinds_):
            X = [X]
        rows = now._check_known_rows(X)
        if rows.shape[0] != 1:
            return explain_rows(now, X, rows)
        return explain_row(now._learner, rows, now._sign(), now._columns_of_features(), now._hashed_names())

    def plot_weights(self, ax: Any = None) -> Figure:
        """Draw the weight and the error of each member of the pool.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw into. None: a new figure.

        Returns
        -------
        figure : matplotlib Figure
            The figure.
        """
        now = self._now()
        weights, errors, names = now.kernel_weights_, now.component_errors_, [str(kernel) for kernel in now.kernels_]
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            raise ImportError(f"plot_weights needs matplotlib. {install_hint('plots')}") from error
        if ax is None:
            _, ax = plt.subplots(figsize=(7, 4), layout="constrained")
        places = np.arange(len(weights))[::-1]
        bars = ax.barh(places, weights)
        ax.bar_label(bars, [f"{error:.3g}" for error in errors], padding=3)
        ax.set_yticks(places, names)
        ax.set_xlabel("weight in the combination (number: error of the component alone)")
        ax.set_xlim(0, max(1.15 * float(weights.max()), 0.1))
        figure: Figure = ax.figure
        return figure
