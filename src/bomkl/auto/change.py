"""A call that changes a model: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from bomkl._guard import changing

T = TypeVar("T")


def change(model: Any, learn: Callable[[Any], T]) -> T:
    """Let a copy of a model learn; it takes the place of all that the model is when nothing went wrong.

    Other threads see the model as of the last call that ended. Whatever happens meanwhile, an interrupt included, that
    is what it stays. Attributes that change in place have a method `fork`.

    An interrupt may also come after the copy has taken its place, while the turn ends. Then the model becomes what it
    was again, unless another thread has learned on by then. After the last line Python looks for interrupts only when
    the caller goes on.
    """
    after = None
    try:
        with changing(model):
            before = model.__dict__
            random = model.random_state
            draws = random.get_state() if isinstance(random, np.random.RandomState) else None
            copy = model._beside(forked(before))
            try:
                result = learn(copy)
                after = copy.__dict__
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


def forked(attributes: dict[str, Any]) -> dict[str, Any]:
    """Return attributes of a model that may change while somebody reads those given."""
    forks = {name: each.fork() for name, each in attributes.items() if name[0] == "_" and hasattr(each, "fork")}
    return attributes | forks


def _put_back(model: Any, before: dict[str, Any], draws: Any) -> None:
    model.__dict__ = before
    if draws is not None:
        model.random_state.set_state(draws)
