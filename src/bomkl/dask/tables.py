"""Dask tables, arrays and files as delayed partitions, and what a worker makes of one."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from dask.delayed import Delayed, delayed
from distributed import Future

from bomkl.partitions import features, named


def delayed_tables(data: Any, y: Any, sample_weight: Any, target: Any) -> list[Delayed]:
    """Rows, targets and weights of each partition, as delayed objects."""
    parts, weight = _delayed_parts(data, y, sample_weight, target)
    return [delayed(_table, pure=True)(part, i, target, weight) for i, part in enumerate(parts)]


def _delayed_parts(data: Any, y: Any, sample_weight: Any, target: Any) -> tuple[list[Any], Any]:
    """Partitions as delayed objects or futures, and the name of the column of weights, where it is one."""
    if isinstance(data, str | os.PathLike):
        data = _read_folder(os.fspath(data))
    if hasattr(data, "to_delayed") and hasattr(data, "columns"):
        weight = sample_weight if isinstance(sample_weight, str) else None
        for name, argument in ((target, "target"), (weight, "sample_weight")):
            if name is not None and name not in data.columns and (argument != "target" or y is None):
                raise ValueError(f"{argument}={name!r} is not a column of the table. It has {list(data.columns)}.")
        if y is None and (weight is not None or sample_weight is None):
            return list(data.to_delayed()), weight
        data, y, sample_weight = _split_table(data, y, sample_weight, target, weight)
        columns = [each for each in (data, y, sample_weight) if each is not None]
        _check_kind(columns[1:], "npartitions", "Series")
        counts = [each.npartitions for each in columns]
        if len(set(counts)) > 1:
            raise ValueError(f"X, y and sample_weight must have the same number of partitions. Got {counts}.")
        return [
            delayed(_as_tuple)(*parts) for parts in zip(*(each.to_delayed() for each in columns), strict=True)
        ], None
    if hasattr(data, "to_delayed"):  # an array
        if y is None:
            raise ValueError("Arrays need their targets: fit(X, y).")
        _check_kind([each for each in (y, sample_weight) if each is not None], "rechunk", "array")
        data = data.rechunk({1: -1}) if data.ndim == 2 and data.numblocks[1] > 1 else data
        others = [each.rechunk({0: data.chunks[0]}) for each in (y, sample_weight) if each is not None]
        blocks = [each.to_delayed().reshape(-1) for each in (data, *others)]
        return [delayed(_as_tuple)(*parts) for parts in zip(*blocks, strict=True)], None
    if isinstance(data, Sequence) and all(isinstance(part, Delayed | Future) for part in data):
        return list(data), sample_weight
    raise TypeError(
        "Data must be a Dask DataFrame or array, a list of delayed partitions or futures, or the path of a Parquet "
        f"file or folder. Got {type(data).__name__}."
    )


def _check_kind(columns: list[Any], attribute: str, kind: str) -> None:
    for each in columns:
        if not hasattr(each, attribute):
            raise TypeError(f"y and sample_weight must each be a Dask {kind}, as X is. Got {type(each).__name__}.")


def _split_table(data: Any, y: Any, sample_weight: Any, target: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Take targets and weights that are columns out of a table."""
    if weight is not None:
        data, sample_weight = data.drop(columns=weight), data[weight]
    if y is None:
        data, y = data.drop(columns=target), data[target]
    return data, y, sample_weight


def _read_folder(path: str) -> Any:
    import dask.dataframe as dd

    if not (glob.glob(path) or os.path.exists(path)):
        raise FileNotFoundError(f"{path}: there is no such file or folder.")
    return dd.read_parquet(path)


def _as_tuple(*parts: Any) -> tuple[Any, ...]:
    return parts


def _table(part: Any, number: int, target: Any, weight: Any) -> tuple[Any, Any, Any]:
    """Rows, targets and weights of a partition."""
    with named(number):
        if isinstance(part, tuple):
            X, y, *rest = part
            return features(X), _plain(y), _plain(rest[0]) if rest else None
        for name in (target, *([] if weight is None else [weight])):
            if name not in part.columns:
                raise ValueError(f"there is no column {name!r}.")
        names = [name for name in part.columns if name not in (target, weight)]
        return features(part[names]), _plain(part[target]), None if weight is None else _plain(part[weight])


def _plain(column: Any) -> Any:
    return None if column is None else np.asarray(column).reshape(-1)
