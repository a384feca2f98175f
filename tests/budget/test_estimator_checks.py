"""scikit-learn's own checks, for every learner."""

import pytest
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

from bomkl import BudgetMKLClassifier, BudgetMKLRegressor
from bomkl.learners import BOGD, BPAS, PA, RBP, SPA, Forgetron, Perceptron, Projectron
from bomkl.paper import BestKernelPerceptron

REASON = (
    "An online learner meets a repeated row twice, the second time in the state the first left behind, and steps are "
    "not linear in the loss: a row of weight two is one larger step."
)
EXPECTED_FAILURES = {
    "check_sample_weight_equivalence_on_dense_data": REASON,
    "check_sample_weight_equivalence_on_sparse_data": REASON,
}
ESTIMATORS = [
    BudgetMKLClassifier(),
    BudgetMKLClassifier(learner=BPAS(), budget=50),
    BestKernelPerceptron(),
    BudgetMKLRegressor(),
]
OTHER_LEARNERS = [
    BudgetMKLClassifier(learner=SPA(), budget=50),
    BudgetMKLClassifier(learner=Perceptron()),
    BudgetMKLClassifier(learner=PA()),
    BudgetMKLClassifier(learner=RBP(), budget=50),
    BudgetMKLClassifier(learner=Forgetron(), budget=50),
    BudgetMKLClassifier(learner=BOGD(), budget=50),
    BudgetMKLClassifier(learner=Projectron()),
    BudgetMKLClassifier(learner=Projectron(margin_updates=True), budget=50),
    BudgetMKLRegressor(learner=PA()),
    BudgetMKLRegressor(learner=SPA(), budget=50),
    BudgetMKLRegressor(learner=BOGD(), budget=50),
    BudgetMKLRegressor(learner=BPAS(), budget=50),
]
pytestmark = pytest.mark.filterwarnings(f"ignore::{SkipTestWarning.__module__}.{SkipTestWarning.__name__}")


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(OTHER_LEARNERS, expected_failed_checks=lambda estimator: EXPECTED_FAILURES)
def test_scikit_learn_checks_of_other_learners(estimator, check):
    check(estimator)
