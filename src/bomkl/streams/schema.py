"""What the columns of a stream mean, so that a later stream is read as the first one was."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

Kind = Literal["number", "vocabulary", "hash", "text", "boolean", "date", "unknown"]
LabelKind = Literal["number", "string"]
Label = int | float | str


@dataclass(frozen=True)
class Column:
    """One column of a table that holds a feature.

    Parameters
    ----------
    name : str
        Its name in the header.
    kind : {"number", "vocabulary", "hash", "text", "boolean", "date", "unknown"}
        How its cells become features: as a number, one feature per recorded value, or hashed. In a stream of tables a
        column holds numbers, strings, booleans or dates, or has not shown a value yet.
    values : tuple of str, default=()
        The recorded values, for a vocabulary.
    """

    name: str
    kind: Kind
    values: tuple[str, ...] = ()


@dataclass(frozen=True)
class Schema:
    """What the columns of a source mean, so that its rows become the same features every time.

    Parameters
    ----------
    n_features : int
        Width of the matrix.
    columns : tuple of Column or None, default=None
        Columns of a table, in order. None: features have positions only (svmlight, npz).
    label : str or None, default=None
        Column of the label in a table.
    ignored : tuple of str, default=()
        Columns that are neither feature nor label.
    buckets : int, default=0
        Features that hashed columns share; they come last.
    label_kind : {"number", "string"}, default="number"
        Whether labels are numbers.
    classes : tuple of int, float or str, or None, default=None
        Labels that may occur. None: any.
    weight : str or None, default=None
        Column of the weight of each row.

    Examples
    --------
    >>> schema = Schema(3, (Column("age", "number"), Column("city", "vocabulary", ("Bonn", "Oslo"))), "label")
    >>> Schema.from_dict(schema.to_dict()) == schema
    True
    >>> schema.feature_names()
    ['age', 'city=Bonn', 'city=Oslo']
    """

    n_features: int
    columns: tuple[Column, ...] | None = None
    label: str | None = None
    ignored: tuple[str, ...] = ()
    buckets: int = 0
    label_kind: LabelKind = "number"
    classes: tuple[Label, ...] | None = None
    weight: str | None = None

    @property
    def left_out(self) -> set[str]:
        """Columns that are no features and need not be there."""
        return {*self.ignored, *([] if self.weight is None else [self.weight])}

    def feature_names(self) -> list[str] | None:
        """Return the name of every feature, or None if features have positions only."""
        if self.columns is None:
            return None
        names = [
            name
            for column in self.columns
            if column.kind != "hash"
            for name in (
                [f"{column.name}={v}" for v in column.values] if column.kind == "vocabulary" else [column.name]
            )
        ]
        return names + [f"hash_{bucket}" for bucket in range(self.buckets)]

    def with_columns(self, columns: Iterable[Column], buckets: int = 0) -> Schema:
        """Give the same schema with these columns and the width that they need."""
        columns = tuple(columns)
        buckets = buckets if any(column.kind == "hash" for column in columns) else 0
        found = replace(self, columns=columns, buckets=buckets)
        return replace(found, n_features=len(found.feature_names() or ()))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        plain: dict[str, Any] = json.loads(json.dumps(asdict(self)))
        return plain

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Schema:
        """Rebuild what `to_dict` gave."""
        columns = plain["columns"]
        return cls(
            n_features=int(plain["n_features"]),
            columns=None
            if columns is None
            else tuple(Column(c["name"], c["kind"], tuple(c["values"])) for c in columns),
            label=plain["label"],
            ignored=tuple(plain["ignored"]),
            buckets=int(plain["buckets"]),
            label_kind=plain["label_kind"],
            classes=None if plain["classes"] is None else tuple(plain["classes"]),
            weight=plain.get("weight"),
        )
