"""Export models to ONNX and let onnxruntime predict."""

import tempfile
from pathlib import Path

import numpy as np
import onnxruntime

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl.demo import load_demo_data
from bomkl.onnx import to_onnx

folder = Path(tempfile.mkdtemp())
X, y = load_demo_data()
order = np.random.default_rng(0).permutation(len(y))
X, y = X[order].astype(np.float64), y[order]

classifier = AutoMKLClassifier(budget=150, random_state=0).fit(X[:3000], y[:3000])
(folder / "magic.onnx").write_bytes(to_onnx(classifier).SerializeToString())
session = onnxruntime.InferenceSession(folder / "magic.onnx")
label, margins, probabilities = session.run(None, {"X": X[3000:5000]})
agree = np.mean(label == classifier.predict(X[3000:5000]))
print(f"classifier: {agree:.1%} of the labels agree, {np.mean(label == y[3000:5000]):.1%} are right")

columns, target = X[:, 1:], X[:, 0]
regressor = AutoMKLRegressor(budget=150, random_state=0).fit(columns[:3000], target[:3000])
(folder / "length.onnx").write_bytes(to_onnx(regressor).SerializeToString())
session = onnxruntime.InferenceSession(folder / "length.onnx")
(prediction,) = session.run(["prediction"], {"X": columns[3000:5000]})
difference = np.abs(prediction - regressor.predict(columns[3000:5000])).max() / target.std()
print(f"regressor: predictions differ by {difference:.0e} standard deviations at most")
