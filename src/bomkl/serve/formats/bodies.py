"""Bodies of requests: JSON, JSON lines and Arrow, checked against one model each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    model_validator,
)
from pydantic_core import from_json

from bomkl._support.limits import LONGEST_NAME, LONGEST_TEXT, MOST_COLUMNS_OF_REQUEST
from bomkl.serve.errors import RefusedError, field_of, wrong
from bomkl.serve.formats.arrow import read_arrow
from bomkl.serve.formats.bulk import are_plain_cells, is_plain_body, plain_lines
from bomkl.tables.frames import flat

JSON, NDJSON, ARROW = "application/json", "application/x-ndjson", "application/vnd.apache.arrow.stream"
MOST_ROWS = 10_000
_MOST_FIELDS = 20

Text = Annotated[StrictStr, StringConstraints(max_length=LONGEST_TEXT)]
Finite = Annotated[StrictFloat, Field(allow_inf_nan=False)]
Cell = StrictBool | StrictInt | Finite | Text | None
Label = StrictBool | StrictInt | Finite | Annotated[StrictStr, StringConstraints(min_length=1, max_length=LONGEST_NAME)]


def _few_columns(row: Any) -> Any:
    """Turn objects and lists in a row into columns, of which there must not be too many."""
    if row == {}:
        raise ValueError("A row must have at least one column.")
    row = flat(row) if isinstance(row, dict) else row
    if isinstance(row, dict) and len(row) > MOST_COLUMNS_OF_REQUEST:
        raise ValueError(f"A row must have at most {MOST_COLUMNS_OF_REQUEST} columns. Got {len(row)} instead.")
    return row


Row = Annotated[
    dict[str, Cell],
    Field(description="Cells by column name; null is a missing value."),
    BeforeValidator(_few_columns),
]
Id = Annotated[
    StrictStr,
    StringConstraints(min_length=1, max_length=LONGEST_NAME),
    Field(description="Name of the row. It is kept until its label comes."),
]
# Each wrong value costs kilobytes, so a list stops at its first. Rows and bodies have a bounded number of values.
Many = Field(min_length=1, max_length=MOST_ROWS, fail_fast=True)


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", str_strip_whitespace=False)

    @model_validator(mode="before")
    @classmethod
    def _few_fields(cls, content: Any) -> Any:
        if isinstance(content, dict) and len(content) > _MOST_FIELDS:
            names = ", ".join(cls.model_fields)
            raise ValueError(f"It must have no fields but {names}. Got {len(content)} instead.")
        return content


class _Rows(_Body):
    rows: Annotated[list[Row], Many]

    @model_validator(mode="after")
    def _as_many(self) -> Self:
        rows = len(self.rows)
        for name, values in self:
            if values is not None and len(values) != rows:
                raise ValueError(f"{name} must have one value for each of the {rows} rows. Got {len(values)} instead.")
        return self


class PredictRow(_Body):
    """One row to predict."""

    row: Row
    id: Id | None = None


class PredictRows(_Rows):
    """Rows to predict."""

    ids: Annotated[list[Id], Many] | None = None


class LearnRow(_Body):
    """One row to learn from."""

    row: Row
    y: Label


class LearnRows(_Rows):
    """Rows to learn from, in this order."""

    y: Annotated[list[Label], Many]


class LabelRow(_Body):
    """The label of a row that was predicted with an id."""

    id: Id
    y: Label


class LabelRows(_Body):
    """Labels of rows that were predicted with ids, in the order in which to learn from them."""

    labels: Annotated[list[LabelRow], Many]


@dataclass
class Parsed:
    where: list[str]  # what messages call each row
    rows: list[dict[str, Any]]  # cells of each row; empty where rows are named by their ids
    labels: list[Any] | None  # labels and names of the rows, where there are any
    ids: list[str] | None
    single: bool = False  # whether the request was about one row rather than a list


class Parser:
    """Reads the bodies of one kind of request.

    `one` and `many`: models of a body with one row, and with several.
    """

    def __init__(self, one: type[BaseModel], many: type[BaseModel]) -> None:
        self.one, self.many = one, many
        self.needs = {name for name, field in one.model_fields.items() if field.is_required()}
        self._needs_many = {name for name, field in many.model_fields.items() if field.is_required()}
        self._one, self._many = TypeAdapter(one), TypeAdapter(many)
        self._list = next(iter(many.model_fields))

    @property
    def content_types(self) -> tuple[str, ...]:
        """What bodies may be; labels alone are no table."""
        return (JSON, NDJSON, ARROW) if "row" in self.needs else (JSON, NDJSON)

    def __call__(self, body: bytes, content_type: str) -> Parsed:
        """Read a body; raises `RefusedError` that names the field that is wrong."""
        return _checked({JSON: self._json, NDJSON: self._lines, ARROW: self._arrow}[self.kind(content_type)](body))

    def of(self, content: Any) -> Parsed:
        return _checked(self._content(content))

    def kind(self, content_type: str) -> str:
        """Return the content type without its parameters, if it is one of those that bodies may have."""
        kind = content_type.partition(";")[0].strip().lower()
        if kind not in self.content_types:
            raise wrong("Content-Type", f"be one of {', '.join(self.content_types)}", content_type, 415)
        return kind

    def _json(self, body: bytes) -> Parsed:
        try:
            content = from_json(body)
        except ValueError as error:
            raise RefusedError(400, f"The body is not JSON: {error}.", "body") from None
        return self._content(content)

    def _content(self, content: Any) -> Parsed:
        several = isinstance(content, dict) and self._list in content
        if several and is_plain_body(content, self._needs_many, self.many.model_fields.keys(), MOST_ROWS):
            return _of_lists(content["rows"], content.get("y"), content.get("ids"))
        try:
            parsed: Any = (self._many if several else self._one).validate_python(content)
        except ValidationError as error:
            raise refusal(error) from None
        return _of_many(parsed) if several else _of_ones([parsed], ["row"], single=True)

    def _lines(self, body: bytes) -> Parsed:
        if (ends := body.count(b"\n")) > 4 * MOST_ROWS:  # also of empty lines
            raise wrong("body", f"have 1 to {MOST_ROWS} lines", ends, 413)
        lines = [(number, line) for number, line in enumerate(body.split(b"\n"), start=1) if line.strip()]
        if not 1 <= len(lines) <= MOST_ROWS:
            raise wrong("body", f"have 1 to {MOST_ROWS} lines", len(lines), 413 if lines else 422)
        where = [f"line {number}.row" for number, _ in lines]
        fields = plain_lines([line for _, line in lines], self.needs, self.one.model_fields.keys())
        if fields is not None:
            return _of_fields(fields, where)
        ones = []
        for number, line in lines:
            try:
                ones.append(self._one.validate_json(line))
            except ValidationError as error:
                raise refusal(error, f"line {number}") from None
        return _of_ones(ones, where)

    def _arrow(self, body: bytes) -> Parsed:
        columns = read_arrow(body, MOST_ROWS)
        size = len(next(iter(columns.values())))
        labels = columns.pop("y", None) if "y" in self.needs else None
        ids = columns.pop("id", None) if "id" in self.one.model_fields else None
        if "y" in self.needs and labels is None:
            raise RefusedError(422, "y is missing: the table must have a column y with the labels.", "y")
        if not columns:
            raise RefusedError(422, "The table must have columns other than y and id.", "body")
        names = list(columns)
        try:
            for name in names:
                if not are_plain_cells(columns[name]):
                    _CELLS.validate_python(columns[name])
        except ValidationError as error:
            raise refusal(error, name) from None
        rows = [dict(zip(names, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
        try:
            checked = self._many.validate_python(
                {"rows": rows[:1] * size} | ({"y": labels} if labels else {}) | ({"ids": ids} if ids else {})
            )
        except ValidationError as error:
            raise refusal(error) from None
        return _of_lists(rows, getattr(checked, "y", None), getattr(checked, "ids", None))


_CELLS = TypeAdapter(Annotated[list[Cell], Field(fail_fast=True)])
predict_body = Parser(PredictRow, PredictRows)
learn_body = Parser(LearnRow, LearnRows)
label_body = Parser(LabelRow, LabelRows)


def _checked(parsed: Parsed) -> Parsed:
    """Refuse ids that are there twice."""
    places: dict[str, int] = {}
    for at, name in enumerate(parsed.ids or ()):
        if places.setdefault(name, at) != at:
            raise wrong(field_of(parsed.where[at], "id"), "be there only once", name)
    return parsed


def _of_ones(ones: Sequence[Any], where: list[str], single: bool = False) -> Parsed:
    names = type(ones[0]).model_fields
    return _of_fields({name: [getattr(one, name) for one in ones] for name in names}, where, single)


def _of_fields(fields: dict[str, list[Any]], where: list[str], single: bool = False) -> Parsed:
    ids = fields.get("id")
    if ids is not None and None in ids:
        if any(name is not None for name in ids):
            raise wrong(field_of(where[ids.index(None)], "id"), "be there in all lines or in none", None)
        ids = None
    if "row" not in fields:
        where = [place.removesuffix("row").removesuffix(".") for place in where]
    return Parsed(where, fields.get("row", []), fields.get("y"), ids, single)


def _of_many(many: Any) -> Parsed:
    if isinstance(many, LabelRows):
        where = [f"labels[{at}]" for at in range(len(many.labels))]
        return Parsed(where, [], [one.y for one in many.labels], [one.id for one in many.labels])
    return _of_lists(many.rows, getattr(many, "y", None), getattr(many, "ids", None))


def _of_lists(rows: list[dict[str, Any]], labels: list[Any] | None, ids: list[str] | None) -> Parsed:
    return Parsed([f"rows[{at}]" for at in range(len(rows))], rows, labels, ids)


_MEMBERS = frozenset(
    {"bool_type", "int_type", "float_type", "finite_number", "string_type", "string_too_long", "string_too_short"}
    | {"none_required"}
)


def refusal(error: ValidationError, place: str = "") -> RefusedError:
    """Make one message that names the field out of what pydantic found."""
    found = error.errors(include_url=False, include_context=False)
    if found[0]["type"] == "json_invalid":
        where = place or "body"
        return RefusedError(400, f"{where}: not JSON: {found[0]['msg'].removeprefix('Invalid JSON: ')}.", where)
    first = found[0]
    # a union reports every member that did not fit, the member's name last
    members = [each for each in found if each["type"] in _MEMBERS and each["loc"][:-1] == first["loc"][:-1]]
    if len(members) > 1:
        field = _name(first["loc"][:-1], place)
        short = next((each for each in members if each["type"].startswith("string_too")), None)
        null = ", or null" if any(each["type"] == "none_required" for each in members) else ""
        rule = f"be a finite number, a string, true or false{null}"
        rule = short["msg"].removeprefix("String should ") if short else rule
        return wrong(field, rule, first["input"])
    field = _name(first["loc"], place)
    if first["type"] == "missing":
        return RefusedError(422, f"{field} is missing.", field)
    if first["type"] == "extra_forbidden":
        return RefusedError(422, f"{field} is not a field of this request.", field)
    if first["type"] == "value_error":
        return RefusedError(422, first["msg"].removeprefix("Value error, "), field)
    status = 413 if first["type"] == "too_long" else 422
    rule = "be a JSON object" if first["type"] in ("model_type", "dict_type") else first["msg"].partition(" should ")[2]
    return wrong(field, rule, first["input"], status)


def _name(location: Sequence[int | str], place: str) -> str:
    """Name a field as a reader of the body would: ``rows[3].age``."""
    name = place
    for part in location:
        name += f"[{part}]" if isinstance(part, int) else f".{part[:80]}" if name else part[:80]
    return name or "body"
