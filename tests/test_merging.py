"""Merging models."""

import copy
import pickle
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_classification, make_friedman1
from threadpoolctl import threadpool_limits

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier, BudgetMKLRegressor, merge, modelfile
from bomkl.auto.components.information import Information
from bomkl.learners import RBP, SPA, Projectron
from bomkl.merging import _sum
from bomkl.partitions import Job, PartitionError, drawn_rows, piece_sums, summary

X, Y = make_classification(2400, 8, n_informative=5, n_classes=3, n_clusters_per_class=2, random_state=0)
B = 40


def parts_of(head, X, y, cuts, start):
    places = [start, *cuts, len(y)]
    return [copy.deepcopy(head).partial_fit(X[a:b], y[a:b]) for a, b in pairwise(places)]


class TestAuto:
    def test_the_threads_of_blas_change_no_bit(self):
        rng = np.random.default_rng(0)
        rank, width = 1001, 1024

        def information():
            rows = rng.normal(size=(rank, rank))
            w = np.zeros((3, width))
            w[:, :rank] = rng.normal(size=(3, rank))
            return Information(w, rows @ rows.T + rank * np.eye(rank))

        parts, start = [information(), information()], Information(np.zeros((3, width)), np.eye(rank))
        merged = []
        for threads in (1, 2):
            with threadpool_limits(threads, user_api="blas"):
                merged.append(_sum(parts, start).w)
        assert_array_equal(*merged)

    def test_squared_loss_is_exact(self):
        X, y = make_friedman1(3000, n_features=8, noise=1.0, random_state=0)
        head = AutoMKLRegressor(B, update="rounds", random_state=0).fit(X[:500], y[:500])
        merged = merge(parts_of(head, X, y, [700, 1800], 500))
        one = copy.deepcopy(head).partial_fit(X[500:], y[500:])
        assert merged.n_seen_ == one.n_seen_ == 3000
        for a, b in zip(merged._leader.components, one._leader.components, strict=True):
            assert_allclose(a.regression.w, b.regression.w, atol=1e-4 * np.abs(b.regression.w).max())
        assert abs(merged.score(X, y) - one.score(X, y)) < 0.01

    @pytest.mark.parametrize("classes", [2, 3])
    def test_accuracy_is_that_of_one_model(self, classes):
        y = Y % classes
        head = AutoMKLClassifier(B, update="rounds", random_state=0).fit(X[:200], y[:200])
        one = copy.deepcopy(head).partial_fit(X[200:2000], y[200:2000])
        merged = merge(parts_of(head, X[:2000], y[:2000], range(400, 2000, 200), 200))
        assert abs(merged.score(X[2000:], y[2000:]) - one.score(X[2000:], y[2000:])) < 0.04
        assert merged.n_seen_ == 2000
        assert 0.8 * one.mistakes_ < merged.mistakes_ < 1.5 * one.mistakes_

    def test_order_models_that_learned_nothing_and_pickles_do_not_matter(self, tmp_path):
        y = Y % 2
        head = AutoMKLClassifier(B, update="rounds", random_state=0).fit(X[:300], y[:300])
        a, b = parts_of(head, X, y, [1000], 300)
        merged = merge([a, b])
        modelfile.save(b, tmp_path / "b")
        others = [merge([b, a]), merge([a, copy.deepcopy(head), modelfile.load(tmp_path / "b")])]
        for other in (*others, merge([pickle.loads(pickle.dumps(a)), b])):
            assert_array_equal(other.decision_function(X), merged.decision_function(X))
        merged.partial_fit(X, y)
        assert merged.n_seen_ == 4800

    def test_what_cannot_be_merged_is_refused_with_the_reason(self):
        y = Y % 2
        make = lambda **k: AutoMKLClassifier(B, update="rounds", random_state=0, **k)  # noqa: E731
        head = make().fit(X[:300], y[:300])
        a = copy.deepcopy(head).partial_fit(X[300:600], y[300:600])
        other = copy.deepcopy(make().fit(X[300:600], y[300:600])).partial_fit(X[:300], y[:300])
        with pytest.raises(ValueError, match=r"not copied from one model|other kernels"):
            merge([a, other])
        with pytest.raises(ValueError, match="not copied from one model"):
            merge([a, copy.deepcopy(a).partial_fit(X[600:700], y[600:700])])
        with pytest.raises(ValueError, match='update="rows"'):
            merge([AutoMKLClassifier(B).fit(X, y) for _ in range(2)])
        with pytest.raises(ValueError, match='update="rows"'):
            merge([AutoMKLClassifier(B).fit(X, y)])
        with pytest.raises(ValueError, match="other settings"):
            merge([a, AutoMKLClassifier(B + 1, update="rounds").fit(X, y)])
        with pytest.raises(ValueError, match="only after its budget is full"):
            merge([make().fit(X[:20], y[:20]) for _ in range(2)])
        with pytest.raises(ValueError, match="count twice"):
            merge([a, head, a])
        with pytest.raises(ValueError, match="knows the classes"):
            merge([a, copy.deepcopy(head).partial_fit(X[:50], y[:50] + 5)])
        with pytest.raises(ValueError, match="Got none"):
            merge([])
        with pytest.raises(TypeError, match="one class"):
            merge([a, AutoMKLRegressor(B, update="rounds").fit(X, y)])
        with pytest.raises(TypeError, match="takes estimators"):
            merge([3])


class TestBudget:
    @pytest.mark.parametrize("learner", [SPA(), RBP(), Projectron()], ids=repr)
    def test_classifiers(self, learner):
        y = Y % 2
        models = [
            BudgetMKLClassifier(learner=learner, budget=60, random_state=i).fit(X[i::4], y[i::4]) for i in range(4)
        ]
        merged = merge(models)
        assert merged.n_seen_ == 2400
        assert (merged.n_support_ <= 60).all()
        scores = [model.score(X, y) for model in models]
        assert merged.score(X, y) > min(scores) - 0.05
        merged.partial_fit(X[:50], y[:50])

    def test_without_a_budget_the_score_is_the_mean(self):
        from bomkl.combiners import Uniform
        from bomkl.kernels import Gaussian

        make = lambda i: BudgetMKLRegressor([Gaussian(1.0)], combiner=Uniform(), random_state=i)  # noqa: E731
        models = [make(i).fit(X[i::3], X[i::3, 0]) for i in range(3)]
        assert_allclose(merge(models).predict(X), np.mean([model.predict(X) for model in models], axis=0), atol=1e-6)


class TestPartitions:
    def run(self, tables, regression=False, shuffle_sums=None, **settings):
        kind = AutoMKLRegressor if regression else AutoMKLClassifier
        summaries = [summary(*table, regression=regression) for table in tables]
        job = Job(kind(B, update="rounds", random_state=0, **settings), summaries)
        job.learn_head([drawn_rows(piece, *tables[piece.partition]) for piece in job.head_pieces()])
        while pieces := job.next_round():
            parts = [piece_sums(job.static(), job.means(), piece, *tables[piece.partition]) for piece in pieces]
            for i in range(len(parts)) if shuffle_sums is None else shuffle_sums.permutation(len(parts)):
                job.add(parts[i])
            job.end_round()
        return job

    @pytest.mark.parametrize("cuts", [[], [1200], [0, 100, 1500, 1500], list(range(40, 2400, 40))])
    def test_any_partitions_learn_every_row_once(self, cuts):
        order = np.argsort(Y, kind="stable")  # the worst order there is
        tables = list(zip(np.split(X[order], cuts), np.split(Y[order], cuts), strict=True))
        job = self.run(tables)
        assert job.model.n_seen_ == job.done == 2400
        assert job.used == job.counts
        reference = AutoMKLClassifier(B, update="rounds", random_state=0).fit(X, Y, shuffle=True)
        assert job.model.score(X, Y) > reference.score(X, Y) - 0.03
        again = self.run(tables, shuffle_sums=np.random.default_rng(3))
        assert_array_equal(again.model.decision_function(X), job.model.decision_function(X))

    def test_numbers(self):
        X, y = make_friedman1(2000, n_features=8, noise=1.0, random_state=0)
        job = self.run([(X[:900], y[:900]), (X[900:], y[900:])], regression=True)
        assert job.model.score(X, y) > 0.75

    def test_a_job_goes_on_from_its_notes(self):
        tables = [(X[:1000], Y[:1000]), (X[1000:], Y[1000:])]
        whole = self.run(tables)
        summaries = [summary(*table) for table in tables]
        job = Job(AutoMKLClassifier(B, update="rounds", random_state=0), summaries)
        job.learn_head([drawn_rows(piece, *tables[piece.partition]) for piece in job.head_pieces()])
        while pieces := job.next_round():
            for piece in pieces:
                job.add(piece_sums(job.static(), job.means(), piece, *tables[piece.partition]))
            job.end_round()
            model, notes = pickle.loads(pickle.dumps(job.model)), job.notes()
            job = Job(AutoMKLClassifier(B, update="rounds", random_state=0), summaries)
            job.resume(model, notes)
        assert_array_equal(job.model.decision_function(X), whole.model.decision_function(X))
        with pytest.raises(ValueError, match="other partitions"):
            Job(AutoMKLClassifier(B, update="rounds", random_state=0), summaries[:1]).resume(model, notes)

    def test_errors_name_partition_and_row(self):
        bad = X.copy()
        bad[1700, 3] = np.nan
        tables = [(X[:1000], Y[:1000]), (bad[1000:], Y[1000:])]
        with pytest.raises(PartitionError, match=r"Partition 1: row 700, column 3 holds .*nan"):
            self.run(tables)
        job = Job(AutoMKLClassifier(B, update="rounds", random_state=0), [summary(X, Y)])
        (piece,) = job.head_pieces()
        with pytest.raises(PartitionError, match="Partition 0: it had 2400 rows when they were counted, and has 2399"):
            drawn_rows(piece, X[1:], Y[1:])
        job.learn_head([drawn_rows(piece, X, Y)])
        (piece,) = job.next_round()
        with pytest.raises(PartitionError, match="label 9, which was not there"):
            piece_sums(job.static(), job.means(), piece, X, np.full(2400, 9))
        with pytest.raises(PartitionError, match="rows, but 0 came back"):
            job.end_round()
        with pytest.raises(PartitionError, match="no rows"):
            Job(AutoMKLClassifier(B, update="rounds"), [summary(X[:0], Y[:0])])
        with pytest.raises(PartitionError, match="different numbers of columns"):
            Job(AutoMKLClassifier(B, update="rounds"), [summary(X, Y), summary(X[:, :2], Y)])
        with pytest.raises(ValueError, match='with update="rounds"'):
            Job(AutoMKLClassifier(B), [summary(X, Y)])


def test_a_job_checks_its_settings():
    with pytest.raises(ValueError, match=r"'budget' parameter of AutoMKLClassifier .* Got -1 instead"):
        Job(AutoMKLClassifier(-1, update="rounds"), [summary(X, Y)])


def test_classes_met_in_another_order_are_named_in_that_order():
    X = np.random.default_rng(0).normal(size=(400, 2))
    y = (X[:, 0] > 0).astype(int)
    models = []
    for start in (0, 1):
        order = np.roll(np.arange(400), -np.flatnonzero(y == start)[0])  # begins with a row of this class
        models.append(AutoMKLClassifier(20, update="rounds", random_state=0).partial_fit(X[order], y[order]))
    with pytest.raises(ValueError, match=r"Model 1 met the classes \[1, 0\], in this order, but model 0 \[0, 1\]"):
        merge(models)
