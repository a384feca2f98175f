"""The bounds of every number that an Auto model stores.

Learning keeps to them, and loading refuses all else: so whatever was learned can be loaded. What the core loads by
itself has its bounds in ``cpp/auto/limits.hpp``; where both need a bound, it has the same numbers. Places and counts
are not among them: their bounds are the sizes of what they count.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from bomkl._support.limits import LARGEST


class Limits(NamedTuple):
    """Least and largest value of a stored quantity.

    Examples
    --------
    >>> Limits(0.0, 1.0).clip(np.array([-1e-17, 0.5]))
    array([0. , 0.5])
    """

    low: float = -math.inf
    high: float = math.inf

    def clip(self, values: Any) -> Any:
        """Bring numbers within the limits."""
        return np.clip(values, self.low, self.high)


_ROUNDING = 1e-9

FLOATS = Limits(-float(np.finfo(np.float64).max), float(np.finfo(np.float64).max))
SINGLES = Limits(-3.4e38, 3.4e38)  # numbers of single precision
CELLS = Limits(-LARGEST, LARGEST)  # of rows that are kept, and targets
SIZES = Limits(5e-324, FLOATS.high)  # what numbers are divided by: not zero, however small
DEVIATIONS = Limits(float(np.finfo(np.float64).tiny), FLOATS.high)  # of columns; one over the least is a number
SUMS = Limits(0.0, FLOATS.high)  # of squares, losses, counts and weights
FRACTIONS = Limits(0.0, 1.0)
FADES = Limits(DEVIATIONS.low, 1.0)  # factors of what is forgotten all at once
FORGETTING = Limits(0.5, 1.0)  # factors a row
SHARES = Limits(0.0, 1.0 + _ROUNDING)  # weights of a mixture
LOG_SHARES = Limits(-math.inf, _ROUNDING)
LOG_WEIGHTS = Limits(-math.inf, 700.0)  # relative to the largest of any time; the exponential is a number
ROW_WEIGHTS = Limits(1e-150, 1000.0)  # single precision could not hold what larger ones leave of a variance
SCALED_TARGETS = Limits(-1e6, 1e6)  # targets and scores in units of the spread of the targets
RELATIVE_ERRORS = Limits(0.0, 1e6)  # in units of the usual error
# What a new scale of the targets may bring wide weights and sums of their squared gradients to. A row can then add no
# more than about 1e100 to the squares: scaled values are at most 64, weights 1000.
WIDE_WEIGHTS = Limits(-1e35, 1e35)
WIDE_SQUARES = Limits(0.0, 1e250)
STANDARDISED = Limits(-4.0, 4.0)  # columns as the network takes them
HASHED_NUMBERS = Limits(-1e300, FLOATS.high)  # sums that columns of numbers are cut by
