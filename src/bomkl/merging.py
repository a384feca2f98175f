"""`merge`: one model from several that have learned from different rows."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from bomkl.auto.blas import one_blas_thread
from bomkl.auto.build import learner_of_rows
from bomkl.auto.components.combination import Combination
from bomkl.auto.components.component import RoundsComponent
from bomkl.auto.components.information import Information, inverse, solution
from bomkl.auto.constants import PRUNE_AT, STACK_RIDGES
from bomkl.auto.estimators.classifier import AutoMKLClassifier
from bomkl.auto.estimators.estimator import AutoEstimator
from bomkl.auto.features.geometry import Float
from bomkl.auto.growth.round_growth import RoundGrowthLearner
from bomkl.auto.learner import Learner
from bomkl.auto.rounds.engine import newton_parts
from bomkl.auto.rounds.round_learner import Origin, RoundLearner, hedged
from bomkl.budget import BudgetMKLClassifier, BudgetMKLRegressor
from bomkl.budget.merging import merge_budget
from bomkl.tables import TableEncoder


def merge(models: Sequence[Any]) -> Any:
    """Make one model from models that have learned from different rows.

    Auto models with ``update="rounds"``: copy one model, by pickle, `copy.deepcopy` or a model file, after it has
    learned from at least four budgets of rows. Let each copy learn from other rows. `merge` adds up what the copies
    have learned. With the squared loss, each kernel then is what it would have learned from all these rows. Growing
    trees and the network are those of the copy that has learned from most rows; they go on with the samples of all.

    Budget models: the result is an approximate mean of the models. It keeps the stored rows that matter most, as many
    as the budget allows, and is less accurate than one model that has learned from all rows.

    Models of tables must have laid out the columns alike; the result has the encoder of the model that has learned from
    most rows.

    Parameters
    ----------
    models : sequence of estimators
        Fitted models of one class with the same settings. They are not changed.

    Returns
    -------
    model : estimator
        A new model of the same class.

    Examples
    --------
    >>> import copy
    >>> from sklearn.datasets import make_moons
    >>> from bomkl import AutoMKLClassifier, merge
    >>> X, y = make_moons(3000, noise=0.2, random_state=0)
    >>> head = AutoMKLClassifier(budget=100, update="rounds", random_state=0).fit(X[:400], y[:400])
    >>> first = copy.deepcopy(head).partial_fit(X[400:1700], y[400:1700])
    >>> second = copy.deepcopy(head).partial_fit(X[1700:], y[1700:])
    >>> model = merge([first, second])
    >>> model.n_seen_
    3000
    """
    models = list(models)
    if not models:
        raise ValueError("merge needs at least one model. Got none.")
    kind = type(models[0])
    if not isinstance(models[0], AutoEstimator | BudgetMKLClassifier | BudgetMKLRegressor):
        raise TypeError(f"merge takes estimators of bomkl. Got a {kind.__name__}.")
    for number, model in enumerate(models):
        if type(model) is not kind:
            raise TypeError(f"All models must be of one class. Model 0 is a {kind.__name__}, model {number} is not.")
        if not model.__sklearn_is_fitted__():
            raise ValueError(f"Model {number} has not learned from any row.")
        if model.n_features_in_ != models[0].n_features_in_:
            raise ValueError(
                f"Model {number} has {model.n_features_in_} columns, but model 0 has {models[0].n_features_in_}."
            )
        if _settings(model) != _settings(models[0]):
            raise ValueError(f"Model {number} has other settings than model 0: {_settings(model)}.")
    if len({id(model) for model in models}) < len(models):
        raise ValueError("merge needs different models. Got one of them twice: its rows would count twice.")
    if len(models) == 1:
        if isinstance(models[0], AutoEstimator):
            _round_learner(models[0], 0)  # one that cannot be merged with others is refused alone, too
        return copy.deepcopy(models[0])
    encoder = _merged_encoder([model.encoder_ for model in models])
    merged = _merge_auto(models) if isinstance(models[0], AutoEstimator) else merge_budget(models)
    if encoder is not None:
        merged._encoder = encoder
    return merged


def _merged_encoder(encoders: list[TableEncoder | None]) -> TableEncoder | None:
    """Choose the encoder that has learned from most rows, if all have the same columns in the same order."""
    found = [encoder for encoder in encoders if encoder is not None]
    if not found:
        return None
    first = encoders[0]
    for number, encoder in enumerate(encoders):
        if first is None or encoder is None:
            kinds = ["a matrix" if each is None else "a table" for each in (encoder, first)]
            if encoder is not first:
                raise ValueError(f"Model {number} has learned from {kinds[0]}, but model 0 from {kinds[1]}.")
            continue
        one, other = ([str(name) for name in each.get_feature_names_out()] for each in (encoder, first))
        if one != other or encoder.kinds_ != first.kinds_:
            unlike = next(
                (pair for pair in zip(one, other, strict=False) if pair[0] != pair[1]), (len(one), len(other))
            )
            raise ValueError(
                f"Model {number} encodes its table in other columns than model 0: {unlike[0]!r} instead of "
                f"{unlike[1]!r}. Let copies of one model, which has seen the frequent categories, learn on."
            )
    return max(found, key=lambda each: (each.n_rows_, repr(each.state()))).fork()


def _settings(model: Any) -> dict[str, Any]:
    # these change how a model goes on, not what it is
    other = ("random_state", "n_jobs", "class_weight", "device", "verbose")
    return {name: value for name, value in model.get_params(deep=False).items() if name not in other}


# ---------------------------------------------------------------- sums of information


def _merge_auto(models: list[Any]) -> Any:
    learners = [_round_learner(model, number) for number, model in enumerate(models)]
    leaders = [learner.leader for learner in learners]
    origins = [
        learner.origin or Origin.of(leader, learner.mistakes_when_loaded)
        for learner, leader in zip(learners, leaders, strict=True)
    ]
    first = models[0]
    for number, (model, leader, origin) in enumerate(zip(models, leaders, origins, strict=True)):
        if isinstance(model, AutoMKLClassifier) and model._labels.tolist() != first._labels.tolist():
            same = model.classes_.tolist() == first.classes_.tolist()
            verb, one, other = (
                ("met", model._labels, first._labels) if same else ("knows", model.classes_, first.classes_)
            )
            raise ValueError(
                f"Model {number} {verb} the classes {one.tolist()}{', in this order' if same else ''}, but model 0 "
                f"{other.tolist()}. Declare all classes before the model is copied: partial_fit(X, y, classes=...)."
            )
        if [each.name for each in leader.components] != [each.name for each in leaders[0].components]:
            raise ValueError(
                f"Model {number} has other kernels than model 0. Copy a model only after it has learned from "
                f"{PRUNE_AT * model.budget} rows, four budgets: by then it has dropped the kernels that do not help."
            )
        if not _same(origin, origins[0]):
            raise ValueError(
                f"Models {number} and 0 were not copied from one model at the same row. Copy it with copy.deepcopy, a "
                "pickle or a model file, and do not copy or load the copies again while they learn."
            )
    merged = copy.deepcopy(first)
    gained = [i for i, leader in enumerate(leaders) if leader.seen > origins[0].seen]
    order = sorted(gained, key=lambda i: _digest(leaders[i]))  # so that the order of models does not matter
    origin = origins[0]
    if not order:
        return merged
    rounds = _merged([leaders[i] for i in order], origin)
    merged._learner = _merged_growth([models[i]._learner for i in order], rounds)
    if isinstance(merged, AutoMKLClassifier):
        merged._mistakes = origin.mistakes + sum(model._mistakes - origin.mistakes for model in models)
    return merged


def _round_learner(model: Any, number: int) -> RoundLearner:
    if not model._learner.merges:
        raise ValueError(
            f'Model {number} has update="{model.update}" and drift={model.drift!r}. Only models with '
            'update="rounds" can be merged.'
        )
    learner = learner_of_rows(model._learner)
    assert isinstance(learner, RoundLearner)
    if not learner.has_head:
        raise ValueError(
            f"Model {number} has learned from {learner.seen} rows, fewer than its budget of {model.budget}. Copy a "
            "model only after its budget is full."
        )
    return learner


def _same(a: Origin, b: Origin) -> bool:
    pairs = zip(a.regressions, b.regressions, strict=True)
    return a.seen == b.seen and all(
        np.array_equal(one.w, other.w) and np.array_equal(one.matrix, other.matrix) for one, other in pairs
    )


def _digest(leader: RoundLearner) -> bytes:
    digest = hashlib.sha256()
    for each in newton_parts(leader):
        digest.update(each.regression.means().tobytes())
    return digest.digest()


def _merged(leaders: list[RoundLearner], origin: Origin) -> RoundLearner:
    out = copy.copy(leaders[0])
    out.components = [
        RoundsComponent(each.name, each.features, _sum([_information(leader, i) for leader in leaders], start))
        for i, (each, start) in enumerate(zip(newton_parts(out), origin.regressions, strict=True))
    ]
    out.stack_information, out.combination = _combined(leaders, origin.combination)
    out.seen = origin.seen + sum(leader.seen - origin.seen for leader in leaders)
    out.error_rows = origin.error_rows + sum(leader.error_rows - origin.error_rows for leader in leaders)
    out.round_start, out.sums, out.origin, out.loaded, out._closed = out.seen, None, None, False, None
    return out


def _merged_growth(learners: list[Learner], rounds: RoundLearner) -> Learner:
    """Put the growth of the learner that has learned from most rows around merged rounds, with the samples of all."""
    growing = [each for each in learners if isinstance(each, RoundGrowthLearner)]
    if not growing:  # as in files up to version 0.2.0
        return rounds
    most = max(growing, key=lambda each: each.taken)
    merged = copy.deepcopy(most)
    merged.inner = rounds
    for other in growing:
        if other is not most and merged.core is not None and other.core is not None:
            merged.core.take_rows_of(other.core)
    return merged


def _information(leader: RoundLearner, i: int) -> Information:
    regression = newton_parts(leader)[i].regression
    assert isinstance(regression, Information)
    return regression


def _sum(parts: list[Information], start: Information) -> Information:
    """Add what all have learned since the start: information L, and L w, are sums over rows."""
    rank = start.rank
    matrix = start.matrix + sum(part.matrix - start.matrix for part in parts)
    with one_blas_thread:
        moments = [part.matrix @ part.w[:, :rank].T for part in parts]
        first = start.matrix @ start.w[:, :rank].T
    w = np.zeros_like(start.w)
    w[:, :rank] = solution(matrix, first + sum(moment - first for moment in moments)).T
    return Information(w, matrix)


def _combined(leaders: list[RoundLearner], start: Combination) -> tuple[Float, Combination]:
    """Stacks weighted by their information; losses since the start added up."""
    out = copy.deepcopy(leaders[0].combination)
    information = np.empty_like(leaders[0].stack_information)
    for j, ridge in enumerate(STACK_RIDGES):
        prior = ridge * np.eye(len(out.weights))
        gains = [leader.stack_information[j] - prior for leader in leaders]
        weights = [leader.combination.stack_w[j] for leader in leaders]
        information[j] = prior + sum(gains)
        out.stack_covariance[j] = inverse(information[j])
        moment = prior @ np.mean(weights, axis=0) + sum(gain @ w for gain, w in zip(gains, weights, strict=True))
        out.stack_w[j] = out.stack_covariance[j] @ moment
    parts = [leader.combination for leader in leaders]
    log_start = np.log(start.weights)
    out.weights = hedged(log_start + sum(np.log(part.weights) - log_start for part in parts), np.zeros(len(log_start)))
    relative = start.log_final + sum(part.log_final - start.log_final for part in parts)
    out.log_final = np.log(hedged(relative, np.zeros(len(relative))))
    out.loss_sum = start.loss_sum + sum(part.loss_sum - start.loss_sum for part in parts)
    out.error_sum = start.error_sum + sum(part.error_sum - start.error_sum for part in parts)
    return information, out
