"""A long stream whose law changes half-way, learned in memory that stops growing."""

import numpy as np

from bomkl import BudgetMKLClassifier
from bomkl.combiners import Hedge
from bomkl.kernels import Gaussian, Linear

rng = np.random.default_rng(0)
# A share of the weight is dealt out evenly after every row, so that a kernel can come back after a change.
model = BudgetMKLClassifier(
    kernels=[Linear(), Gaussian(0.5), Gaussian(1.0), Gaussian(2.0)],
    combiner=Hedge(share=0.001),
    budget=60,
    random_state=0,
)
mistakes = 0
for block in range(40):
    X = rng.normal(size=(1000, 2))
    y = X[:, 0] + X[:, 1] > 0 if block < 20 else np.hypot(X[:, 0], X[:, 1]) > 1.2
    model.partial_fit(X, y, classes=[False, True])
    if block % 5 == 4:
        rate = (model.mistakes_ - mistakes) / 5000
        best = model.kernels_[int(model.kernel_weights_.argmax())]
        print(
            f"{model.n_seen_:6} rows, {rate:6.1%} of the last 5000 wrong, {model.nbytes_:6} bytes, best kernel {best}"
        )
        mistakes = model.mistakes_
assert model.n_support_.max() <= 60
