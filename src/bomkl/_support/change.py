"""The one way in which a model changes: all of a call, or nothing of it, and readers see the last whole model.

What a model is stands in its attributes. A call that learns works on a fork: the same attributes, those that change in
place forked. When all went well, the attributes of the fork take the place of the model's, in one step. What goes wrong
before that, an interrupt included, has changed nothing. Whoever reads takes the attributes once, and so sees the model
after some whole call, however long the reading takes.

One row of a Budget model may instead be learned from in place, in one step of the compiled core, where nobody has a
fork of what it changes.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from bomkl._support.forks import in_forked_process

T = TypeVar("T")
Model = TypeVar("Model")


class _Turns:
    """Whose turn it is to change each model, apart from models: a copy or a pickle must not share or hold a lock."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all turns: in a forked process nobody is left to end one."""
        self._making = threading.Lock()
        self._of_model: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

    def of(self, model: Any) -> Any:
        with self._making:
            return self._of_model.setdefault(model, threading.RLock())


_turns = _Turns()
in_forked_process(_turns.reset)


def changing(model: Any) -> AbstractContextManager[Any]:
    """Wait until no other thread changes the model, then keep others waiting.

    A call from within a change of the same model, such as one by its own Python kernel, is an error: what it learned
    would be lost.

    `model`: any object that has an identity and can be weakly referenced.

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
    if turn._is_owned():
        name = type(model).__name__
        raise RuntimeError(f"This {name} is learning and cannot be changed by a function that it calls meanwhile.")
    return turn  # type: ignore[no-any-return]  # the lock itself: no interrupt comes before its release


def change(model: Any, learn: Callable[[Any], T], *, anew: bool = False) -> T:
    """Let a fork of a model learn; it takes the place of all that the model is when nothing went wrong.

    An interrupt may also come after the fork has taken its place, while the turn ends. Then the model becomes what it
    was again, unless another thread has learned on by then. After the last line Python looks for interrupts only when
    the caller goes on.

    `model`: what learns. The names in its ``_learned``, and those that end in an underscore, are what it has learned.
    `learn`: changes the fork that it is given. What it returns is returned. `anew`: whether the fork has its settings
    only.
    """
    after = None
    try:
        with changing(model):
            before = model.__dict__
            random = before.get("random_state")
            draws = random.get_state() if isinstance(random, np.random.RandomState) else None
            fork = as_of(model, _settings(model, before) if anew else forked(before))
            try:
                result = learn(fork)
                after = fork.__dict__
                model.__dict__ = after
            except BaseException:
                _put_back(model, before, draws)
                raise
        return result
    except BaseException:
        if after is not None:
            with changing(model):
                if model.__dict__ is after:
                    _put_back(model, before, draws)
        raise


def change_by_row(model: Any, learn: Callable[[], tuple[dict[str, Any], T] | None]) -> T | None:
    """Change a model as `change` does, by what needs no fork of all that the model is.

    `learn`: returns the attributes that the model has afterwards and a result, or None where nothing changes. Returns
    the result of `learn`, or None.
    """
    after, turn = None, changing(model)
    try:
        with turn:
            before = model.__dict__
            found = learn()
            if found is None:
                return None
            after, result = found
            model.__dict__ = after
        return result
    except BaseException:
        if after is not None:
            with turn:
                if model.__dict__ is after:
                    model.__dict__ = before
        raise


def as_of(model: Model, attributes: dict[str, Any]) -> Model:
    """Return the model that has these attributes."""
    other = object.__new__(type(model))
    other.__dict__ = attributes
    return other


def forked(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return attributes of a model that may change while somebody reads those given."""
    attributes = dict(attributes)  # in one step: those who predict may add what they looked up
    forks = {name: each.fork() for name, each in attributes.items() if name[0] == "_" and hasattr(each, "fork")}
    return attributes | forks


def _settings(model: Any, attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: each for name, each in dict(attributes).items() if name[-1] != "_" and name not in model._learned}


def _put_back(model: Any, before: dict[str, Any], draws: Any) -> None:
    model.__dict__ = before
    if draws is not None:
        model.random_state.set_state(draws)
