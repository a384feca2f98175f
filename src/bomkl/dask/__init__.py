"""AutoMKL on Dask: tables larger than one machine, in rounds of sums.

Every task is a pure function of one partition, so that the scheduler may run it again anywhere: a worker that dies
costs time and changes no bit of the model. The model itself stays with the client, which writes a
checkpoint after each round.

>>> import dask.dataframe as dd, pandas as pd, numpy as np
>>> from bomkl.dask import AutoMKLClassifier
>>> X = np.random.default_rng(0).normal(size=(3000, 2))
>>> table = dd.from_pandas(pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0] * X[:, 1] > 0}), npartitions=4)
>>> model = AutoMKLClassifier(budget=100, random_state=0).fit(table, target="y")
>>> model.score(table, target="y") > 0.95
True
"""

try:
    import dask  # noqa: F401
except ImportError as missing:
    raise ImportError("bomkl.dask needs Dask. Install it with: pip install 'bomkl[dask]'") from missing

from bomkl.dask.estimators import AutoMKLClassifier, AutoMKLRegressor
from bomkl.dask.runner import cluster_runner

__all__ = ["AutoMKLClassifier", "AutoMKLRegressor", "cluster_runner"]
