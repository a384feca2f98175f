"""Which cases of a test `make test` runs; the others are for `make test-all`."""

import pytest


def slow_but(quick, cases):
    """Mark all cases as slow but for the quick ones."""
    assert set(quick) <= set(cases)
    return [case if case in quick else pytest.param(case, marks=pytest.mark.slow) for case in cases]
