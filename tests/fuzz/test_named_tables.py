"""Tables with names, identifiers, notes and dates: the same predictions on every way in, and by the encoder alone."""

import io
import json
from itertools import pairwise, starmap

import numpy as np
import pandas as pd
import pytest
from tests.command_line import bomkl
from tests.fuzz.ways import by_river, by_service

from bomkl import AutoMKLClassifier, AutoMKLRegressor, modelfile
from bomkl.partitions import Job, Runner, learn_partitions, piece_sums
from bomkl.tables import TableEncoder

PARTS = ["ba", "ren", "dor", "mil", "ta", "lin", "gos", "ha", "vel", "kir", "son", "ur", "pe", "mon", "tal"]
WORDS = ["late", "Łódź", "BROKEN", "ok", "straße", "refund", "slow", "x"]
LETTERS = "abcdefghijklmnopqrstuvwxyz "


def _misspelt(rng, name):
    at = int(rng.integers(1, len(name) - 1))
    kind, new = rng.integers(5), LETTERS[rng.integers(len(LETTERS) - 1)]
    return [
        name,
        name[:at] + new + name[at + 1 :],
        name[:at] + name[at + 1 :],
        name[:at] + new + name[at:],
        name.upper(),
    ][kind]


def _columns(rng, n):
    towns = ["".join(rng.choice(PARTS, rng.integers(2, 5))).capitalize() for _ in range(12)]
    made = {
        "town": lambda: _misspelt(rng, str(rng.choice(towns))),
        "user": lambda: f"u{rng.integers(n)}",
        "note": lambda: " ".join(rng.choice(WORDS, rng.integers(1, 9))),
        "kind": lambda: str(rng.choice(["red", "green", "blue"])),
        "shop": lambda: int(rng.integers(9)),
        "size": lambda: float(np.round(rng.normal(3, 2), 3)),
        "paid": lambda: bool(rng.random() < 0.5),
        "day": lambda: f"2024-{rng.integers(1, 13):02}-{rng.integers(1, 29):02}",
    }
    names = [str(name) for name in rng.permutation(list(made))[: rng.integers(1, len(made) + 1)]]
    if not {"town", "user", "note"} & set(names):
        names.append("town")
    return {name: made[name] for name in names}


def random_table(rng):
    """Rows as dicts, the first one without a missing value; labels of two or more classes, or numbers."""
    n = int(rng.integers(12, 140))
    columns, gaps = _columns(rng, n), float(rng.choice([0, 0.1, 0.4]))
    rows = [
        {name: make() if i == 0 or rng.random() >= gaps else None for name, make in columns.items()} for i in range(n)
    ]
    classes = int(rng.choice([0, 0, 2, 2, 2, 3, 7]))
    about = np.array([len(json.dumps(row)) for row in rows])
    if classes == 0:
        return rows, (about + np.round(rng.normal(size=n), 3)).tolist(), 0
    labels = [f"c{each}" for each in (about + (rng.random(n) < 0.2)) % classes]
    labels[:classes] = [f"c{i}" for i in range(classes)]
    return rows, labels, classes


def _model(classes, budget):
    return (AutoMKLClassifier if classes else AutoMKLRegressor)(budget=budget, random_state=0)


def _said(model, X):
    return np.asarray(model.predict_proba(X) if hasattr(model, "predict_proba") else model.predict(X))


def _calls(rng, n):
    cuts = np.unique([0, n, *rng.integers(1, n, size=rng.integers(0, 8))]).tolist()
    return list(pairwise(cuts))


def _by_frames(rng, frame, y, model):
    for begin, end in _calls(rng, len(y)):
        model.partial_fit(frame[begin:end], y[begin:end])
    return model


def _by_command(rows, y, classes, budget, tmp_path):
    """Train with a file and predict it; the probabilities, or numbers, as they are printed."""
    data, model = tmp_path / "rows.jsonl", tmp_path / "model.bomkl"
    data.write_text("".join(json.dumps(row | {"y": label}) + "\n" for row, label in zip(rows, y, strict=True)))
    regression = [] if classes else ["-a", "auto-regression"]
    done = bomkl("train", data, "-o", model, "--label", "y", "--budget", budget, "--seed", 0, *regression, "-q")
    assert done.exit_code == 0, done.output
    printed = bomkl("predict", model, data, *(["--kind", "probabilities"] if classes else []))
    assert printed.exit_code == 0, printed.output
    found = pd.read_csv(io.StringIO(printed.stdout), sep="\t", header=0 if classes else None).to_numpy(dtype=float)
    return modelfile.load(model), found


class _Here(Runner):
    """Calls the functions of `bomkl.partitions` one after another."""

    def __init__(self, tables):
        self.tables = tables

    def attempt(self, calls):
        for i, (function, partitions, arguments) in calls.items():
            yield i, function(*[self.tables[p] for p in partitions], *arguments)

    def gains(self, job, pieces):
        static, means = job.static(), job.means()
        return [piece_sums(static, means, piece, *self.tables[piece.partition]) for piece in pieces]


def _check_dask(rng, frame, y, expected, budget):
    """Dask predicts what a model of rows says, and learns as partitions on one machine do."""
    pytest.importorskip("distributed", reason="the extra bomkl[dask] is not installed")
    import dask
    import dask.dataframe as dd

    from bomkl import dask as of_dask

    cuts = _calls(rng, len(y))
    with dask.config.set({"dataframe.convert-string": False}):
        parts = dd.from_delayed([dask.delayed(frame[a:b]) for a, b in cuts], meta=frame.iloc[:0], verify_meta=False)
        regression = isinstance(expected, AutoMKLRegressor)
        model = of_dask.AutoMKLRegressor(budget) if regression else of_dask.AutoMKLClassifier(budget)
        model.model_ = expected
        lazy = model.predict(parts) if regression else model.predict_proba(parts)
        np.testing.assert_array_equal(lazy.compute(scheduler="synchronous").to_numpy(), _said(expected, frame))


@pytest.fixture(scope="module")
def client():
    distributed = pytest.importorskip("distributed", reason="the extra bomkl[dask] is not installed")
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def test_named_tables(cases, use_kernels, tmp_path):
    for rng in cases(2):
        use_kernels(rng)
        rows, y, classes = random_table(rng)
        budget, frame = int(rng.choice([8, 20, 60])), pd.DataFrame(rows, columns=list(rows[0]), dtype=object)
        expected = _by_frames(rng, frame, np.array(y), _model(classes, budget))
        said = _said(expected, frame)
        assert np.isfinite(said).all()

        encoder = TableEncoder(**expected.encoder_.get_params())
        learned = [encoder.transform_and_learn(rows[a:b], y[a:b]) for a, b in _calls(rng, len(y))]
        again = TableEncoder(**expected.encoder_.get_params())
        np.testing.assert_array_equal(np.concatenate(learned), again.fit_transform(frame, y), "encoder")
        np.testing.assert_array_equal(encoder.transform(frame), expected.encoder_.transform(rows), "encoder")

        from_command, printed = _by_command(rows, y, classes, budget, tmp_path)
        np.testing.assert_array_equal(_said(from_command, rows), said, "command line")
        np.testing.assert_allclose(printed, said.reshape(len(y), -1), rtol=1e-5, atol=1e-9)
        served = _model(classes, budget)
        by_service(served, rows, y, starmap(slice, _calls(rng, len(y))))
        np.testing.assert_array_equal(_said(served, rows), said, "service")
        river = by_river(type(expected).__name__, rows, y, budget=budget)
        for row, one in zip(rows[::5], said[::5], strict=True):
            if not classes:
                assert river.predict_one(row) == one
                continue
            found = river.predict_proba_one(row)  # its labels are in the order of their coming, and so are sums
            found = [found[label] for label in expected.classes_.tolist()]
            np.testing.assert_allclose(found, one, rtol=1e-14 if classes > 2 else 0)
        _check_dask(rng, frame, y, expected, budget)


def test_named_tables_in_partitions(cases, use_kernels, client):
    """A cluster learns the same model as functions called one after another, and predicts as that model does."""
    from dask import delayed

    from bomkl import dask as of_dask

    for rng in cases(1):
        use_kernels(rng)
        rows, y, classes = random_table(rng)
        budget, frame = int(rng.choice([8, 20])), pd.DataFrame(rows, columns=list(rows[0]), dtype=object)
        tables = [(frame[a:b], np.array(y[a:b])) for a, b in _calls(rng, len(y))]
        runner, local = _Here(tables), type(_model(classes, budget))(budget=budget, update="rounds", random_state=0)
        job = Job(local, runner.summaries(len(tables), not classes, lambda n: None))
        learn_partitions(job, runner, lambda: None, lambda n: None)
        on_dask = (of_dask.AutoMKLClassifier if classes else of_dask.AutoMKLRegressor)(budget, client, random_state=0)
        on_dask.fit([delayed(table) for table in tables])
        assert on_dask.to_local().n_seen_ == len(y)
        np.testing.assert_array_equal(_said(on_dask.to_local(), frame), _said(job.model, frame))
