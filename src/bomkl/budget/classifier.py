"""`BudgetMKLClassifier`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import compute_class_weight

from bomkl._estimators.labels import checked_classes, checked_labels
from bomkl._estimators.online import OnlineClassifier
from bomkl._support.validation import check_as_many, check_choice, check_class_weights, parameter_error
from bomkl.budget.estimator import EngineEstimator
from bomkl.budget.parameters import LARGEST_WEIGHT, Float
from bomkl.combiners import CLASSIFICATION_LOSSES, Combiner, Hedge
from bomkl.learners import Learner


class BudgetMKLClassifier(OnlineClassifier, EngineEstimator):
    """Budget online multiple kernel classification: you choose the kernels, the learner and the combiner.

    The defaults are Algorithm 1 of the paper, BOMKC(SPA), as in its tables. With more than two classes, the model
    learns each class against all others. All kernels and classes share the stored rows.

    Parameters
    ----------
    kernels : "paper" or list of kernels, default="paper"
        "paper" for the 16 kernels of the paper, or a list of `bomkl.kernels` and functions ``k(X, Z) -> matrix``.
    learner : learner, default=None
        Update rule of each kernel's function, one of `bomkl.learners`; None is ``SPA(eta=0.1, alpha=1.0, beta=3.0)``.
    combiner : combiner, default=None
        How the kernels are weighted, `Hedge` or `Uniform`; None is ``Hedge(gamma=0.99, loss="hinge")``.
    combination : {"score", "vote"}, default="score"
        Whether to combine the scores of the kernels or only their signs.
    selection_delta : None, float or callable, default=0.001
        Each row selects kernels at random, and likelier those of large weight. This is the least probability of a
        kernel: a number in (0, 1), or a function of the number of the row (1, 2, ...). None selects all kernels.
    selection_scope : {"update", "combination", "both"}, default="update"
        What is selected: the kernels that learn from the row, the kernels that predict it while learning, or both.
    normalize_step : bool, default=False
        Whether to divide steps by k(x, x), as the paper's proposition does. Its tables do not.
    budget : int or None, default=None
        Largest number of support vectors of each kernel (and class). When it is full, a new row replaces the row whose
        removal changes the function least, unless the learner has its own rule.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced" must see all labels first, so it works with `fit` only.
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
    classes_ : ndarray of shape (n_classes,)
        The labels.
    kernels_ : list
        The kernels in use.
    kernel_weights_ : ndarray of shape (n_kernels,) or (n_classes, n_kernels)
        Weights of the kernels.
    n_support_ : ndarray of shape (n_kernels,) or (n_classes, n_kernels)
        Number of support vectors of each kernel.
    support_vectors_ : ndarray or CSR matrix of shape (n_rows, n_columns)
        The stored rows, which all kernels share; those of a table as ``encoder_`` has encoded them. A CSR matrix if
        the rows are wide and came as sparse rows.
    dual_coef_ : ndarray of shape (n_rows, n_kernels) or (n_classes, n_rows, n_kernels)
        Coefficients of the stored rows.
    n_seen_ : int
        Number of rows that the model has learned from.
    mistakes_ : int
        Number of rows that were predicted wrongly, each before the model learned from it. A score of zero is a
        mistake.
    kernel_mistakes_ : ndarray of shape (n_kernels,) or (n_classes, n_kernels)
        Mistakes of each kernel alone.
    n_features_in_ : int
        Number of columns, of a table as well.
    encoder_ : TableEncoder or None
        What encodes the rows of a table; None if the model learned from a matrix.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from bomkl import BudgetMKLClassifier
    >>> X, y = make_moons(2000, noise=0.2, random_state=0)
    >>> model = BudgetMKLClassifier(random_state=0)
    >>> margins = model.score_and_learn(X, y)
    >>> round(model.mistakes_ / model.n_seen_, 2)
    0.06
    """

    _losses = CLASSIFICATION_LOSSES
    _default_combiner = Hedge(loss="hinge")
    _target = "class"

    def __init__(
        self,
        kernels: Any = "paper",
        learner: Learner | None = None,
        combiner: Combiner | None = None,
        combination: str = "score",
        selection_delta: float | Callable[[int], float] | None = 0.001,
        selection_scope: str = "update",
        normalize_step: bool = False,
        budget: int | None = None,
        class_weight: Any = None,
        dtype: str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
        types: dict[Any, str] | None = None,
    ) -> None:
        self.kernels = kernels
        self.learner = learner
        self.combiner = combiner
        self.combination = combination
        self.selection_delta = selection_delta
        self.selection_scope = selection_scope
        self.normalize_step = normalize_step
        self.budget = budget
        self.class_weight = class_weight
        self.dtype = dtype
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose
        self.types = types

    def learn_one(self, x: Any, y: Any) -> Any:
        """Learn from one row in microseconds, and return the margin that was predicted before.

        The model must know the classes, so call `partial_fit` with ``classes`` first.

        Parameters
        ----------
        x : array-like of shape (n_features,), dict or Series
            The row. A contiguous array of the model's precision is fastest; anything else is converted first. A dict or
            Series names the columns.
        y : label
            Its label.

        Returns
        -------
        margin : float or ndarray of shape (n_classes,)
            As `score_and_learn` returns it.
        """
        state = self.__dict__
        number = self._label_number(y, state)
        if number is not None and self.class_weight is None:
            margin = self._learn_one(x, number, state)
            if margin is not None:
                return margin
        return self.score_and_learn(self._whole_row(x), [y])[0]

    def predict_one(self, x: Any) -> Any:
        """Predict the label of one row, in microseconds.

        Parameters
        ----------
        x : array-like of shape (n_features,), dict or Series
            The row, as in `learn_one`.

        Returns
        -------
        label : label
            The likeliest class.
        """
        state = self.__dict__
        score = self._score_one_by(x, state)
        if score is None:
            return self.predict(self._whole_row(x))[0]
        return state["classes_"][int(score > 0) if isinstance(score, float) else score.argmax()]

    @property
    def mistakes_(self) -> int:
        """Number of rows that were predicted wrongly, each before the model learned from it."""
        return self._engine.mistakes

    @property
    def kernel_mistakes_(self) -> NDArray[np.int64]:
        """Number of rows that each kernel alone predicted wrongly, each before the model learned from it."""
        return self._per_kernel(self._engine.kernel_mistakes, np.int64)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice(type(self).__name__, "combination", self.combination, ("score", "vote"))

    def _check_restored_task(self, task: str, n_outputs: int) -> None:
        expected = ("binary", 1) if len(self.classes_) == 2 else ("multiclass", len(self.classes_))
        if (task, n_outputs) != expected:
            raise parameter_error("a stored model", "task", f"{expected} for its classes", (task, n_outputs))

    def _external(self, scores: Float) -> Float:
        return scores[:, 0] if scores.shape[1] == 1 else scores

    def _learn_all(self, X: Any, y: Any, sample_weight: Any, shuffle: bool) -> None:
        self._learn_rows(X, y, None, sample_weight, whole_set=True, shuffle=shuffle)

    def _learn_rows(
        self,
        X: Any,
        y: Any,
        classes: Any,
        sample_weight: Any,
        *,
        with_scores: bool = True,
        whole_set: bool = False,
        shuffle: bool = False,
    ) -> Float:
        # the engine scores each row before it learns from it, so scores come in any case
        X, first = self._check_call(X)
        y = checked_labels(y)
        check_as_many(X.shape[0], len(y), "labels")
        if first:
            self._set_classes(y, classes)
        elif classes is not None and not self._has_classes(classes):
            raise ValueError(
                f"classes={np.asarray(classes)} is not the same as in the first call: {self.classes_}. Pass the same "
                "classes, or none."
            )
        indices, n_classes = self._class_indices(y), len(self.classes_)
        weights = self._weights(X, y, indices, sample_weight, whole_set)
        task, n_outputs = ("binary", 1) if n_classes == 2 else ("multiclass", n_classes)
        return self._learn_targets(X, indices, weights, first, shuffle, task, n_outputs)

    def _label_number(self, y: Any, state: dict[str, Any]) -> int | None:
        """Place of a label among the classes; None where it has none, or cannot be looked up."""
        classes: Any = state.get("classes_")
        if classes is None:
            return None
        numbers: dict[Any, int]
        known, numbers = state.get("_numbers", (None, {}))
        if known is not classes:
            numbers = {label: i for i, label in enumerate(classes.tolist())}
            state["_numbers"] = (classes, numbers)
        try:
            return numbers.get(y)
        except TypeError:  # not hashable, so not a label
            return None

    def _set_classes(self, y: NDArray[Any], classes: Any) -> None:
        known = np.unique(y) if classes is None else checked_classes(classes)
        if len(known) < 2:
            raise ValueError(
                f"{type(self).__name__} needs at least two classes, but there is only one class: {known.tolist()}. "
                "Pass all labels that may come as classes= in the first call of partial_fit or score_and_learn."
            )
        self.classes_ = known

    def _has_classes(self, classes: Any) -> bool:
        if type(classes) is list and len(classes) < 100 and classes == self.classes_.tolist():
            return True  # without the time that NumPy takes to sort them
        return np.array_equal(checked_classes(classes), self.classes_)

    def _class_indices(self, y: NDArray[Any]) -> NDArray[np.intp]:
        try:
            indices = np.searchsorted(self.classes_, y)
            wrong = self.classes_[np.minimum(indices, len(self.classes_) - 1)] != y
        except TypeError:  # strings and numbers have no order
            wrong = np.ones(len(y), dtype=bool)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise ValueError(
                f"y holds a label that was never declared: {y.tolist()[row]!r} in row {row}. "
                f"Known classes: {self.classes_.tolist()}. Name all labels that may come as classes= in the first call."
            )
        return indices

    def _weights(self, X: Any, y: Any, indices: NDArray[np.intp], sample_weight: Any, whole_set: bool) -> Float | None:
        given = self.class_weight
        if given is None:
            return None if sample_weight is None else self._sample_weights(X, sample_weight)
        owner = type(self).__name__
        if not (isinstance(given, dict) or (isinstance(given, str) and given == "balanced")):
            raise parameter_error(owner, "class_weight", "None, 'balanced' or a dict", given)
        if given == "balanced" and not whole_set:
            raise ValueError(
                "class_weight='balanced' needs all labels beforehand and works with fit only. "
                "Pass a dict of weights instead."
            )
        if isinstance(given, dict):
            check_class_weights(owner, given)
        by_class: Float = compute_class_weight(given, classes=self.classes_, y=y)
        weights: Float = self._sample_weights(X, sample_weight) * by_class[indices]
        if (weights > LARGEST_WEIGHT).any():
            raise parameter_error(
                owner, "class_weight", f"at most {LARGEST_WEIGHT:g}, after multiplication with sample_weight", given
            )
        return weights
