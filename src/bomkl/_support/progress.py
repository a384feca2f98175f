"""One way to show progress: on stderr, only at a terminal, only for work that lasts longer than two seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_FEWEST = 256  # rows between two looks at the clock
_LOOKS = 200


def progress_bar(total: int | None, description: str, unit: str, **options: Any) -> Any:
    """Return a tqdm bar that stays silent for short work and when stderr is not a terminal.

    `total`: number of units, if known. Returns a context manager with ``update(n)``.

    Examples
    --------
    >>> with progress_bar(2, "learning", "row") as bar:
    ...     _ = bar.update(2)
    """
    from tqdm import tqdm

    return tqdm(
        total=total, desc=description, unit=f" {unit}", file=sys.stderr, disable=None, delay=2, leave=False, **options
    )


@contextmanager
def learning_bar(
    n_rows: int, verbose: Any, at_once: int | None = None, error: Callable[[], float | None] | None = None
) -> Iterator[Callable[[int, int], Iterator[slice]]]:
    """Yield what cuts a range of rows into slices to learn from one after the other, and counts them in a bar.

    `verbose`: whether to show the bar, also where stderr is no terminal, as in a notebook. `at_once`: most rows of a
    slice. With None and no bar, a range is one slice. `error`: gives the mean error so far, which the bar shows.
    Returns what turns the first and the last row of a range into slices.

    Examples
    --------
    >>> with learning_bar(1000, verbose=0) as parts:
    ...     print(list(parts(0, 1000)))
    [slice(0, 1000, None)]
    """
    if not verbose:
        yield lambda begin, end: _cut(begin, end, max(n_rows, 1) if at_once is None else at_once)
        return
    from tqdm import tqdm

    step = max(n_rows // _LOOKS, _FEWEST)
    step = step if at_once is None else min(step, at_once)
    with tqdm(total=n_rows, desc="learning", unit=" row", file=sys.stderr) as bar:

        def parts(begin: int, end: int) -> Iterator[slice]:
            for part in _cut(begin, end, step):
                yield part
                if error is not None and (so_far := error()) is not None:
                    bar.set_postfix_str(f"error {so_far:.4g}", refresh=False)
                bar.update(part.stop - part.start)

        yield parts


def _cut(begin: int, end: int, step: int) -> Iterator[slice]:
    return (slice(at, min(at + step, end)) for at in range(begin, end, step))
