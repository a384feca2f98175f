"""How a benchmark that must meet something ends: a line for each claim, and exit code 1 where one is missed."""

from __future__ import annotations

from collections.abc import Iterable


def finish(verdicts: Iterable[tuple[bool, str]]) -> None:
    """Print a line for each claim and end the process.

    Parameters
    ----------
    verdicts : iterable of (bool, str)
        Whether each claim is met, and the claim with its figure.
    """
    lines = list(verdicts)
    for met, claim in lines:
        print(f"{'pass' if met else 'FAIL'}\t{claim}")
    raise SystemExit(not all(met for met, _ in lines))
