"""Predictions: made in the event loop with the last whole model, those that come at the same time in one call."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from bomkl.serve.errors import RefusedError, wrong
from bomkl.serve.model.columns import Columns
from bomkl.serve.model.learner import View
from bomkl.serve.requests.work import Work

_MOST_INLINE = 64  # rows of a request up to which the event loop predicts itself: that takes about a millisecond
MOST_EXPLAINED = 100  # rows of a request that can be explained


class Predictor:
    """Answers requests for predictions.

    The model thread puts a whole model in place of the last one after every few rows, so nobody waits for it here.

    `columns`: returns what is known of the columns.
    """

    def __init__(self, view: Callable[[], View], columns: Callable[[], Columns | None]) -> None:
        self._view, self._columns = view, columns
        self._waiting: list[tuple[Work, asyncio.Future[Any]]] = []

    async def predict(self, work: Work) -> dict[str, list[Any] | int]:
        """Predict the rows of a request; raises `RefusedError` if it cannot be done."""
        if work.interval is not None or work.explain or work.size > _MOST_INLINE:
            (answer,) = await asyncio.to_thread(self.answers, [work])
            return _result(answer)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._answer_all)  # after the requests that have come already
        self._waiting.append((work, future))
        return _result(await future)

    def check(self, work: Work) -> None:
        """Raise `RefusedError` if the model cannot do what a request asks for."""
        columns, view = self._columns(), self._view()
        if work.interval is not None and (
            (columns is not None and columns.labels not in (None, "number"))
            or (view.fitted and not hasattr(view.estimator, "predict_interval"))
        ):
            raise RefusedError(422, "interval needs a model that predicts numbers and knows its errors.", "interval")
        if work.explain and view.fitted and not hasattr(view.estimator, "explain"):
            name = type(view.estimator).__name__
            raise RefusedError(422, f"explain needs an Auto model. This one is a {name}.", "explain")
        if work.explain and work.size > MOST_EXPLAINED:
            raise wrong("explain", f"come with at most {MOST_EXPLAINED} rows", work.size)

    def _answer_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        answers = self.answers([work for work, _ in waiting])
        for (_, future), answer in zip(waiting, answers, strict=True):
            if not future.done():  # else the client went away
                future.set_result(answer)

    def answers(self, works: list[Work]) -> list[Any]:
        """Predict the rows of some requests, with one model; an answer may be an error."""
        view, columns = self._view(), self._columns()
        answers: list[Any] = [self._prepared(work, columns) for work in works]
        good = [at for at, problem in enumerate(answers) if problem is None]
        rows = [row for at in good for row in works[at].cells]
        first = works[0]  # requests with options come alone
        try:
            made = view.predict(rows, columns, first.interval, first.explain) if columns is not None and rows else {}
        except Exception as error:  # a row that the model refuses; the other requests must not suffer
            if len(works) == 1:
                return [_refusal(view, first, columns, error)]
            return [self.answers([work])[0] for work in works]
        begin = 0
        for at in good:
            end = begin + works[at].size
            parts = {name: values[begin:end] for name, values in made.items()}
            answers[at] = {"predictions": [None] * works[at].size, **parts, "rows": view.rows}
            begin = end
        return answers

    def _prepared(self, work: Work, columns: Columns | None) -> RefusedError | None:
        try:
            if not work.cells and columns is not None:
                work.cells, _ = columns.cells(work.rows, work.where, learn=False)
        except RefusedError as error:
            return error
        return None


def _result(answer: Any) -> dict[str, Any]:
    if isinstance(answer, BaseException):
        raise answer
    found: dict[str, Any] = answer
    return found


def _refusal(view: View, work: Work, columns: Columns | None, error: Exception) -> RefusedError:
    """Name the first row that the model cannot predict."""
    assert columns is not None
    for row, place in zip(work.cells, work.where, strict=True):
        try:
            view.predict([row], columns, work.interval, work.explain)
        except Exception as found:
            return RefusedError(422, f"{place} cannot be predicted: {found}", place)
    return RefusedError(503, f"The rows cannot be predicted at the moment: {error}", retry_after=5)
