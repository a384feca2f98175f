"""`bomkl bench tables`: tables with texts, dates and gaps: AutoMKL, River's forest and Vowpal Wabbit.

Every row is predicted before its label is used, in one pass, with nothing declared. ``churn``, ``flights`` and
``hotel`` are read from ``tables/NAME.csv.gz`` in a folder of `bomkl datasets path` or in ``BOMKL_DATA``; ``NAME.npz``
beside that folder holds the same rows with categories one-hot encoded in hindsight. Errors are mistakes in percent, for
hotel the root mean squared error in percent of the deviation. churn is shuffled by the seed; the others come in time.

"complete rows" is what the blanked cells of churn cost a learner that knows all there is to know: boosted trees fitted
to complete rows only, nine tenths of all, predict the other tenth. A blanked cell that other cells tell is not blanked;
for the rest, probabilities are averaged over cells of other rows, which is right where columns are independent.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np

from bomkl import AutoMKLClassifier, AutoMKLRegressor
from bomkl.tables import TableEncoder
from bomkl_lab.benchmarks.common.rows import markdown
from bomkl_lab.benchmarks.peers_methods import peer
from bomkl_lab.benchmarks.table_shapes import JUDGES, SHAPES, shape_errors
from bomkl_lab.experiments.datasets import data_folders

TARGETS = {"churn": "churn", "flights": "late", "hotel": "avg_price_per_room"}
BLANKED = 0.1  # share of the cells
PEERS = ("refitted trees", "refitted trees, blanked", "Vowpal Wabbit", "River ARF")
REFIT_ROWS = {"churn": 500, "flights": 2000, "hotel": 500}


def folder() -> Path:
    places = [Path(os.environ["BOMKL_DATA"])] if "BOMKL_DATA" in os.environ else []
    for place in [*places, *data_folders(), Path("../shared/data")]:
        if (place / "tables" / "churn.csv.gz").is_file():
            return place
    raise SystemExit(
        "tables/churn.csv.gz is in none of the data folders; set BOMKL_DATA to the folder that holds tables/."
    )


def raw(name: str, seed: int) -> tuple[Any, Any]:
    table = peer("pandas").read_csv(folder() / "tables" / f"{name}.csv.gz")
    y = table.pop(TARGETS[name]).to_numpy()
    order = np.random.default_rng(seed).permutation(len(y)) if name == "churn" else np.arange(len(y))
    return table.iloc[order], y[order]


def error(name: str, y: Any, predicted: Any) -> float:
    if name == "hotel":
        return float(100 * np.sqrt(np.mean((predicted - y) ** 2)) / y.std())
    return float(100 * np.mean(predicted != y))


def auto(name: str, X: Any, y: Any, seed: int, drift: str | None) -> float:
    if name == "hotel":
        return error(name, y, AutoMKLRegressor(drift=drift, random_state=seed).score_and_learn(X, y))
    model = AutoMKLClassifier(drift=drift, random_state=seed)
    model.score_and_learn(X, y)
    return 100 * model.mistakes_ / len(y)


def blank(X: Any, seed: int, share: float = BLANKED) -> Any:
    return X.mask(np.random.default_rng(seed).random(X.shape) < share)


def on_table(drift: str | None, blanked: bool = False) -> Callable[[str, int], float]:
    def run(name: str, seed: int) -> float:
        X, y = raw(name, seed)
        if blanked:
            X = blank(X, seed)
        return auto(name, X, y, seed, drift)

    return run


def on_hindsight(drift: str | None) -> Callable[[str, int], float]:
    def run(name: str, seed: int) -> float:
        data = np.load(folder() / f"{name}.npz")
        X, y = data["X"], data["y"]
        order = np.random.default_rng(seed).permutation(len(y)) if name == "churn" else np.arange(len(y))
        return auto(name, X[order], y[order], seed, drift)

    return run


def forest(name: str, seed: int) -> float:
    made = peer("river.forest")
    model = made.ARFRegressor(seed=seed, leaf_prediction="mean") if name == "hotel" else made.ARFClassifier(seed=seed)
    X, y = raw(name, seed)
    predicted = []
    for row, target in zip(X.to_dict("records"), y.tolist(), strict=True):
        present = {key: value for key, value in row.items() if value == value}
        found = model.predict_one(present)
        predicted.append((0.0 if name == "hotel" else y[0]) if found is None else found)
        model.learn_one(present, target)
    return error(name, y, np.array(predicted))


def vowpal_wabbit(name: str, seed: int) -> float:
    workspace = peer("vowpalwabbit").Workspace("--quiet" if name == "hotel" else "--quiet --loss_function logistic")
    X, y = raw(name, seed)
    numbers = y if name == "hotel" else np.where(y == np.unique(y)[0], -1, 1)
    out = []
    for row, target in zip(X.to_dict("records"), numbers.tolist(), strict=True):
        cells = (
            f"{key}={value}".replace(" ", "_").replace(":", "-") if isinstance(value, str) else f"{key}:{value}"
            for key, value in row.items()
            if value == value
        )
        example = workspace.parse(f"{target} | {' '.join(cells)}")
        workspace.learn(example)
        out.append(example.get_simplelabel_prediction())
        workspace.finish_example(example)
    workspace.finish()
    return error(name, numbers, np.array(out) if name == "hotel" else np.where(np.array(out) > 0, 1, -1))


def as_numbers(X: Any) -> tuple[Any, Any]:
    """Give a frame as a matrix for scikit-learn's boosted trees, gaps as NaN, and which columns are categories."""
    from sklearn.preprocessing import OrdinalEncoder

    pandas = peer("pandas")
    X = X.copy()
    for name in list(X):
        texts = X[name].dropna()
        if not pandas.api.types.is_numeric_dtype(X[name]) and texts.iloc[0][:2] == "20":
            moments = pandas.to_datetime(X[name], utc=True, format="ISO8601")
            X[name] = (moments - pandas.Timestamp(0, tz="UTC")) / pandas.Timedelta("1D")
            for part in ("hour", "weekday", "dayofyear"):
                X[f"{name} {part}"] = getattr(moments.dt, part)
    categories = np.array([not pandas.api.types.is_numeric_dtype(X[name]) for name in X])
    encoder = OrdinalEncoder(max_categories=250, encoded_missing_value=np.nan)
    X[X.columns[categories]] = encoder.fit_transform(X[X.columns[categories]])
    return X.to_numpy(dtype=np.float64), categories


def refitted(blanked: bool) -> Callable[[str, int], float]:
    """Boosted trees that know gaps and categories, fitted anew to all rows so far: what gaps cost a batch learner."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    def run(name: str, seed: int) -> float:
        X, y = raw(name, seed)
        rows, categories = as_numbers(blank(X, seed) if blanked else X)
        step = REFIT_ROWS[name]
        predicted = np.full(len(y), y[:step].mean()) if name == "hotel" else np.full(len(y), y[0])
        for begin in range(step, len(y), step):
            kind = HistGradientBoostingRegressor if name == "hotel" else HistGradientBoostingClassifier
            model = kind(categorical_features=categories, random_state=seed).fit(rows[:begin], y[:begin])
            predicted[begin : begin + step] = model.predict(rows[begin : begin + step])
        return error(name, y, predicted)

    return run


def complete_rows(blanked: bool) -> Callable[[str, int], float]:
    """Boosted trees fitted to complete rows, in ten folds, and averaged over what blanked cells may have held."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.model_selection import StratifiedKFold

    def run(name: str, seed: int) -> float:
        if name != "churn":
            return float("nan")
        X, y = raw(name, seed)
        rows, categories = as_numbers(X)
        gaps = blank(X, seed).isna() if blanked else X.isna()
        for part in ("day", "eve", "night", "intl"):  # minutes and charge tell each other
            minutes, charge = f"total_{part}_minutes", f"total_{part}_charge"
            gaps[minutes] = gaps[charge] = gaps[minutes] & gaps[charge]
        gaps["voice_mail_plan"] &= gaps["number_vmail_messages"]  # there are messages where there is a plan
        plan, messages = list(X).index("voice_mail_plan"), list(X).index("number_vmail_messages")
        holes, rng, mistakes = gaps.to_numpy(), np.random.default_rng(seed), 0
        for train, test in StratifiedKFold(10, shuffle=True, random_state=seed).split(rows, y):
            model = HistGradientBoostingClassifier(
                categorical_features=categories, learning_rate=0.05, random_state=seed
            ).fit(rows[train], y[train])
            probabilities = np.zeros((len(test), 2))
            for _ in range(25 if blanked else 1):
                drawn = rows[rng.choice(train, len(test))]
                for answer in (0.0, 1.0):
                    known = ~holes[test, plan] & (rows[test, plan] == answer)
                    alike = train[rows[train, plan] == answer]
                    drawn[known, messages] = rows[rng.choice(alike, int(known.sum())), messages]
                probabilities += model.predict_proba(np.where(holes[test], drawn, rows[test]))
            mistakes += int((model.classes_[probabilities.argmax(axis=1)] != y[test]).sum())
        return 100 * mistakes / len(y)

    return run


METHODS: dict[str, Callable[[str, int], float]] = {
    "table": on_table(None),
    "hindsight": on_hindsight(None),
    "table, adapt": on_table("adapt"),
    "hindsight, adapt": on_hindsight("adapt"),
    "blanked": on_table(None, True),
    "blanked, adapt": on_table("adapt", True),
    "refitted trees": refitted(False),
    "refitted trees, blanked": refitted(True),
    "complete rows": complete_rows(False),
    "complete rows, blanked": complete_rows(True),
    "Vowpal Wabbit": vowpal_wabbit,
    "River ARF": forest,
}


def speed() -> str:
    """Cells a second of the encoder."""
    lines = []
    for share in (0.0, BLANKED, 0.5):
        found = []
        for name in TARGETS:
            X, y = raw(name, 0)
            X = blank(X, 0, share)
            start = process_time()
            TableEncoder(target="number" if name == "hotel" else "class").fit_transform(X, y)
            found.append(f"{name} {X.size / (process_time() - start):,.0f}")
        lines.append(f"Encoder, cells a second of CPU, {share:.0%} blanked: " + ", ".join(found))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument(
        "--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4], help="peers have the first only, but for churn"
    )
    parser.add_argument("--methods", nargs="*", default=list(METHODS), choices=METHODS)
    parser.add_argument("--tables", nargs="*", default=list(TARGETS), choices=TARGETS)
    parser.add_argument("--shapes", nargs="*", default=list(SHAPES), choices=SHAPES, help="made streams and texts")
    options = parser.parse_args()
    lines = []
    for method in options.methods:
        line = [method]
        for name in options.tables:
            seeds = options.seeds if name == "churn" or method not in PEERS else options.seeds[:1]
            line.append(f"{np.mean([METHODS[method](name, seed) for seed in seeds]):.2f}")
        lines.append(line)
        print(" ".join(line), flush=True)
    print(markdown(["", *options.tables], lines))
    print(speed())
    if options.shapes:
        print(markdown(["", *JUDGES], shape_errors(folder(), options.shapes, options.seeds[0])))
