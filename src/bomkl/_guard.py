"""Calls that change a model: one at a time, and none of them leaves half of its work behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from weakref import WeakKeyDictionary


class _Turns:
    """Whose turn it is to change each model, apart from models: a copy or a pickle must not share or hold a lock."""

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._of_model: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def of(self, model: Any) -> Any:
        with self._making:
            return self._of_model.setdefault(model, threading.RLock())

    def next(self, model: Any, what: str) -> AbstractContextManager[Any]:
        """Return the lock itself: no interrupt comes between what it guards and its release."""
        turn = self.of(model)
        if turn._is_owned():
            name = type(model).__name__
            raise RuntimeError(f"This {name} is learning and cannot be {what} by a function that it calls meanwhile.")
        return turn  # type: ignore[no-any-return]


_turns = _Turns()


def _begin_anew() -> None:
    """Forget all turns: in a forked process nobody is left to end one."""
    global _turns
    _turns = _Turns()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


def changing(model: Any) -> AbstractContextManager[Any]:
    """Wait until no other thread changes the model, then keep others waiting.

    A call from within a change of the same model, such as one by its own Python kernel, is an error: it would wait for
    itself.

    Parameters
    ----------
    model : estimator
        Any object that has an identity and can be weakly referenced.

    Examples
    --------
    >>> from sklearn.base import BaseEstimator
    >>> model = BaseEstimator()
    >>> with changing(model):
    ...     with changing(model):
    ...         pass
    Traceback (most recent call last):
    ...
    RuntimeError: This BaseEstimator is learning and cannot be changed by a function that it calls meanwhile.
    """
    return _turns.next(model, "changed")


def settled(model: Any) -> AbstractContextManager[Any]:
    """Wait until no other thread changes the model, then keep those that would waiting: it is as a whole call left it.

    From within a change of the same model there is no such moment, so that is an error.

    Parameters
    ----------
    model : estimator
        As for `changing`.
    """
    return _turns.next(model, "saved")


@contextmanager
def unchanged_on_error(model: Any) -> Iterator[None]:
    """Put back the attributes of a model where a call fails; what an attribute refers to is the caller's business."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        model.__dict__ = before  # in one step: other threads see all of it or nothing
        raise
