"""`BudgetMKLRegressor`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bomkl._estimators.labels import checked_numbers
from bomkl._estimators.online import OnlineRegressor
from bomkl._support.validation import check_as_many, check_not_negative, is_finite_number, parameter_error
from bomkl.budget.estimator import EngineEstimator
from bomkl.budget.parameters import Float
from bomkl.combiners import REGRESSION_LOSSES, Combiner, Hedge
from bomkl.learners import Learner
from bomkl.tables.frames import Table


def _largest_target(dtype: Any) -> float:
    """Targets below it leave room for sums of products with them."""
    return 1e-12 * float(np.finfo(dtype).max)


class BudgetMKLRegressor(OnlineRegressor, EngineEstimator):
    """Budget online multiple kernel regression.

    PA, SPA and BPAS use the epsilon-insensitive loss; BOGD, FOGD and NOGD the squared loss.

    Parameters
    ----------
    kernels : "paper" or list of kernels, default="paper"
        "paper" for the 16 kernels of the paper, or a list of `bomkl.kernels` and functions ``k(X, Z) -> matrix``.
    learner : learner, default=None
        Update rule of each kernel's function: PA, SPA, BOGD, BPAS, FOGD or NOGD; None is
        ``SPA(eta=0.1, alpha=1.0, beta=3.0)``.
    combiner : combiner, default=None
        How the kernels are weighted, `Hedge` or `Uniform`; None is ``Hedge(gamma=0.99, loss="epsilon_insensitive")``.
    selection_delta : None, float or callable, default=0.001
        Each row selects kernels at random, and likelier those of large weight. This is the least probability of a
        kernel: a number in (0, 1), or a function of the number of the row (1, 2, ...). None selects all kernels.
    selection_scope : {"update", "combination", "both"}, default="update"
        What is selected: the kernels that learn from the row, the kernels that predict it while learning, or both.
    normalize_step : bool, default=True
        Whether to divide steps by k(x, x). Without it, kernels with k(x, x) above 2 can diverge.
    epsilon : float, default=0.1
        Errors up to this size cost nothing, >= 0.
    budget : int or None, default=None
        Largest number of support vectors of each kernel.
    dtype : {None, "float32", "float64"}, default=None
        Precision of rows, kernels and scores. None is float32 if the first rows are, else float64. Gaussian kernels
        below 2^-124 (float32) or 2^-1020 (float64) count as zero.
    n_jobs : int or None, default=None
        Number of threads; -1 for all cores. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Source of all random numbers.
    verbose : int, default=0
        If above 0, show a progress bar on stderr while `fit` learns.
    types : dict of column to {"number", "boolean", "category", "date"} or None, default=None
        What columns of a table hold. For all other columns, the types of the table or their first values decide.

    Attributes
    ----------
    kernels_ : list
        The kernels in use.
    kernel_weights_ : ndarray of shape (n_kernels,)
        Weights of the kernels.
    n_support_ : ndarray of shape (n_kernels,)
        Number of support vectors of each kernel.
    support_vectors_ : ndarray or CSR matrix of shape (n_rows, n_columns)
        The stored rows, which all kernels share; those of a table as ``encoder_`` has encoded them. A CSR matrix if
        the rows are wide and came as sparse rows.
    dual_coef_ : ndarray of shape (n_rows, n_kernels)
        Coefficients of the stored rows.
    n_seen_ : int
        Number of rows that the model has learned from.
    n_features_in_ : int
        Number of columns, of a table as well.
    encoder_ : TableEncoder or None
        What encodes the rows of a table; None if the model learned from a matrix.

    Examples
    --------
    >>> import numpy as np
    >>> from bomkl import BudgetMKLRegressor
    >>> X = np.random.default_rng(0).uniform(-3, 3, size=(2000, 1))
    >>> model = BudgetMKLRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> model.score(X, np.sin(X[:, 0])) > 0.95
    True
    """

    _losses = REGRESSION_LOSSES
    _default_combiner = Hedge(loss="epsilon_insensitive")
    _target = "number"

    def __init__(
        self,
        kernels: Any = "paper",
        learner: Learner | None = None,
        combiner: Combiner | None = None,
        selection_delta: float | Callable[[int], float] | None = 0.001,
        selection_scope: str = "update",
        normalize_step: bool = True,
        epsilon: float = 0.1,
        budget: int | None = None,
        dtype: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        types: dict[Any, str] | None = None,
    ) -> None:
        self.kernels = kernels
        self.learner = learner
        self.combiner = combiner
        self.selection_delta = selection_delta
        self.selection_scope = selection_scope
        self.normalize_step = normalize_step
        self.epsilon = epsilon
        self.budget = budget
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.types = types

    def learn_one(self, x: Any, y: float) -> float:
        """Learn from one row in microseconds, and return what was predicted before.

        Parameters
        ----------
        x : array-like of shape (n_features,), dict or Series
            The row. A contiguous array of the model's precision is fastest; anything else is converted first. A dict or
            Series names the columns.
        y : float
            Its target.

        Returns
        -------
        prediction : float
            The prediction.
        """
        simple = is_finite_number(y) and abs(y) < _largest_target("float32")
        prediction = self._learn_one(x, float(y), self.__dict__) if simple else None
        return float(self.score_and_learn(self._whole_row(x), [y])[0] if prediction is None else prediction)

    def predict(self, X: Any) -> Float:
        """Predict the targets of rows.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        predictions : ndarray of shape (n_samples,)
            Predictions.
        """
        return self._scores(X)[:, 0]

    def _check_parameters(self) -> None:
        super()._check_parameters()
        owner = type(self).__name__
        check_not_negative(owner, "epsilon", self.epsilon)
        if not self._learner().can_regress:
            names = ", ".join(kind.__name__ for kind in Learner.__subclasses__() if kind.can_regress)
            raise parameter_error(owner, "learner", f"one of {names}, which can learn regression", self.learner)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn's bar is met by many passes over 200 rows; here one pass takes small steps
        tags.regressor_tags.poor_score = True
        return tags

    def _check_restored_task(self, task: str, n_outputs: int) -> None:
        if (task, n_outputs) != ("regression", 1):
            raise parameter_error("a stored model", "task", "a regression with one output", (task, n_outputs))

    def _learn_all(self, X: Any, y: Any, sample_weight: Any, shuffle: bool) -> None:
        self._learn_rows(X, y, sample_weight, shuffle=shuffle)

    def _learn_rows(
        self, X: Any, y: Any, sample_weight: Any, *, with_scores: bool = True, shuffle: bool = False
    ) -> Float:
        # the engine scores each row before it learns from it, so scores come in any case
        X, first = self._check_call(X)
        targets = checked_numbers(y)
        check_as_many(X.shape[0], len(targets), "targets")
        dtype = self._dtype if isinstance(X, Table) else X.dtype
        if (np.abs(targets) >= (limit := _largest_target(dtype))).any():
            raise ValueError(
                f"y must be smaller than {limit:.3g} for {dtype}. Got {targets[np.abs(targets).argmax()]:.3g} "
                "instead. Scale the targets."
            )
        weights = None if sample_weight is None else self._sample_weights(X, sample_weight)
        return self._learn_targets(X, targets, weights, first, shuffle, "regression", 1)[:, 0]
