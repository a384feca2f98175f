"""What the service answers, as its OpenAPI schema shows it."""

from __future__ import annotations

from typing import Any

from fastapi.responses import Response
from pydantic import BaseModel
from pydantic_core import to_json

from bomkl.serve.formats.bodies import JSON, Label


class Explanation(BaseModel):
    """A prediction taken apart: what each column, each kernel and some of the stored rows added to the score."""

    score: float
    columns: dict[str, float]
    kernels: dict[str, float]
    stored_rows: list[tuple[int, float]]
    remainder: float


class Prediction(BaseModel):
    """What the model says about a row, and how many rows it had learned; null before it has learned from any."""

    prediction: Label | None
    probabilities: dict[str, float] | None = None
    lower: float | None = None
    upper: float | None = None
    explanation: Explanation | None = None
    rows: int


class Predictions(BaseModel):
    """What the model says about rows, and how many rows it had learned."""

    predictions: list[Label | None]
    probabilities: dict[str, list[float]] | None = None
    lower: list[float | None] | None = None
    upper: list[float | None] | None = None
    explanations: list[Explanation | None] | None = None
    rows: int


class Learned(BaseModel):
    """The prediction made before the model learned from the row, and the number of rows in the log."""

    rows: int
    prediction: Label | None


class LearnedRows(BaseModel):
    """The predictions made before the model learned from each row, and the number of rows in the log."""

    rows: int
    predictions: list[Label | None]


class Problem(BaseModel):
    """Why a request was refused; nothing was learned."""

    detail: str
    field: str | None = None


class Replaying(Problem):
    """Why every request is refused for a while: after a start, the model learns the rows after the last snapshot."""

    replayed: int | None = None
    rows: int | None = None


class JsonResponse(Response):
    """JSON, written by pydantic."""

    media_type = JSON

    def render(self, content: Any) -> bytes:
        return to_json(content)


REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": Problem, "description": text}
    for status, text in {
        400: "The body cannot be read.",
        401: "The token is missing or wrong.",
        408: "The body came too slowly.",
        409: "The id is in use.",
        413: "The body or the number of rows is too large.",
        415: "The content type is none of those named here.",
        422: "A field is wrong; it is named.",
        429: "Too many rows are waiting; try again after Retry-After seconds.",
        503: "The log is being replayed, or the service is stopping or has failed.",
        507: "The disk is full; nothing was learned.",
    }.items()
}
