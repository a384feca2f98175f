"""What the columns of a stream mean, so that a later stream is read as the first one was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
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

    def sized(self) -> Schema:
        """Give the same schema with the width that its columns need."""
        widths = {"hash": 0, "vocabulary": None}
        each = (widths.get(column.kind, 1) for column in self.columns or ())
        width = sum(len(c.values) if w is None else w for w, c in zip(each, self.columns or (), strict=True))
        return replace(self, n_features=width + self.buckets)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        columns = self.columns and [{"name": c.name, "kind": c.kind, "values": list(c.values)} for c in self.columns]
        return {
            "n_features": self.n_features,
            "columns": columns,
            "label": self.label,
            "ignored": list(self.ignored),
            "buckets": self.buckets,
            "label_kind": self.label_kind,
            "classes": None if self.classes is None else list(self.classes),
            "weight": self.weight,
        }

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Schema:
        """Rebuild what `to_dict` gave."""
        columns = plain["columns"]
        return cls(
            n_features=int(plain["n_features"]),
            columns=columns and tuple(Column(c["name"], c["kind"], tuple(c["values"])) for c in columns),
            label=plain["label"],
            ignored=tuple(plain["ignored"]),
            buckets=int(plain["buckets"]),
            label_kind=plain["label_kind"],
            classes=None if plain["classes"] is None else tuple(plain["classes"]),
            weight=plain.get("weight"),
        )
