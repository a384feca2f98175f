"""Classes, weights, probabilities and what can be read off a fitted classifier."""

import re

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.metrics import log_loss
from tests.models import layer

from bomkl import AutoMKLClassifier, modelfile
from bomkl._support.extras import install_hint
from bomkl.auto.components.combination import Combination
from bomkl.auto.components.pruning import best_few, components_to_drop
from bomkl.auto.features.pool_kernels import ADDITIVE, KERNELS, NARROW
from bomkl.auto.trees.trees import TREES

KERNEL_NAMES = tuple(choice.name for choice in KERNELS)


def moons(n=600, seed=0):
    X, y = make_moons(n, noise=0.2, random_state=seed)
    return X, y


def model(**settings):
    return AutoMKLClassifier(**{"budget": 80, "random_state": 0} | settings)


class TestLearning:
    def test_learns_what_a_linear_model_cannot(self):
        X, y = moons(2000)
        auto = model()
        margins = auto.score_and_learn(X, y)
        assert auto.mistakes_ == np.sum(np.where(y == 1, margins, -margins) <= 0)
        assert np.mean((margins > 0) != y) < 0.05
        errors = dict(zip(auto.kernels_, auto.component_errors_, strict=True))
        assert min(errors.values()) < errors["linear"] - 0.04

    def test_probabilities_are_calibrated(self):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(6000, 2))
        p = 1 / (1 + np.exp(-2 * X[:, 0] * X[:, 1]))
        y = rng.random(6000) < p
        auto = model(budget=150).fit(X[:4000], y[:4000])
        found = auto.predict_proba(X[4000:])
        assert_array_equal(found.sum(axis=1).round(12), 1)
        assert log_loss(y[4000:], found[:, 1]) < log_loss(y[4000:], p[4000:]) + 0.03
        edges = np.quantile(found[:, 1], np.linspace(0, 1, 6)[1:-1])
        groups = np.digitize(found[:, 1], edges)
        for group in range(5):
            rows = groups == group
            assert abs(found[rows, 1].mean() - y[4000:][rows].mean()) < 0.08

    def test_ten_classes(self):
        X, y = load_digits(return_X_y=True)
        auto = AutoMKLClassifier(budget=200, random_state=0)
        scores = auto.score_and_learn(X[:900], y[:900], classes=range(10))
        assert scores.shape == (900, 10)
        np.testing.assert_allclose(np.exp(scores[400:]).sum(axis=1), 1)
        assert np.mean(scores.argmax(axis=1)[400:] != y[400:900]) < 0.1
        assert auto.predict_proba(X[900:]).shape == (len(X) - 900, 10)
        assert auto.score(X[900:], y[900:]) > 0.88

    def test_memory_is_bounded_by_budget_and_columns(self):
        X, y = moons(3000)
        auto = model(budget=40)
        sizes = []
        for begin in range(0, 3000, 250):
            auto.partial_fit(X[begin : begin + 250], y[begin : begin + 250])
            sizes.append(layer(auto, "challenged").nbytes)
            assert len(auto.support_vectors_) <= 40
        assert max(sizes[1:]) < 1.05 * min(sizes[1:])  # the first call ends after pruning; later ones grow trees anew


class TestLabels:
    def test_order_of_coming_does_not_matter_to_the_sign(self):
        X, y = moons()
        first = np.argmax(y == 1)
        rows = np.r_[first, np.delete(np.arange(len(y)), first)]
        for labels in (np.array(["no", "yes"]), np.array([-1, 1]), np.array([3.0, 5.0])):
            auto = model().fit(X[rows], labels[y[rows]])
            assert_array_equal(auto.classes_, labels)
            assert np.mean((auto.decision_function(X) > 0) == y) > 0.9
            assert np.mean(auto.predict(X) == labels[y]) > 0.9

    def test_margins_from_the_first_row_and_with_one_class_only(self):
        X, y = moons()
        for labels in ([0, 1], [-1, 1]):
            target = np.array(labels)[y]
            whole = model().score_and_learn(X, target)
            alone = model()
            assert_array_equal(
                [alone.score_and_learn(X[t : t + 1], target[t : t + 1])[0] for t in range(30)], whole[:30]
            )
        auto = model()
        margins = auto.score_and_learn(X[y == 1][:50], np.ones(50, dtype=int))
        assert margins[-1] > 2
        assert_array_equal(auto.classes_, [1])
        assert_array_equal(auto.predict(X[:3]), [1, 1, 1])
        assert auto.predict_proba(X[:3]).shape == (3, 1)

    def test_classes_that_come_later_are_added(self):
        X, y = load_digits(return_X_y=True)
        order = np.argsort(np.where(y < 3, 0, y), kind="stable")
        auto = model(budget=100)
        auto.partial_fit(X[order][:300], y[order][:300])
        assert_array_equal(auto.classes_, [0, 1, 2])
        scores = auto.score_and_learn(X[order][500:1000], y[order][500:1000])
        assert scores.shape == (500, len(auto.classes_))
        assert np.isfinite(scores).all()
        assert len(auto.classes_) > 3

    def test_declared_classes_are_all_there_are(self):
        X, y = moons()
        auto = model().partial_fit(X, y, classes=[0, 1, 2])
        assert auto.decision_function(X).shape == (600, 3)
        with pytest.raises(ValueError, match=r"never declared: .*7.* Known classes: \[0, 1, 2\]"):
            auto.partial_fit(X, np.where(y == 1, 7, 0))
        with pytest.raises(ValueError, match="not the same as before"):
            auto.partial_fit(X, y, classes=[0, 1])

    def test_more_classes_may_be_declared_later(self):
        X, y = moons()
        auto = model().partial_fit(X, y).partial_fit(X[:5], y[:5], classes=[0, 1, 2])
        assert auto.predict_proba(X).shape == (600, 3)
        assert np.mean(auto.predict(X) == y) > 0.9

    def test_large_labels_of_mixed_integer_types_stay_apart(self):
        big, rows, half = 2**53, np.arange(40.0)[:, None], np.arange(40) % 2
        model = AutoMKLClassifier(10, random_state=0).partial_fit(rows, (big + half).astype(np.int64))
        model.partial_fit(rows, (big + 2 * half).astype(np.uint64))
        assert model.classes_.tolist() == [big, big + 1, big + 2]
        assert model.classes_.dtype == np.int64
        with pytest.raises(ValueError, match="floating-point numbers"):
            model.partial_fit(rows, half + 0.0)
        model.partial_fit(rows, np.full(40, 2**63, dtype=np.uint64))
        assert model.classes_.tolist() == [big, big + 1, big + 2, 2**63]
        with pytest.raises(ValueError, match="one type of integers"):
            model.partial_fit(rows, -half)
        assert model.classes_.tolist() == [big, big + 1, big + 2, 2**63]


class TestWeights:
    @pytest.mark.parametrize("drift", [None, "adapt"])
    def test_rows_of_weight_zero_are_as_good_as_absent(self, drift):
        X, y = moons()
        weight = np.tile([1.0, 0.0, 2.0], 200)
        y = np.where((weight == 0) & (np.arange(600) > 500), 9, y)  # nor do their labels count
        kept = weight > 0
        one, other, third = (model(drift=drift) for _ in range(3))
        margins = one.score_and_learn(X, y, sample_weight=weight)
        assert_array_equal(margins[kept], other.score_and_learn(X[kept], y[kept], sample_weight=weight[kept]))
        third.partial_fit(X, y, sample_weight=weight)
        assert_array_equal(one.decision_function(X), other.decision_function(X))
        assert_array_equal(one.decision_function(X), third.decision_function(X))
        assert one.n_seen_ == third.n_seen_ == 400
        assert np.isfinite(margins).all()

    def test_class_weight_is_sample_weight_by_class(self):
        X, y = moons()
        one = model(class_weight={0: 1.0, 1: 3.0}).fit(X, y)
        other = model().fit(X, y, sample_weight=np.where(y > 0, 3.0, 1.0))
        assert_array_equal(one.decision_function(X), other.decision_function(X))
        rare = (y == 1) & (np.arange(600) % 5 > 0)
        balanced = model(class_weight="balanced").fit(X[~rare], y[~rare])
        assert balanced.predict(X).mean() > model().fit(X[~rare], y[~rare]).predict(X).mean()
        with pytest.raises(ValueError, match=r"balanced.* works with fit only"):
            model(class_weight="balanced").partial_fit(X, y)

    def test_heavier_rows_pull_harder(self):
        X, y = moons()
        plain, heavy = model().fit(X, y), model().fit(X, y, sample_weight=np.where(y == 1, 20.0, 1.0))
        assert heavy.decision_function(X).mean() > plain.decision_function(X).mean() + 0.5


class TestInsight:
    def test_attributes(self):
        X, y = moons()
        auto = model().fit(X, y, shuffle=False)
        assert auto.n_features_in_ == 2
        assert auto.n_seen_ == 600
        assert len(auto.kernels_) == len(auto.kernel_weights_) == len(auto.component_errors_) == len(auto.n_support_)
        assert auto.kernel_weights_.sum() == pytest.approx(1)
        assert (auto.kernel_weights_ >= 0).all()
        living = {each.name for each in auto._learner.leader.components}
        kept = ["linear", *(name for name in (ADDITIVE, *TREES) if name in living)]
        assert np.count_nonzero(auto.n_support_) == (4 if living & set(TREES) else 5)  # after pruning
        assert_array_equal(auto.kernel_weights_ > 0, (auto.n_support_ > 0) | np.isin(auto.kernels_, kept))
        assert len(auto.support_vectors_) <= 80
        assert {tuple(row) for row in auto.support_vectors_} <= {tuple(row) for row in X[:80]}

    @pytest.mark.parametrize("columns", [2, 600])
    def test_kernels_are_those_that_are_computed(self, columns):
        X, y = moons()
        auto = model().fit(np.pad(X, ((0, 0), (0, columns - 2))), y)
        learner = auto._leader if columns == 2 else auto._leader.kernels
        members = {str(member): member for member in auto.kernels_}
        assert list(members) == auto._leader.names
        kernels = [each for each in learner.components if getattr(each, "support", None) is not None]
        assert kernels
        for component in kernels:
            features, member = component.features, members[component.name]
            rows = features.landmark_rows().astype(np.float64)
            assert member.view == features.geometry
            assert_allclose(member.kernel(rows, rows), features.values({member.view: rows}), rtol=1e-9, atol=1e-9)
        dropped = set(members) - {each.name for each in learner.components}
        assert all(members[name].kernel is None for name in dropped if not name.startswith("wide"))

    def test_beside_trees_at_most_two_kernels_with_half_of_the_budget_go_on(self):
        X, y = moons()
        learner = model().fit(X, y)._learner.leader
        living = {each.name for each in learner.components}
        assert living & set(TREES)
        kernels = [i for i, name in enumerate(learner.names) if name in KERNEL_NAMES]
        orders = (
            [*kernels[2:], *kernels[:2]],
            kernels[::-1],
            sorted(kernels, key=lambda i: learner.names[i] not in NARROW),
        )
        learner.components = model().partial_fit(X[:100], y[:100])._learner.leader.components  # before pruning
        for order in orders:
            kept = [learner.components[i].name for i in best_few(learner.components, order)]
            assert len(kept) == 4
            assert len(set(kept) & set(NARROW)) <= 2
            first = [learner.components[i].name for i in order]
            assert kept[0] == first[0]
            assert kept == [name for name in first if name in kept]

    @pytest.mark.parametrize("trees", [True, False])
    def test_kernels_of_least_loss_and_trees_that_matter_go_on(self, trees):
        X, y = moons()
        components = model(trees=trees).partial_fit(X[:100], y[:100])._learner.leader.components  # before pruning
        combination = Combination.of(len(components))
        kernels = [i for i, each in enumerate(components) if each.name in KERNEL_NAMES]
        best = [i for i in kernels if components[i].name not in NARROW][: 4 if trees else 5]
        combination.loss_sum[:] = 2.0
        combination.loss_sum[best] = 1.0
        dropped = set(components_to_drop(components, combination, combination.loss_sum))
        assert dropped == set(kernels) - set(best)
        others = [i for i, each in enumerate(components) if each.name in (*TREES, ADDITIVE)]
        combination.weights[others] = 0.0
        combination.stack_w[:, others] = 0.0
        assert set(components_to_drop(components, combination, combination.loss_sum)) >= set(others)

    @pytest.mark.parametrize(("columns", "has_squares"), [(100, True), (101, False)])
    def test_squares_are_for_few_columns(self, columns, has_squares):
        X, y = moons()
        auto = model().fit(np.pad(X[:60], ((0, 0), (0, columns - 2))), y[:60])
        assert (ADDITIVE in auto.kernels_) == has_squares

    def test_each_column_has_a_curve_in_the_additive_component(self):
        X = np.random.default_rng(0).normal(size=(400, 2))
        y = X[:, 0] ** 2 < 0.5
        auto = AutoMKLClassifier(50, trees=False, random_state=0).fit(X, y)
        errors = dict(zip(map(str, auto.kernels_), auto.component_errors_, strict=True))
        assert errors[ADDITIVE] < errors["linear"] / 3

    def test_a_member_of_the_pool_is_found_by_its_name(self):
        X, y = moons()
        members = model().fit(X, y).kernels_
        assert members.index("linear") == [str(member) for member in members].index("linear")
        assert dict(zip(members, range(len(members)), strict=True))["linear"] == members.index("linear")
        assert members == model().fit(X[:300], y[:300]).kernels_
        assert members[0] != members[1]
        assert members[0] != 3

    @pytest.mark.parametrize("rows", [5, 50, 600])
    def test_explain_adds_up(self, rows):
        X, y = moons()
        auto = model().fit(X[:rows], y[:rows])
        explanation = auto.explain(X[7])
        assert explanation.margin == pytest.approx(auto.decision_function(X[7:8])[0])
        parts = sum(explanation.kernels.values())
        assert explanation.margin == pytest.approx(parts + explanation.remainder)
        assert len(explanation.rows) == len(auto.support_vectors_)
        others = sum(explanation.kernels.get(name, 0.0) for name in ("linear", ADDITIVE, *TREES))
        assert explanation.rows.sum() == pytest.approx(parts - others)

    def test_explain_of_several_classes_is_that_of_the_likeliest(self):
        X, y = load_digits(return_X_y=True)
        explanation = model().fit(X[:400], y[:400]).explain(X[401])
        assert explanation.margin > 0
        assert np.isfinite(explanation.rows).all()

    def test_plot_weights(self):
        matplotlib = pytest.importorskip("matplotlib")
        matplotlib.use("Agg")
        from matplotlib.figure import Figure

        X, y = moons()
        auto = model().fit(X, y)
        ax = Figure().subplots()
        figure = auto.plot_weights(ax)
        assert [text.get_text() for text in figure.axes[0].get_yticklabels()] == list(map(str, auto.kernels_))

    def test_plot_weights_names_what_to_install(self, monkeypatch):
        import sys

        X, y = moons()
        auto = model().fit(X, y)
        monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
        with pytest.raises(ImportError, match=re.escape(install_hint("plots"))):
            auto.plot_weights()


class TestEstimator:
    def test_data_frames(self):
        X, y = moons()
        frame = pd.DataFrame(X, columns=["left", "right"])
        auto = model().fit(frame, np.where(y > 0, "yes", "no"))
        assert list(auto.feature_names_in_) == ["left", "right"]
        assert_array_equal(auto.predict(frame) == "yes", model().fit(X, y).predict(X) == 1)
        assert auto.explain(frame[:1]).margin == pytest.approx(auto.decision_function(frame[:1])[0])

    def test_explains_a_series_by_its_names(self):
        X, y = moons()
        frame = pd.DataFrame(X, columns=["left", "right"]).assign(side=np.where(X[:, 0] > 0, "east", "west"))
        for columns in (["left", "right"], ["left", "right", "side"]):
            auto = model().fit(frame[columns], y)
            expected = auto.explain(frame[columns][:1])
            for row in (frame[columns].iloc[0], frame[columns[::-1]].iloc[0]):
                assert auto.explain(row).margin == expected.margin

    def test_explains_a_row_with_lists_as_it_was_learned(self):
        X, y = moons()
        auto = model()
        for x, label in zip(X[:40], y[:40], strict=True):
            auto.learn_one({"sizes": x.tolist()}, label)
        expected = auto.explain([{"sizes": [1.0, 0.5]}])
        assert list(expected.columns) == ["sizes.0", "sizes.1"]
        assert auto.explain({"sizes": [1.0, 0.5]}).columns == expected.columns
        assert auto.explain({"sizes.0": [1.0], "sizes.1": [0.5]}).columns == expected.columns

    @pytest.mark.parametrize("name", ["feature_importances_", "feature_importances_std_"])
    def test_importances_need_a_fitted_model(self, name):
        with pytest.raises(NotFittedError):
            getattr(model(), name)

    def test_fit_forgets(self):
        X, y = moons()
        auto = model().fit(X[:, ::-1], 1 - y).fit(X, y)
        assert_array_equal(auto.decision_function(X), model().fit(X, y).decision_function(X))
        assert_array_equal(clone(auto).fit(X, y).decision_function(X), auto.decision_function(X))

    def test_changed_settings_are_refused(self):
        X, y = moons()
        auto = model().partial_fit(X, y)
        with pytest.raises(ValueError, match=r"'budget' parameter of AutoMKLClassifier was changed from 80 to 90"):
            auto.set_params(budget=90).partial_fit(X, y)

    @pytest.mark.parametrize("drift", [None, "adapt"])
    @pytest.mark.parametrize("rows", [5, 70, 333])
    def test_model_files(self, tmp_path, drift, rows):
        X, y = moons()
        auto = model(drift=drift).partial_fit(X[:rows], np.array(["a", "b"])[y[:rows]])
        modelfile.save(auto, tmp_path / "auto.bomkl")
        loaded = modelfile.load(tmp_path / "auto.bomkl")
        for each in (auto, loaded):
            each.partial_fit(X[rows:], np.array(["a", "b"])[y[rows:]])
        assert_array_equal(auto.decision_function(X), loaded.decision_function(X))
        assert auto.mistakes_ == loaded.mistakes_


def test_classes_that_come_late_have_no_lasting_cost():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1600, 3))
    y = 2 * (X[:, 0] > 0) + (X[:, 1] > 0)
    late = np.flatnonzero(y >= 2)
    order = np.concatenate([np.flatnonzero(y < 2)[:300], rng.permutation(np.append(np.flatnonzero(y < 2)[300:], late))])
    X, y = X[order], y[order]  # classes 2 and 3 come from row 300 on
    errors = []
    for classes in (None, range(4)):
        model = AutoMKLClassifier(60, random_state=0, trees=False)
        scores = model.score_and_learn(X, y, classes=classes)
        errors.append(np.mean((scores.argmax(axis=1) != y)[800:]))
    assert errors[0] < errors[1] + 0.01


@pytest.mark.parametrize("rows", [1, 16])
def test_rows_that_need_no_look_are_learned_from_as_others_are(rows: int) -> None:
    X = np.random.default_rng(0).normal(size=(120, 3))
    y = (X[:, 0] * X[:, 1] > 0).astype(np.int64)
    plain, other = (AutoMKLClassifier(budget=20, random_state=0).partial_fit(X[:20], y[:20]) for _ in range(2))
    for begin in range(20, len(y), rows):
        part = slice(begin, begin + rows)
        margins = plain.score_and_learn(X[part], y[part])
        assert_array_equal(margins, other.score_and_learn(X[part], y[part].tolist()))
    assert plain.mistakes_ == other.mistakes_ > 0
    assert vars(plain)["_order"] == vars(other)["_order"]
    assert_array_equal(plain.decision_function(X), other.decision_function(X.tolist()))


def test_labels_of_a_library_that_does_not_say_where_they_are():
    class Labels(list):
        def __dlpack_device__(self):  # as arrays of strings in some versions of Arrow
            raise TypeError("DataType is not compatible with DLPack spec: string")

    X = np.arange(20.0)[:, None]
    y = ["low"] * 10 + ["high"] * 10
    model = AutoMKLClassifier(random_state=0).fit(X, Labels(y))
    assert_array_equal(model.predict(X), AutoMKLClassifier(random_state=0).fit(X, y).predict(X))
