"""The exported model and the original are compared before the export is handed out."""

from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import is_classifier

if TYPE_CHECKING:
    from onnx import ModelProto

_STORED, _BETWEEN = 64, 192  # stored rows to compare on, and rows on lines through two of them
_MARGIN = 1.5  # rows that are not compared can differ by somewhat more
_ROUNDING = 1e-12  # of scores in double precision, where they hardly differ from row to row


def check_agreement(model: ModelProto, estimator: Any, tolerance: float) -> None:
    """Refuse an export that differs from its estimator by more than a share of the spread of the scores.

    Single precision, in which Auto models keep their features, can leave too few digits of scores that are small
    differences of large terms. No export can repeat what is left of these.
    """
    from onnx.reference import ReferenceEvaluator

    rows, stored = _rows(estimator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a model that learned from a data frame gets rows without names
        classifier = is_classifier(estimator)
        scores = estimator.decision_function(rows) if classifier else estimator.predict(rows)
        made: Any = ReferenceEvaluator(model).run(["margins" if classifier else "prediction"], {"X": rows})
    (exported,) = made
    if getattr(estimator, "combination", "score") == "vote":
        clear = _clear_votes(estimator, rows, tolerance)
        exported, scores, stored = exported[clear], scores[clear], int(clear[:stored].sum())
    for n in (stored, len(scores)):  # between an outlier and others, scores can have a spread that hides any difference
        if n:
            _check_part(exported[:n], scores[:n], tolerance)


def _check_part(exported: NDArray[Any], scores: NDArray[Any], tolerance: float) -> None:
    difference, largest = float(np.abs(exported - scores).max()), float(np.abs(scores).max())
    # Other rows can have scores that lie closer together than the largest and least of these
    spread = 2 * largest * float(np.std(scores / largest)) if largest else 0.0
    if not _MARGIN * difference <= tolerance * spread + _ROUNDING * largest:
        share = _MARGIN * difference / spread if spread else np.inf
        enough = f"to_onnx(estimator, tolerance={_upwards(share):g})" if share < 1 else "no tolerance that makes sense"
        raise ValueError(
            f"The ONNX model would differ from the estimator by {difference:.1g} on rows like those it has stored, "
            f"more than tolerance={tolerance:g} times the spread of the scores, {spread:.1g}: in the precision of the "
            f"estimator its scores have fewer digits than that. They can be exported with {enough}. A Budget model has "
            'more digits with dtype="float64", an Auto model if outliers are limited before it learns from them.'
        )


def _upwards(share: float) -> float:
    """Round up to one digit.

    Examples
    --------
    >>> _upwards(2.1e-5)
    3e-05
    """
    exponent = math.floor(math.log10(share))
    return float(f"{math.ceil(share / 10.0**exponent)}e{exponent}")


def _clear_votes(estimator: Any, rows: NDArray[Any], tolerance: float) -> NDArray[np.bool_]:
    """Rows on which no kernel has a score so close to zero that rounding decides its vote."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        each = np.abs(estimator._scores(rows, per_kernel=True))
    clear = (each > tolerance * each.max(axis=0)) | (each == 0)
    return np.asarray(clear.reshape(len(rows), -1).all(axis=1))


def _rows(estimator: Any) -> tuple[NDArray[Any], int]:
    """Take stored rows with the most extreme ones, and rows on lines through two; random ones if none are stored.

    Also tells how many of them, the first ones, are stored.
    """
    stored = estimator.support_vectors_
    stored = stored if isinstance(stored, np.ndarray) else stored.toarray()
    rng = np.random.default_rng(0)
    if not len(stored):
        sizes = 10 ** rng.uniform(-2, 6, size=(_STORED, 1))
        return np.asarray(rng.normal(size=(_STORED, estimator.n_features_in_)) * sizes, dtype=stored.dtype), 0
    extreme = np.argsort(-np.abs(stored).max(axis=1))[: _STORED // 4]
    chosen = stored[np.append(extreme, rng.permutation(len(stored))[: _STORED - len(extreme)])]
    one, other = (stored[rng.integers(len(stored), size=_BETWEEN)] for _ in range(2))
    share = rng.uniform(-1, 2, size=(_BETWEEN, 1))
    return np.vstack([chosen, (one * share + other * (1 - share)).astype(stored.dtype)]), len(chosen)
