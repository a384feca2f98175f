"""One way to show progress: on stderr, only at a terminal, only for work that lasts longer than two seconds."""

from __future__ import annotations

import sys
from typing import Any


def progress_bar(total: int | None, description: str, unit: str, **options: Any) -> Any:
    """Return a tqdm bar that stays silent for short work and when stderr is not a terminal.

    Parameters
    ----------
    total : int or None
        Number of units, if known.
    description : str
        What is being done.
    unit : str
        Name of one unit.
    **options
        Further tqdm options.

    Returns
    -------
    tqdm
        A context manager with ``update(n)``.

    Examples
    --------
    >>> with progress_bar(2, "learning", "row") as bar:
    ...     _ = bar.update(2)
    """
    from tqdm import tqdm

    return tqdm(
        total=total, desc=description, unit=f" {unit}", file=sys.stderr, disable=None, delay=2, leave=False, **options
    )
