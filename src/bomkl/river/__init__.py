"""River models: the estimators of this package for rows that are dictionaries, or DataFrames of many rows.

Features may appear and disappear, in any order. Each name gets a column when it first comes, and an absent feature
counts as zero. Labels need not be known in advance. Install River with ``pip install '.[river]'``.
"""

from bomkl._support.extras import install_hint

try:
    import river  # noqa: F401
except ImportError as missing:
    raise ImportError(f"bomkl.river needs River. {install_hint('river')}") from missing

from bomkl.river.auto import AutoMKLClassifier, AutoMKLRegressor
from bomkl.river.budget import BudgetMKLClassifier, BudgetMKLRegressor
from bomkl.river.columns import Columns, FixedColumns

_Columns, _FixedColumns = Columns, FixedColumns  # their names in pickles of earlier versions

__all__ = ["AutoMKLClassifier", "AutoMKLRegressor", "BudgetMKLClassifier", "BudgetMKLRegressor"]
