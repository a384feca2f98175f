"""What `bomkl bench peers` compares: functions of a stream that return what was said about each row before its label.

That is an array of the probability of each class, (rows, classes), or of predictions of a number, (rows,).
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl_lab.benchmarks.peers_streams import Stream

YOUNG = 500  # rows that kernel maps and scales of scikit-learn are taken from
Method = Callable[[Stream, int], Any]


class NotForThisError(Exception):
    """A method that does not do what a stream asks for."""


def peer(module: str, install: str = "'.[peers]' ./lab") -> Any:
    """Import a peer, or say what to install."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise SystemExit(f"{module} is not installed: pip install {install}, or leave it out with --methods") from error


def auto(data: Stream, n_jobs: int) -> Any:
    if not data.classes:
        return AutoMKLRegressor(random_state=0, n_jobs=n_jobs).score_and_learn(data.X, data.y)
    model = AutoMKLClassifier(random_state=0, n_jobs=n_jobs)
    scores = model.score_and_learn(data.X, data.y, classes=range(data.classes))
    return from_log_odds(scores) if data.classes == 2 else np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)


def from_log_odds(scores: Any) -> Any:
    p = 1 / (1 + np.exp(-np.clip(scores, -30, 30)))
    return np.column_stack([1 - p, p])


def vowpal_wabbit(options: str) -> Method:
    def run(data: Stream, n_jobs: int) -> Any:
        loss = "--loss_function logistic" if data.classes == 2 else ""
        if data.classes > 2:
            loss = f"--oaa {data.classes} --probabilities --loss_function logistic"
        workspace = peer("vowpalwabbit").Workspace(f"{loss} {options} --quiet")
        deviation = data.X.std(axis=0)
        Z = (data.X - data.X.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
        out = np.empty((len(Z), max(data.classes, 1)))
        for t, row in enumerate(Z):
            text = " ".join(f"{j}:{value:.6g}" for j, value in enumerate(row) if value != 0)
            if data.classes > 2:
                out[t] = workspace.predict(f"| {text}")
                workspace.learn(f"{data.y[t] + 1} | {text}")
                continue
            label = 2 * data.y[t] - 1 if data.classes else data.y[t]
            example = workspace.parse(f"{label} | {text}")
            workspace.learn(example)  # the prediction in the example is the one before the update
            out[t] = example.get_simplelabel_prediction()
            workspace.finish_example(example)
        workspace.finish()
        if data.classes == 2:
            return from_log_odds(out[:, 0])
        return out if data.classes else out[:, 0]

    return run


def river_stream(classes: Callable[[], Any], numbers: Callable[[], Any] | None = None) -> Method:
    def run(data: Stream, n_jobs: int) -> Any:
        if not data.classes and numbers is None:
            raise NotForThisError("it does not predict numbers")
        model: Any = classes() if data.classes or numbers is None else numbers()
        out = np.zeros((len(data.y), max(data.classes, 1)))
        for t, row in enumerate(data.X.tolist()):
            x = dict(enumerate(row))
            if data.classes:
                label = bool(data.y[t]) if data.classes == 2 else int(data.y[t])
                said = model.predict_proba_one(x)
                out[t] = [said.get(k, 0.0) for k in range(data.classes)]  # False and True are 0 and 1
                model.learn_one(x, label)
            else:
                out[t] = model.predict_one(x) or 0.0
                model.learn_one(x, float(data.y[t]))
        return probabilities(out) if data.classes else out[:, 0]

    return run


def probabilities(out: Any) -> Any:
    """Rows of sum 1; those that say nothing hold all classes for alike."""
    total = out.sum(axis=1, keepdims=True)
    return np.where(total > 0, out / np.where(total > 0, total, 1), 1 / out.shape[1])


def river_logistic() -> Any:
    linear, optim, preprocessing = (peer(f"river.{name}") for name in ("linear_model", "optim", "preprocessing"))
    return preprocessing.StandardScaler() | linear.LogisticRegression(optimizer=optim.AdaGrad(0.1))


def river_forest() -> Any:
    return peer("river.forest").ARFClassifier(n_models=10, seed=0)


def river_number_forest() -> Any:
    return peer("river.forest").ARFRegressor(n_models=10, seed=0, leaf_prediction="mean")


def river_mondrian() -> Any:
    return peer("river.forest").AMFClassifier(n_estimators=10, seed=0)


def two_classes_only(method: Method) -> Method:
    def run(data: Stream, n_jobs: int) -> Any:
        if data.classes != 2:
            raise NotForThisError("it tells two classes apart")
        return method(data, n_jobs)

    return run


def mapped_sgd(kernel_map: Callable[..., Any]) -> Method:
    """Map and scales from the first 500 rows, which a linear model scores; batches of 50 rows."""

    def run(data: Stream, n_jobs: int) -> Any:
        X, y = data.X, data.y
        young = min(YOUNG, len(y))
        scaler = StandardScaler().fit(X[:young])
        kernel = kernel_map(n_components=min(500, young), gamma=1 / X.shape[1], random_state=0)
        kernel.fit(scaler.transform(X[:young]))
        linear, mapped = (
            SGDClassifier("log_loss", learning_rate="constant", eta0=0.05, random_state=0) for _ in range(2)
        )
        out = np.zeros(len(y))
        for begin in range(0, len(y), 50):
            rows = slice(begin, begin + 50)
            Z = scaler.transform(X[rows])
            F = kernel.transform(Z)
            if begin:
                out[rows] = linear.decision_function(Z) if begin < young else mapped.decision_function(F)
            mapped.partial_fit(F, y[rows], classes=[0, 1])
            if begin < young:
                linear.partial_fit(Z, y[rows], classes=[0, 1])
        return from_log_odds(out)

    return two_classes_only(run)


def lightgbm_refitted(data: Stream, n_jobs: int) -> Any:
    """Boosted trees of all rows so far, fitted anew whenever the stream has grown by half: no stream learner."""
    lightgbm = peer("lightgbm")
    out = np.zeros((len(data.y), max(data.classes, 1)))
    begin, common = 50, {"n_estimators": 100, "n_jobs": 1, "verbosity": -1, "random_state": 0}
    while begin < len(data.y):
        end, y = min(begin * 3 // 2, len(data.y)), data.y[:begin]
        leaf = {"min_child_samples": 10 if begin > 400 else 5}
        if data.classes:
            model = lightgbm.LGBMClassifier(**common, **leaf).fit(data.X[:begin], y)
            out[begin:end, model.classes_] = model.predict_proba(data.X[begin:end])
        else:
            out[begin:end, 0] = (
                lightgbm.LGBMRegressor(**common, **leaf).fit(data.X[:begin], y).predict(data.X[begin:end])
            )
        begin = end
    return probabilities(out) if data.classes else out[:, 0]


def moa(name: str, **settings: Any) -> Method:
    """One of MOA's learners by CapyMOA, which needs Java."""

    def run(data: Stream, n_jobs: int) -> Any:
        if not data.classes:
            raise NotForThisError("it is run for classes only")
        install = "capymoa, with Java on the path"
        made = peer("capymoa.stream", install).NumpyStream(data.X, data.y, target_type="categorical")
        learner = getattr(peer("capymoa.classifier", install), name)(schema=made.get_schema(), **settings)
        out = np.zeros((len(data.y), data.classes))
        for t in range(len(data.y)):
            instance = made.next_instance()
            said = learner.predict_proba(instance)
            if said is not None:
                out[t, : len(said)] = said
            learner.train(instance)
        return probabilities(out)

    return run


METHODS: dict[str, Method] = {
    "AutoMKL": auto,
    "VW logistic": vowpal_wabbit(""),
    "VW nn 10": vowpal_wabbit("--nn 10"),
    "River LogReg": two_classes_only(river_stream(river_logistic)),
    "River ARF": river_stream(river_forest, river_number_forest),
    "River AMF": river_stream(river_mondrian),
    "Nystroem+SGD": mapped_sgd(Nystroem),
    "RBFSampler+SGD": mapped_sgd(RBFSampler),
    "MOA ARF 100": moa("AdaptiveRandomForestClassifier", ensemble_size=100),
    "MOA SRP 30": moa("StreamingRandomPatches", ensemble_size=30),
    "MOA kNN": moa("KNN", k=10, window_size=5000),
    "LightGBM refitted": lightgbm_refitted,
}
