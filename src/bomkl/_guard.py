"""Calls that change a model: one at a time, and none of them leaves half of its work behind."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from weakref import WeakKeyDictionary


class _Turn:
    """Whose turn it is to change one model."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.taken = False


class _Turns:
    """The turns of all models, apart from the models: a copy or a pickle must not share or hold a lock."""

    def __init__(self) -> None:
        self._making = threading.Lock()
        self._of_model: WeakKeyDictionary[Any, _Turn] = WeakKeyDictionary()

    def of(self, model: Any) -> _Turn:
        with self._making:
            return self._of_model.setdefault(model, _Turn())


_turns = _Turns()


def _begin_anew() -> None:
    """Forget all turns: in a forked process nobody is left to end one."""
    global _turns
    _turns = _Turns()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_anew)


@contextmanager
def changing(model: Any) -> Iterator[None]:
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
    turn = _turns.of(model)
    with turn.lock:
        if turn.taken:
            name = type(model).__name__
            raise RuntimeError(f"This {name} is learning and cannot be changed by a function that it calls meanwhile.")
        try:
            turn.taken = True
            yield
        finally:
            turn.taken = False


@contextmanager
def settled(model: Any) -> Iterator[None]:
    """Wait until no other thread changes the model, then keep those that would waiting: it is as a whole call left it.

    From within a change of the same model there is no such moment, so that is an error.

    Parameters
    ----------
    model : estimator
        As for `changing`.
    """
    turn = _turns.of(model)
    with turn.lock:
        if turn.taken:
            name = type(model).__name__
            raise RuntimeError(f"This {name} is learning and cannot be saved by a function that it calls meanwhile.")
        yield


@contextmanager
def unchanged_on_error(model: Any) -> Iterator[None]:
    """Put back the attributes of a model where a call fails; what an attribute refers to is the caller's business."""
    before = dict(vars(model))
    try:
        yield
    except BaseException:
        model.__dict__ = before  # in one step: other threads see all of it or nothing
        raise
