"""`AutoMKLClassifier`."""

from __future__ import annotations

import warnings
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from bomkl._estimators.online import OnlineClassifier
from bomkl._support.change import as_of, change
from bomkl._support.repr import mistakes_text
from bomkl.auto.estimators.class_learning import ClassLearning
from bomkl.auto.features.geometry import Float


class AutoMKLClassifier(OnlineClassifier, ClassLearning):
    """Budget online multiple kernel classification with nothing to tune.

    The model combines ten kernels on one bounded set of stored rows, linear models and trees. It learns each of them,
    and how to combine them, from every row. Scales and widths come from rows that it has already seen. The result does
    not depend on how you split the rows into calls.

    Parameters
    ----------
    budget : int, default=1000
        Largest number of stored rows. Memory, and the time for a row, grow with its square.
    drift : {"auto", None, "adapt"}, default="auto"
        How to follow a stream that changes over time. "auto" adds small experts of the last rows, most of which sleep
        until there is evidence of drift. None never forgets. "adapt" learns with several models at once, and takes at
        least three times as long. Rows that `fit` shuffles have no order of time, so "auto" is None there; the experts
        begin with the first row that comes after `fit`. "auto" is also None with ``update="rounds"``, on a GPU, and for
        more than 512 columns.
    update : {"rows", "rounds"}, default="rows"
        When the model learns: after every row, or in rounds, which suit large tables. Rounds take less than half the
        time on one thread, use all threads of `n_jobs`, and can be split over machines (`bomkl.merge`, `bomkl.dask`).
        Predictions include every row given so far in both cases.
    trees : bool, default=True
        Whether to use trees beside the kernels: boosted trees and a forest, grown from a bounded sample of the stream.
        They lower the error if columns matter at thresholds, and take about a third of the time. With
        ``update="rounds"`` there are only those that come after 20,480 rows; there are none for more than 512 columns.
    class_weight : dict, "balanced" or None, default=None
        Weights of the classes. "balanced" must see all labels first, so it works with `fit` only.
    device : {"cpu", "cuda", "auto"}, default="cpu"
        Where the model learns: on the processor, or on a GPU through PyTorch (``pip install '.[gpu]'``). "auto"
        uses a GPU if there is one. The processor always keeps the trees, the first 256 rows, and rows of more than 512
        columns. The result is the same except for rounding, and you may change the device of a model at any time.
    types : dict of column to {"number", "boolean", "category", "date"} or None, default=None
        What columns of a table hold. For all other columns, the types of the table or their first values decide.
    new_columns : {"learn", "ignore", "refuse"}, default="learn"
        What to do with columns that were not in the first row of a table: learn from them, ignore them with a warning,
        or raise an error. Those that come after three quarters of `budget` rows cannot be learned and are ignored.
    missing : {"learn", "refuse"}, default="learn"
        What NaN in an array is: a missing value, filled in from the other columns and rows, or an error. In rows of
        more than 512 columns, a missing value counts as zero. Tables may always have missing values.
    memory : int, str or None, default=None
        Most memory for what is learned: bytes, or a string such as ``"256 MB"``. None: 256 MiB, or twice what the
        kernels need at most. It decides how many rows of a long stream are kept for the trees and the network that grow
        with it (see ``docs/auto.md``). The kernels need some megabytes, which grow with the square of `budget`; a limit
        below that only switches growth off.
    n_jobs : int or None, default=None
        Number of threads; -1 for all cores. The result does not depend on it.
    random_state : int, RandomState or None, default=None
        Source of all random numbers.
    verbose : int, default=0
        If above 0, show a progress bar on stderr while the model learns.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels that were seen or declared so far.
    kernels_ : list of PoolMember
        The pool: kernels, linear models and trees. Each has a ``name``, its ``kernel`` and the ``view`` of the
        columns that the kernel works on.
    kernel_weights_ : ndarray of shape (n_kernels,)
        Weight of each member of the pool in the combination. The weights sum to 1.
    component_errors_ : ndarray of shape (n_kernels,)
        Share of the rows that each member alone predicted wrongly, each before the model learned from it.
    support_vectors_ : ndarray of shape (n_rows, n_columns)
        Stored rows; those of a table as ``encoder_`` has encoded them.
    n_support_ : ndarray of shape (n_kernels,)
        Number of stored rows that each member uses as landmarks.
    n_seen_ : int
        Number of rows that the model has learned from.
    mistakes_ : int
        Number of rows that were predicted wrongly, each before the model learned from it. A score of zero is a
        mistake.
    drift_ : list of DriftEvent
        Changes of the stream that ``drift="auto"`` has noticed: when, how strong, and which experts took over.
    nbytes_ : int
        Memory of the learned arrays, in bytes.
    n_features_in_ : int
        Number of columns, of a table as well.
    feature_importances_ : ndarray of shape (n_features_in_,)
        How much each column matters: what shuffling it would add to the loss of rows not yet learned from, in shares
        of all columns.
    feature_importances_std_ : ndarray of shape (n_features_in_,)
        Standard error of each of them. A column within two of zero may be noise.
    feature_importances_per_class_ : ndarray of shape (n_classes, n_features_in_)
        The same for the rows of each class.
    encoder_ : TableEncoder or None
        What encodes the rows of a table; None if the model learned from a matrix.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from bomkl import AutoMKLClassifier
    >>> X, y = make_moons(2000, noise=0.2, random_state=0)
    >>> model = AutoMKLClassifier(budget=200, random_state=0)
    >>> margins = model.score_and_learn(X, y)
    >>> model.mistakes_ / model.n_seen_ < 0.05
    True
    """

    _target = "class"
    _learned = (*ClassLearning._learned, "_labels", "_declared", "_mistakes")

    def __init__(
        self,
        budget: int = 1000,
        drift: str | None = "auto",
        update: str = "rows",
        device: str = "cpu",
        trees: bool = True,
        class_weight: Any = None,
        types: dict[Any, str] | None = None,
        new_columns: str = "learn",
        missing: str = "learn",
        memory: int | str | None = None,
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.budget = budget
        self.drift = drift
        self.update = update
        self.device = device
        self.trees = trees
        self.class_weight = class_weight
        self.types = types
        self.new_columns = new_columns
        self.missing = missing
        self.memory = memory
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, shuffle: bool | None = None) -> Self:
        """Forget everything, then learn from the rows of a table once, in a random order.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Weights of the rows.
        shuffle : bool or None, default=None
            Whether to learn from the rows in a random order, which `random_state` decides. False is for rows in the
            order of time. None is True, but False with ``drift="adapt"``.

        Returns
        -------
        self : object
            The fitted estimator.
        """

        def learn(model: Self) -> None:
            model._learn_rows(X, y, None, sample_weight, with_scores=False, whole_set=True, shuffle=shuffle)
            if len(model.classes_) == 1:
                only = model.classes_.tolist()[0]
                message = f"y holds only one class, {only!r}: that is all it can predict until more come."
                warnings.warn(message, UserWarning, stacklevel=4)

        change(self, learn, anew=True)
        return self

    @property
    def feature_importances_per_class_(self) -> Float:
        """How much each column matters for the rows of each class; for every class they sum to 1.

        They are measured as `feature_importances_` is. They are NaN until rows were measured, with
        ``update="rounds"`` and with more than 32 classes.
        """
        now = self._now()
        check_is_fitted(now)
        shares, _ = now._measured_by_class()
        if shares is None or not len(shares):
            return np.broadcast_to(np.nan, (len(now.classes_), now.n_features_in_))
        found = np.full((len(now.classes_), now.n_features_in_), np.nan)
        found[np.searchsorted(now.classes_, now._labels[: len(shares)])] = shares[: len(now._labels)]
        return found

    def predict_proba(self, X: Any) -> Float:
        """Probabilities of the classes.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        probabilities : ndarray of shape (n_samples, n_classes)
            A column for each of ``classes_``.
        """
        now = self._now()
        margins = now.decision_function(X)
        return _probabilities(margins, len(now.classes_))

    def predict_log_proba(self, X: Any) -> Float:
        """Logarithms of the probabilities, also of those that are too small for a float.

        It takes and returns what `predict_proba` does.
        """
        now = self._now()
        margins = now.decision_function(X)
        if len(now.classes_) == 1:
            return np.zeros((len(margins), 1))
        if margins.ndim == 1:
            return np.asarray(-np.logaddexp(0, np.column_stack([margins, -margins])))
        return np.asarray(margins - np.logaddexp.reduce(margins, axis=1, keepdims=True))

    def learn_one(self, x: Any, y: Any) -> Any:
        """Learn from one row, and return the margin that was predicted before: `score_and_learn` for one row.

        Parameters
        ----------
        x : array-like of shape (n_features,), dict or Series
            The row. A dict or Series names the columns; the model must know these names.
        y : label
            Its label.

        Returns
        -------
        margin : float or ndarray of shape (n_classes,)
            As `score_and_learn` returns it.
        """
        margin = self._learn_one(x, y) if self.class_weight is None and hasattr(self, "_learner") else None
        return self.score_and_learn(self._whole_row(x), [y])[0] if margin is None else margin

    def predict_one(self, x: Any) -> Any:
        """Predict the label of one row.

        Parameters
        ----------
        x : array-like of shape (n_features,), dict or Series
            The row, as in `learn_one`.

        Returns
        -------
        label
            The likeliest class.
        """
        now = as_of(self, self.__dict__)  # labels and learner of one moment: another thread may call `fit`
        scores = now._score_one(x)
        if scores is None:
            return now.predict(now._whole_row(x))[0]
        margin, classes = now._external_one(scores), now.classes_
        if isinstance(margin, float):
            return classes[int(margin > 0 and len(classes) == 2)]
        return classes[int(margin.argmax())]

    def predict_proba_one(self, x: Any) -> Float:
        """Probabilities of the classes of one row.

        Parameters
        ----------
        x : array-like of shape (n_features,), dict or Series
            The row, as in `learn_one`.

        Returns
        -------
        probabilities : ndarray of shape (n_classes,)
            One for each of ``classes_``.
        """
        now = as_of(self, self.__dict__)
        scores = now._score_one(x)
        if scores is None:
            return np.asarray(now.predict_proba(now._whole_row(x))[0])
        return np.asarray(_probabilities(np.array([now._external_one(scores)]), len(now.classes_))[0])

    @property
    def mistakes_(self) -> int:
        """Number of rows that were predicted wrongly, each before the model learned from it."""
        check_is_fitted(self)
        return self._mistakes

    def _shown_error(self) -> str:
        return mistakes_text(self.mistakes_, self.n_seen_)


def _probabilities(margins: Float, n_classes: int) -> Float:
    """Probabilities of the classes from log odds or from the log probability of each."""
    if n_classes == 1:
        return np.ones((len(margins), 1))
    if margins.ndim == 1:
        return np.exp(-np.logaddexp(0, np.column_stack([margins, -margins])))
    relative = np.exp(margins)
    return np.asarray(relative / relative.sum(axis=1, keepdims=True))
