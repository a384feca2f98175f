"""scikit-learn's own checks."""

import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from bomkl import AutoMKLClassifier, AutoMKLRegressor

REASON = (
    "A row of weight two is one larger step, and takes one place among the stored rows and one round; the same row met "
    "twice takes two."
)
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": REASON,
    "check_sample_weight_equivalence_on_sparse_data": REASON,
}
ESTIMATORS = [AutoMKLClassifier(budget=20), AutoMKLRegressor(budget=20)]
OTHER_SETTINGS = [
    AutoMKLClassifier(budget=20, drift="adapt"),
    AutoMKLClassifier(budget=20, update="rounds"),
    AutoMKLRegressor(budget=20, loss="huber"),
]


pytestmark = [
    pytest.mark.filterwarnings("ignore:y holds only one class"),
    pytest.mark.filterwarnings("ignore:The first 20 rows, which fill the budget, all have the same label"),
    pytest.mark.filterwarnings(f"ignore::{SkipTestWarning.__module__}.{SkipTestWarning.__name__}"),
]


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(OTHER_SETTINGS, expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_checks_with_other_settings(estimator, check):
    check(estimator)
