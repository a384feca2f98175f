"""Limits of what models, files, pipes and the service take: one place, so that all ways in agree."""

from __future__ import annotations

LARGEST = 1e150
"""Larger numbers are taken as this, and larger targets are refused: their squares still have a sum."""

MOST_CLASSES = 1000
"""A target with more values is for regression."""

WIDEST = 512
"""Columns up to which rows are dense: a full covariance of them is no larger than that of a kernel."""

MOST_NEW_COLUMNS = 1000
"""Columns up to which a table takes in new ones."""

MOST_COLUMNS_OF_REQUEST = 10_000
"""Columns of a row that the service takes."""

MOST_COLUMNS_OF_RIVER = 4096
"""Columns of a Budget model in River, whose memory grows with them; further names share columns."""

LONGEST_NAME = 200
"""Characters of the name of a column, of a label and of an id that the service takes."""

LONGEST_TEXT = 10_000
"""Characters of a string; tables use no more, and the service refuses more."""
