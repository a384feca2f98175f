"""A call that changes a model: all of it, or nothing."""

from __future__ import annotations

from types import TracebackType
from typing import Any

import numpy as np

from bomkl._guard import changing


class Change:
    """A with block that gets a copy of the model to learn with; it takes the place of the model at the end.

    Other threads see the model as of the last call that ended. Whatever happens meanwhile, an interrupt included, that
    is what it stays. Attributes that change in place have a method `fork`.

    An interrupt may also come after the copy has taken its place and before the block is left. Then the model is what
    it was again, unless another thread has learned on by then. It is a class, and not a generator, because Python looks
    for interrupts between the end of a generator and the end of its block, but not after the last line of `__exit__`.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self.turn = changing(model)
        self.draws: Any = None

    def __enter__(self) -> Any:
        self.turn.__enter__()
        try:
            self.before = self.model.__dict__
            if isinstance(self.model.random_state, np.random.RandomState):
                self.draws = self.model.random_state.get_state()
            items = self.before.items()
            forks = {name: each.fork() for name, each in items if name[0] == "_" and hasattr(each, "fork")}
            self.copy = self.model._beside(self.before | forks)
        except BaseException as error:
            self.turn.__exit__(type(error), error, error.__traceback__)
            raise
        return self.copy

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.model.__dict__ = self.copy.__dict__
            elif self.draws is not None:
                self.model.random_state.set_state(self.draws)
            self.turn.__exit__(kind, error, trace)
        except BaseException:
            self._take_back()
            raise

    def _take_back(self) -> None:
        with changing(self.model):
            if self.model.__dict__ is self.copy.__dict__:
                self.model.__dict__ = self.before
                if self.draws is not None:
                    self.model.random_state.set_state(self.draws)
