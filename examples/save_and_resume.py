"""Save a model in the middle of a stream, load it elsewhere and go on: the same numbers to the last bit."""

import tempfile
from pathlib import Path

import numpy as np

from bomkl import BudgetMKLClassifier, modelfile
from bomkl.demo import load_demo_data

X, y = load_demo_data()
order = np.random.default_rng(0).permutation(len(y))[:6000]
X, y = X[order], y[order]

model = BudgetMKLClassifier(budget=100, random_state=0)
model.partial_fit(X[:3000], y[:3000])
path = Path(tempfile.mkdtemp()) / "magic.bomkl"
modelfile.save(model, path)
print(f"saved after {model.n_seen_} rows: {path.stat().st_size:,} bytes")

resumed = modelfile.load(path)
undisturbed_margins = model.score_and_learn(X[3000:], y[3000:])
resumed_margins = resumed.score_and_learn(X[3000:], y[3000:])
assert np.array_equal(undisturbed_margins, resumed_margins)
print(f"after {resumed.n_seen_} rows: {resumed.mistakes_} mistakes, as many as without the interruption")
