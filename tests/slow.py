"""Which cases of a test `make test` runs; the others are for `make test-all`."""

import pytest


def slow_but(quick, cases):
    """Mark all cases as slow but for the quick ones; a case of several parameters is a tuple."""
    cases = list(cases)
    assert all(case in cases for case in quick)
    marks = {True: (), False: pytest.mark.slow}
    return [pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=marks[case in quick]) for case in cases]
