"""How a stream is to be read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bomkl._support.validation import (
    check_bool,
    check_choice,
    check_count,
    check_not_negative,
    is_finite_number,
    parameter_error,
)


@dataclass(frozen=True)
class StreamOptions:
    """Settings of `open_stream`.

    Parameters
    ----------
    format : {"svmlight", "csv", "tsv", "jsonl", "parquet", "arrow", "npz"} or None, default=None
        Format of the files. None: the file name decides, or else the content.
    label : str, int or None, default=None
        Name or position of the label column of a table. None: ``"label"``.
    labels : bool, default=True
        Whether to read labels. If False, they may be absent, and ``block.y`` is None.
    weight : str, int or None, default=None
        Name or position of the column that holds the weight of each row; ``block.weight`` returns them.
    target : {"class", "number"}, default="class"
        What labels are: classes, or numbers to predict.
    header : bool, default=True
        Whether the first line of a CSV or TSV file names the columns. If False, their names are 0, 1, 2 ...
    delimiter : str or None, default=None
        Column separator. None: a tab for TSV files, a semicolon if `decimal` is a comma, else a comma.
    decimal : {".", ","}, default="."
        Decimal mark of numbers in CSV and TSV files. With a comma, numbers are written 1234,5 or 1.234,5.
    quote : str, default='"'
        Character around strings of CSV and TSV files. In such a string, it is written twice. With "", quotes are
        letters like others.
    escape : str or None, default=None
        Character of CSV and TSV files, such as a backslash, that takes from the next one its meaning.
    ignore : sequence of str, default=()
        Columns of a table to leave out.
    strings : sequence of str, default=()
        Columns of a table to treat as strings although they look like numbers.
    missing : {"error", "skip", "keep"} or float, default="error"
        What to do with a missing value: report a bad line, leave out the row, or put this number in its place (a
        missing string then has none of the features of its column). "keep", with ``as_tables``, returns NaN or None.
    categorical : {"vocabulary", "hash", "error"}, default="vocabulary"
        How columns of strings become features: one feature for each value that the schema knows (other values have
        none), hashed into `buckets` features, or not at all.
    buckets : int, default=1024
        Number of features that all hashed columns share.
    max_values : int, default=1000
        Largest number of values of a column of strings.
    zero_based : bool, default=False
        Whether svmlight indices start at 0.
    n_features : int or None, default=None
        Number of svmlight features. None: that of the schema, or else the largest index of the first block.
    on_bad_line : {"stop", "skip"}, default="stop"
        Whether a bad line raises `BadLineError`, or is left out and counted in ``stream.skipped``.
    block_rows : int, default=4096
        Number of rows in a block; the last block may be shorter.
    flush_seconds : float, default=0.2
        How long rows of a pipe may wait for more rows before they become a shorter block.
    as_tables : bool, default=False
        Whether a block of a table is a dict of columns, for the estimators and `bomkl.tables`: arrays of numbers and
        lists of strings. Rows whose columns have no names are always a matrix.
    new_columns : {"learn", "ignore", "refuse"}, default="learn"
        With ``as_tables``: whether columns that were not in the first row are handed on, left out and counted in
        ``stream.ignored``, or an error.
    """

    format: str | None = None
    label: str | int | None = None
    labels: bool = True
    weight: str | int | None = None
    target: Literal["class", "number"] = "class"
    header: bool = True
    delimiter: str | None = None
    decimal: Literal[".", ","] = "."
    quote: str = '"'
    escape: str | None = None
    ignore: Sequence[str] = ()
    strings: Sequence[str] = ()
    missing: str | float = "error"
    categorical: Literal["vocabulary", "hash", "error"] = "vocabulary"
    buckets: int = 1024
    max_values: int = 1000
    zero_based: bool = False
    n_features: int | None = None
    on_bad_line: Literal["stop", "skip"] = "stop"
    block_rows: int = 4096
    flush_seconds: float = 0.2
    as_tables: bool = False
    new_columns: Literal["learn", "ignore", "refuse"] = "learn"

    def __post_init__(self) -> None:
        owner = "open_stream"
        for name in ("labels", "header", "zero_based", "as_tables"):
            check_bool(owner, name, getattr(self, name))
        for name in ("ignore", "strings"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        check_choice(owner, "target", self.target, ("class", "number"))
        check_choice(owner, "categorical", self.categorical, ("vocabulary", "hash", "error"))
        check_choice(owner, "on_bad_line", self.on_bad_line, ("stop", "skip"))
        check_choice(owner, "new_columns", self.new_columns, ("learn", "ignore", "refuse"))
        check_not_negative(owner, "flush_seconds", self.flush_seconds)
        if self.missing not in ("error", "skip", "keep") and not is_finite_number(self.missing):
            raise parameter_error(owner, "missing", "'error', 'skip', 'keep' or a finite number", self.missing)
        if self.missing == "keep" and not self.as_tables:
            raise parameter_error(owner, "missing", "'error', 'skip' or a finite number in a matrix", self.missing)
        for name in ("delimiter", "quote", "escape"):
            value = getattr(self, name)
            if name == "quote" and value == "":
                continue
            if value is not None and (not isinstance(value, str) or len(value) != 1 or value in "\r\n"):
                raise parameter_error(owner, name, "one character", value)
        check_choice(owner, "decimal", self.decimal, (".", ","))
        if self.quote in (self.delimiter, self.escape):
            raise parameter_error(owner, "quote", "another character than 'delimiter' and 'escape'", self.quote)
        for name in ("buckets", "max_values", "block_rows"):
            check_count(owner, name, getattr(self, name))
        if self.n_features is not None:
            check_count(owner, "n_features", self.n_features)
