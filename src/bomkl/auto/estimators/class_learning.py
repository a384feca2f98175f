"""How a classifier learns: labels as class numbers in the order of their coming, and rows of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import compute_class_weight

from bomkl._estimators.labels import checked_classes, checked_labels
from bomkl._support.drawn_rows import Drawn, drawn_order
from bomkl._support.row_order import note_order
from bomkl._support.validation import check_as_many, check_class_weights, parameter_error
from bomkl.auto.build import with_another_class
from bomkl.auto.device import on_host
from bomkl.auto.estimators.estimator import AutoEstimator
from bomkl.auto.estimators.labels import alike, are_plain, in_order, label_codes
from bomkl.auto.features.geometry import Float
from bomkl.auto.learner import Learner
from bomkl.auto.parallel import Mapper
from bomkl.auto.rounds.engine import joined
from bomkl.auto.rows.arrays import scores_of_one
from bomkl.auto.task import new_class_log_odds


class ClassLearning(AutoEstimator):
    """The part of a classifier that knows its labels and learns from rows."""

    _labels: NDArray[Any]
    _declared: bool
    _mistakes: int
    classes_: NDArray[Any]

    # ------------------------------------------------------------ labels

    def _external(self, scores: Float) -> Float:
        """Scores by the order in which labels came, put into the order of ``classes_``."""
        if scores.shape[1] > 1:
            out = np.empty_like(scores)
            out[:, np.searchsorted(self.classes_, self._labels)] = scores
            return out
        return self._sign() * scores[:, 0]

    def _external_one(self, scores: float | Float) -> Any:
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
        if given is None and known is not None and known.dtype == y.dtype and (label_codes(y, known) >= 0).all():
            return known, declared
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
        y = y[np.isin(y, labels)]  # rows of weight zero may have others
        if isinstance(self.class_weight, dict):
            known: list[Any] = labels.tolist()
            if any(isinstance(key, str) != isinstance(label, str) for key in self.class_weight for label in known[:1]):
                rule = f"a dict whose keys are labels such as {known[0]!r}"
                raise parameter_error(type(self).__name__, "class_weight", rule, self.class_weight)
            check_class_weights(type(self).__name__, self.class_weight)
            if whole_set:  # all labels are there: a class that is none of them may be a slip
                compute_class_weight(self.class_weight, classes=labels, y=y)
            return np.array([float(self.class_weight.get(label, 1.0)) for label in known])
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

    # ------------------------------------------------------------ one row

    def _row_target(self, y: Any) -> float | None:
        """Place of a label in the order of their coming; None where it is new or no label."""
        known = self._labels.tolist()
        plain = isinstance(y, str | int | np.integer) or (isinstance(y, float) and self._labels.dtype.kind == "f")
        return known.index(y) if plain and y in known else None

    def _single_target(self, y: NDArray[Any]) -> float | None:
        plain = self.class_weight is None and are_plain(y, self._labels)
        return self._row_target(y.item()) if plain else None

    def _after_row(self, row: Any, y: float, learner: Learner, scores: Float) -> dict[str, Any]:
        after = super()._after_row(row, y, learner, scores)
        after["_mistakes"] = self._mistakes + _is_mistake(scores_of_one(scores[0]), y)
        return after

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
        if classes is None and sample_weight is None and (plain := self._codes_of_plain(X, y)) is not None:
            return self._learn_plain(X, plain)
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
        y = label_codes(y, labels)  # a shuffled copy of the labels is freed
        if by_class is not None:
            weight = self._check_weight(np.where(counted, weight * by_class[np.maximum(y, 0)], 0.0), X)
        if len(labels) == 0:
            raise ValueError(
                f"{type(self).__name__} cannot begin with rows whose sample weights are all zero. Begin with a row "
                "that has a weight."
            )
        if first:
            self._start(False, max(len(labels), 2) if declared else 2, seed)
            if not shuffled:
                self._follow_drift()
            self._mistakes = 0
        if declared:  # labels declared only now
            for _ in range(self._learner_classes(), len(labels)):
                self._add_class()
        self._labels, self._declared, self.classes_ = labels, declared, np.unique(labels)
        learned = self._learn_in_parts(X, y, weight, with_scores=with_scores, shuffled=shuffled)
        return _joined(learned, max(len(labels), 2))

    def _codes_of_plain(self, X: Any, y: Any) -> NDArray[np.intp] | None:
        """Codes of labels where nothing has to be found out about the rows; otherwise None."""
        if self.verbose or self.class_weight is not None or not self._is_plain(X):
            return None
        if type(y) is not np.ndarray or y.shape != X.shape[:1] or not are_plain(y, self._labels):
            return None
        codes = label_codes(y, self._labels)
        return None if codes.min() < 0 else codes

    def _learn_plain(self, X: Float, codes: NDArray[np.intp]) -> Float:
        if self.drift != "adapt":
            note_order(self, codes, labels=True)
        with self._working(len(codes)) as run:
            return self._piece(X, codes, np.ones(len(codes)), "learn", run)[0]

    def _add_class(self) -> None:
        choices = self._choices(self.drift, self.update, self._learner.n_classes)
        self._learner = with_another_class(choices, self._learner)

    def _piece(self, X: Any, y: NDArray[np.intp], weight: Float, kind: str, run: Mapper) -> tuple[Float, Float]:
        """Scores of rows that are learned alike, and the log odds each gave to labels never seen."""
        start, learned = self._learner.seen, kind != "skip"
        few = len(self._labels) <= 2  # then nobody asks for them
        unseen = np.empty(0) if few else new_class_log_odds(start + np.arange(len(y)) * learned)
        if kind == "learn":
            scores = self._score_and_learn(X, y.astype(np.float64), weight, run)
            self._mistakes += int(mistaken(scores, y).sum())
            return scores, unseen
        scores = self._learner.scores(X)
        if kind == "new":
            self._add_class()
            self._score_and_learn(X, y.astype(np.float64), weight)
            self._mistakes += 1
        return scores, unseen


def mistaken(scores: Float, codes: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows are predicted wrongly, by their scores and class numbers."""
    if scores.shape[1] == 1:
        return np.asarray(np.where(codes == 1, scores[:, 0] <= 0, scores[:, 0] >= 0))
    return np.asarray(scores.argmax(axis=1) != codes)


def _is_mistake(scores: float | Float, code: float) -> bool:
    if isinstance(scores, float):
        return (scores if code == 1 else -scores) <= 0
    return bool(scores.argmax() != code)


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
