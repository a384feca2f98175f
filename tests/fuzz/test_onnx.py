"""Exported models predict what the originals predict, whatever outliers these have learned from, or are refused."""

import numpy as np
import pytest
from sklearn.base import is_classifier

pytest.importorskip("onnx")
onnxruntime = pytest.importorskip("onnxruntime")

WITHIN = 1e-5  # of the spread of the scores


def exported_scores(exported, rows):
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(exported.SerializeToString(), options, providers=["CPUExecutionProvider"])
    names = {output.name for output in session.get_outputs()}
    return session.run(["margins" if "margins" in names else "prediction"], {"X": rows})[0]


def clear_votes(model, rows):
    """Rows on which no kernel is so close to zero that rounding decides its vote.

    A zero is sure where all values of the kernel are zero, but not where equal values cancel.
    """
    if getattr(model, "combination", "score") != "vote":
        return np.ones(len(rows), dtype=bool)
    each = np.abs(model._scores(rows, per_kernel=True)).reshape(len(rows), -1, len(model.kernels_))
    stored = model.support_vectors_
    far = [(kernel(rows, stored) == 0).all(axis=1) for kernel in model.kernels_]
    return ((each > WITHIN * each.max(axis=0)) | ((each == 0) & np.transpose(far)[:, None])).all(axis=(1, 2))


def stream(rng):
    """Rows of which some cells lie far out, and numbers to learn."""
    X = rng.normal(size=(int(rng.integers(20, 450)), int(rng.integers(1, 6)))) + rng.choice([0, 0, 100])
    y = np.sin(3 * X[:, 0]) + (X[:, -1] - X[:, -1].mean()) ** 2
    for _ in range(int(rng.integers(4))):
        X[rng.integers(len(X)), rng.integers(X.shape[1])] = rng.choice([-1, 1]) * 10 ** rng.uniform(3, 12)
    return X, y


def test_onnx(cases, choose, new_model, record_property):
    from bomkl.onnx import to_onnx

    refused, worst = 0, 0.0
    for rng in cases(8):
        model, numbers = new_model(rng)
        settings = {"dtype": ["float32", "float64"], "combination": ["score", "vote"]}
        names = model.get_params()
        model.set_params(**{name: choose(rng, values) for name, values in settings.items() if name in names})
        X, y = stream(rng)
        cuts = np.quantile(y, [[0.5], [0.3, 0.7]][int(rng.integers(2))])
        outliers = X[np.abs(X).max(axis=1) > 1000]
        rows = np.vstack([X[rng.permutation(len(X))[:60]], outliers, rng.normal(size=(60, X.shape[1]))])
        try:
            model.partial_fit(X, y if numbers else np.digitize(y, cuts))
            rows = rows.astype(getattr(model, "_dtype", np.float64))
            scores = model.decision_function(rows) if is_classifier(model) else model.predict(rows)
            exported = to_onnx(model)
        except ValueError as error:
            if "overflows" not in str(error):  # powers of outliers, or steps that diverge
                assert "would differ from the estimator" in str(error), error
                refused += 1
            continue
        clear = clear_votes(model, rows)
        difference = np.abs(exported_scores(exported, rows) - scores)[clear]
        share = difference.max(initial=0) / max(np.ptp(scores), 1e-9 * np.abs(scores).max(), 1e-300)
        worst = max(worst, share)
        assert share <= WITHIN, (share, model, X.shape, np.abs(X).max())
    record_property("refused", refused)
    record_property("largest difference", f"{worst:.1e}")
