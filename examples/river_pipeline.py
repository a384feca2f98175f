"""Rows as dictionaries in a River pipeline; a feature that appears late, and a label that nobody announced."""

import random

from river import compose, metrics, preprocessing

from bomkl.kernels import Gaussian, Linear
from bomkl.river import BudgetMKLClassifier

model = compose.Pipeline(
    preprocessing.StandardScaler(),
    BudgetMKLClassifier([Linear(), Gaussian(0.5), Gaussian(2.0)], budget=100, seed=0),
)
metric = metrics.Accuracy()
rng = random.Random(0)
for row in range(3000):
    x = {"temperature": rng.gauss(20, 8), "wind": rng.uniform(0, 30)}
    label = "sail" if 8 < x["wind"] < 20 and x["temperature"] > 15 else "stay"
    if row >= 1000:  # from here on there is a forecast of rain
        x["rain"] = rng.random()
        label = "read" if x["rain"] > 0.7 else label
    metric.update(label, model.predict_one(x) or "stay")
    model.learn_one(x, label)
    if row % 500 == 499:
        print(f"{row + 1} rows, accuracy so far {metric.get():.3f}")
print(model.predict_proba_one({"temperature": 22, "wind": 14, "rain": 0.1}))
