"""AutoMKL on Dask, for tables that are too large for one machine.

The workers add up what rows say, and the client holds the model. Any worker can do any task again, so a worker that
dies costs time but does not change the model. The client can save a checkpoint after each round.

>>> import dask.dataframe as dd, pandas as pd, numpy as np
>>> from bomkl.dask import AutoMKLClassifier
>>> X = np.random.default_rng(0).normal(size=(3000, 2))
>>> table = dd.from_pandas(pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0] * X[:, 1] > 0}), npartitions=4)
>>> model = AutoMKLClassifier(budget=100, random_state=0).fit(table, target="y")
>>> model.score(table, target="y") > 0.95
True
"""

from bomkl._support.extras import install_hint

try:
    import dask  # noqa: F401
except ImportError as missing:
    raise ImportError(f"bomkl.dask needs Dask. {install_hint('dask')}") from missing

from bomkl.dask.estimators import AutoMKLClassifier, AutoMKLRegressor
from bomkl.dask.runner import cluster_runner

__all__ = ["AutoMKLClassifier", "AutoMKLRegressor", "cluster_runner"]
