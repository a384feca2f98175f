"""`AutoMKLClassifier`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import compute_class_weight
from sklearn.utils.validation import check_is_fitted

from bomkl._change import as_of, change
from bomkl._drawn_rows import Drawn, drawn_order, row_numbers
from bomkl._labels import checked_classes, checked_labels
from bomkl._online import OnlineClassifier
from bomkl._repr import mistakes_text
from bomkl._row_order import note_order
from bomkl._validation import check_as_many, check_class_weights, parameter_error
from bomkl.auto.device import on_host
from bomkl.auto.estimator import AutoEstimator
from bomkl.auto.geometry import Float
from bomkl.auto.labels import alike, in_order, label_codes, pieces
from bomkl.auto.one_row import learn_in_one_step
from bomkl.auto.parallel import Mapper
from bomkl.auto.sum_engine import joined
from bomkl.auto.task import new_class_log_odds
from bomkl.progress import learning_bar


class AutoMKLClassifier(OnlineClassifier, AutoEstimator):
    """Budget online multiple kernel classification with nothing to tune.

    The model combines ten kernels on one bounded set of stored rows, linear models and trees. It learns each of them,
    and how to combine them, from every row. Scales and widths come from rows that it has already seen. The result does
    not depend on how you split the rows into calls.

    Parameters
    ----------
    budget : int, default=1000
        Largest number of stored rows. Memory, and the time for a row, grow with its square.
    drift : {None, "adapt"}, default=None
        "adapt" for a stream that changes over time. The model then follows the changes, and takes at least three times
        as long to learn.
    update : {"rows", "rounds"}, default="rows"
        When the model learns: after every row, or in rounds, which suit large tables. Rounds take less than half the
        time on one thread, use all threads of `n_jobs`, and can be split over machines (`bomkl.merge`, `bomkl.dask`).
        Predictions include every row given so far in both cases.
    trees : bool, default=True
        Whether to use trees beside the kernels: boosted trees and a forest, grown from a bounded sample of the stream.
        They lower the error if columns matter at thresholds, and take about a third of the time. There are no trees
        with ``update="rounds"`` or for more than 512 columns.
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
    nbytes_ : int
        Memory of the learned arrays, in bytes.
    n_features_in_ : int
        Number of columns, of a table as well.
    feature_importances_ : ndarray of shape (n_features_in_,)
        How much each column matters. The values sum to 1.
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
    _learned = (*AutoEstimator._learned, "_labels", "_declared", "_mistakes")

    def __init__(
        self,
        budget: int = 1000,
        drift: str | None = None,
        update: str = "rows",
        device: str = "cpu",
        trees: bool = True,
        class_weight: Any = None,
        types: dict[Any, str] | None = None,
        new_columns: str = "learn",
        missing: str = "learn",
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
        """Return the logarithms of the probabilities, also of those that are too small for a float.

        Parameters
        ----------
        X : array-like, table or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        log_probabilities : ndarray of shape (n_samples, n_classes)
            A column for each of ``classes_``.
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

    def _learn_row(self, row: Any, y: Any) -> float | Float | None:
        code = self._code_of(y)
        scores = None if code is None else learn_in_one_step(self, row, code)
        return None if scores is None else self._external_one(scores)

    def _code_of(self, y: Any) -> int | None:
        """Place of a label in the order of their coming; None where it is new or no label."""
        known = self._labels.tolist()
        return known.index(y) if isinstance(y, str | int | np.integer) and y in known else None

    @property
    def mistakes_(self) -> int:
        """Number of rows that were predicted wrongly, each before the model learned from it."""
        check_is_fitted(self)
        return self._mistakes

    def _shown_error(self) -> str:
        return mistakes_text(self.mistakes_, self.n_seen_)

    # ------------------------------------------------------------ labels

    def _external(self, scores: Float) -> Float:
        """Scores by the order in which labels came, put into the order of ``classes_``."""
        if scores.shape[1] > 1:
            out = np.empty_like(scores)
            out[:, np.searchsorted(self.classes_, self._labels)] = scores
            return out
        return self._sign() * scores[:, 0]

    def _external_one(self, scores: float | Float) -> Any:
        """Scores of one row likewise."""
        return self._sign() * scores if isinstance(scores, float) else self._external(scores[None])[0]

    def _sign(self) -> float:
        """Return -1 where, of two classes, the one that came first is ``classes_[1]``."""
        if len(self._labels) > 2:
            return 1.0
        if len(self._labels) == 2:
            return 1.0 if self._labels[0] == self.classes_[0] else -1.0
        return -1.0 if self._labels.dtype.kind in "biuf" and self._labels[0] > 0 else 1.0

    def _known_labels(self, y: NDArray[Any], given: NDArray[Any] | None, first: bool) -> tuple[NDArray[Any], bool]:
        """Labels in their order after these rows, and whether no more may come."""
        known = None if first else self._labels
        declared = not first and self._declared
        if given is not None:
            if known is not None and (len(np.setdiff1d(known, given)) or (declared and len(given) != len(known))):
                raise ValueError(
                    f"classes={given} is not the same as before: {self.classes_}. Pass the same classes, or none."
                )
            known = given if known is None else np.concatenate([known, np.setdiff1d(given, known)])
            declared = True
        if known is not None and len(y) and (known.dtype.kind in "biuf") != (y.dtype.kind in "biuf"):
            raise ValueError(
                f"y must hold labels of one type. Got {y.tolist()[0]!r} after labels such as {known.tolist()[0]!r}. "
                "Convert them first."
            )
        coming = in_order(y)
        new = coming if known is None else coming[~np.isin(coming, known)]
        if declared and len(new):
            assert known is not None
            row = int(np.flatnonzero(y == new[0])[0])
            raise ValueError(
                f"y holds a label that was never declared: {y.tolist()[row]!r} in row {row}. "
                f"Known classes: {np.sort(known).tolist()}. Name it in classes= of the first call, or leave classes= "
                "out: then new labels may come at any time."
            )
        return (new if known is None else np.concatenate([known, new])), declared

    def _class_weights(self, y: NDArray[Any], labels: NDArray[Any], whole_set: bool) -> Float | None:
        if self.class_weight is None:
            return None
        if isinstance(self.class_weight, dict):
            known: list[Any] = labels.tolist()
            if any(isinstance(key, str) != isinstance(label, str) for key in self.class_weight for label in known[:1]):
                rule = f"a dict whose keys are labels such as {known[0]!r}"
                raise parameter_error(type(self).__name__, "class_weight", rule, self.class_weight)
            weights = np.array([float(self.class_weight.get(label, 1.0)) for label in known])
            check_class_weights(type(self).__name__, self.class_weight, weights)
            return weights
        if not (isinstance(self.class_weight, str) and self.class_weight == "balanced"):
            raise parameter_error(type(self).__name__, "class_weight", "None, 'balanced' or a dict", self.class_weight)
        if not whole_set:
            raise ValueError(
                "class_weight='balanced' needs all labels beforehand and works with fit only. "
                "Pass a dict of weights instead."
            )
        return np.asarray(compute_class_weight("balanced", classes=labels, y=y), dtype=np.float64)

    def _check_saved(self) -> None:
        super()._check_saved()
        state = vars(self)
        labels, mistakes = state.get("_labels"), state.get("_mistakes")
        if not isinstance(labels, np.ndarray) or labels.ndim != 1 or labels.dtype.kind not in "biufUO":
            raise ValueError(f"'_labels' of the saved model must be an array of labels. Got {labels!r} instead.")
        if not 1 <= len(np.unique(labels)) == len(labels) <= self._learner_classes() or (
            self._learner_classes() > 2 and len(labels) != self._learner_classes()
        ):
            raise ValueError(f"'_labels' of the saved model must be its classes. Got {len(labels)} labels.")
        if not np.array_equal(np.asarray(state.get("classes_")), np.unique(labels)):
            raise ValueError("'classes_' of the saved model must be its labels in order.")
        if type(mistakes) is not int or not 0 <= mistakes <= self._learner.seen:
            raise ValueError(f"'_mistakes' of the saved model must be at most its rows. Got {mistakes!r} instead.")
        if type(state.get("_declared")) is not bool or self._learner.task.is_regression:
            raise ValueError("The saved model is not one of a classifier.")

    # ------------------------------------------------------------ learning

    def _learn_rows(
        self,
        X: Any,
        y: Any,
        classes: Any,
        sample_weight: Any,
        *,
        with_scores: bool,
        whole_set: bool = False,
        shuffle: bool | None = False,
    ) -> Float:
        first = not hasattr(self, "_learner")
        self._prepare(first)
        X = self._check_rows(X, first)
        y = checked_labels(on_host(y))
        check_as_many(X.shape[0], len(y), "labels")
        none = np.empty(0, dtype=y.dtype)
        declaring = none if classes is None else checked_classes(classes)
        before, given, y = alike([none if first else self._labels, declaring, y])
        if not first:
            self._labels: NDArray[Any] = before
        weight = self._check_weight(sample_weight, X)
        seed, all_labels = self._draw_seed() if first else 0, y
        shuffled = self._shuffles(shuffle)
        if shuffled:
            order = drawn_order(seed, weight)
            X, y, weight = Drawn(X, order), y[order], weight[order]
        counted = weight > 0
        labels, declared = self._known_labels(y[counted], None if classes is None else given, first)
        by_class = self._class_weights(all_labels, labels, whole_set)
        codes = label_codes(y, labels)
        if by_class is not None:
            weight = self._check_weight(np.where(counted, weight * by_class[np.maximum(codes, 0)], 0.0), X)
            counted = weight > 0
        if len(labels) == 0:
            raise ValueError(
                f"{type(self).__name__} cannot begin with rows whose sample weights are all zero. Begin with a row "
                "that has a weight."
            )
        if first:
            self._start(False, max(len(labels), 2) if declared else 2, seed)
            self._mistakes = 0
        if declared:  # labels declared only now
            for _ in range(self._learner_classes(), len(labels)):
                self._learner.add_class()
        self._labels, self._declared, self.classes_ = labels, declared, np.unique(labels)
        if not with_scores and not counted.all():
            X = Drawn(X, np.flatnonzero(counted))
            codes, weight, counted = codes[counted], weight[counted], counted[counted]
        if not shuffled and self.drift is None:
            note_order(self, codes[counted], labels=True)
        learned: list[tuple[Float, Float]] = []
        with learning_bar(len(codes), self.verbose) as parts:
            for rows, part in self._parts(X, counted):
                encoded, update = self._encoded(
                    part, codes[rows], counted[rows], row_numbers(X, rows), self._room(weight[rows])
                )
                learned += self._learn_part(encoded, codes[rows], weight[rows], counted[rows], rows.start, parts)
                self._take_over(update)
        return _joined(learned, max(len(labels), 2))

    def _learn_part(
        self,
        X: Any,
        codes: NDArray[np.intp],
        weight: Float,
        counted: NDArray[np.bool_],
        first: int,
        parts: Callable[[int, int], Iterable[slice]],
    ) -> list[tuple[Float, Float]]:
        """Learn from rows, the first of which has a number in its call; their columns stay what they are."""
        with self._working(len(codes)) as run:
            return [
                self._piece(X[part], codes[part], weight[part], kind, run)
                for begin, end, kind in pieces(codes, counted, self._learner_classes())
                for part in (slice(each.start - first, each.stop - first) for each in parts(begin + first, end + first))
            ]

    def _learner_classes(self) -> int:
        return max(self._learner.outputs, 2)

    def _piece(self, X: Any, codes: NDArray[np.intp], weight: Float, kind: str, run: Mapper) -> tuple[Float, Float]:
        """Scores of rows that are learned alike, and the log odds each gave to labels never seen."""
        start, learned = self._learner.seen, kind != "skip"
        few = len(self._labels) <= 2  # then nobody asks for them
        unseen = np.empty(0) if few else new_class_log_odds(start + np.arange(len(codes)) * learned)
        if kind == "learn":
            scores = self._learner.score_and_learn(X, codes.astype(np.float64), weight, run)
            self._mistakes += int(_mistaken(scores, codes).sum())
            return scores, unseen
        scores = self._learner.scores(X)
        if kind == "new":
            self._learner.add_class()
            self._learner.score_and_learn(X, codes.astype(np.float64), weight)
            self._mistakes += 1
        return scores, unseen


def _probabilities(margins: Float, n_classes: int) -> Float:
    """Probabilities of the classes from log odds or from the log probability of each."""
    if n_classes == 1:
        return np.ones((len(margins), 1))
    if margins.ndim == 1:
        return np.exp(-np.logaddexp(0, np.column_stack([margins, -margins])))
    relative = np.exp(margins)
    return np.asarray(relative / relative.sum(axis=1, keepdims=True))


def _mistaken(scores: Float, codes: NDArray[np.intp]) -> NDArray[np.bool_]:
    if scores.shape[1] == 1:
        return np.asarray(np.where(codes == 1, scores[:, 0] <= 0, scores[:, 0] >= 0))
    return np.asarray(scores.argmax(axis=1) != codes)


def _joined(pieces: list[tuple[Float, Float]], n_classes: int) -> Float:
    """Scores of all pieces on the labels known in the end."""
    if n_classes == 2:
        return joined((scores for scores, _ in pieces), 1)
    wide = []
    for scores, unseen in pieces:
        if scores.shape[1] == 1:
            scores = -np.logaddexp(0, np.hstack([scores, -scores]))
        missing = n_classes - scores.shape[1]
        wide.append(np.hstack([scores, np.repeat(unseen[:, None], missing, axis=1)]))
    return np.vstack(wide) if wide else np.empty((0, n_classes))
