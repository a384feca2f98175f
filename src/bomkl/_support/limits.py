"""Limits of what models, files, pipes and the service take: one place, so that all ways in agree."""

from __future__ import annotations

LARGEST = 1e150  # of numbers, whose squares still have a sum; larger ones are taken as this, and as targets refused
MOST_CLASSES = 1000  # a target with more values is for regression
WIDEST = 512  # columns up to which rows are dense: a full covariance of them is no larger than that of a kernel
MOST_NEW_COLUMNS = 1000  # columns up to which a table takes in new ones
MOST_COLUMNS_OF_REQUEST = 10_000  # of a row that the service takes
MOST_COLUMNS_OF_RIVER = 4096  # of a Budget model in River, whose memory grows with them; further names share columns
LONGEST_NAME = 200  # characters of the name of a column, of a label and of an id that the service takes
LONGEST_TEXT = 10_000  # characters of a string; tables use no more, and the service refuses more
