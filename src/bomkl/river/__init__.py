"""River models: the estimators of this package with rows that are dictionaries, one or many at a time.

Features may appear, vanish and come in any order: each name gets a column when it is first seen, and a feature that is
absent counts as zero. Labels need not be known beforehand either. New columns and new classes widen what was learned
without changing it. River is needed: ``pip install 'bomkl[river]'``.
"""

try:
    import river  # noqa: F401
except ImportError as missing:
    raise ImportError("bomkl.river needs River. Install it with: pip install 'bomkl[river]'") from missing

from bomkl.river.auto import AutoMKLClassifier, AutoMKLRegressor
from bomkl.river.budget import BudgetMKLClassifier, BudgetMKLRegressor
from bomkl.river.columns import Columns, FixedColumns

_Columns, _FixedColumns = Columns, FixedColumns  # their names in pickles of earlier versions

__all__ = ["AutoMKLClassifier", "AutoMKLRegressor", "BudgetMKLClassifier", "BudgetMKLRegressor"]
