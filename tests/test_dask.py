"""AutoMKL on Dask: the same bits whatever happens to the workers, every row once, errors that name the partition."""

import os
import pickle
import warnings
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_classification, make_friedman1

ROOT = Path(__file__).parents[1]
dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402

dask_kills = pytest.importorskip("bomkl_lab.benchmarks.dask_kills")

from bomkl import AutoMKLClassifier as Local  # noqa: E402
from bomkl import modelfile  # noqa: E402
from bomkl import partitions as plan  # noqa: E402
from bomkl.dask import AutoMKLClassifier, AutoMKLRegressor  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")  # of Dask's own
N, B = 1500, 40
X, Y = make_classification(N, 6, n_informative=4, n_classes=3, n_clusters_per_class=1, random_state=0)
FRAME = pd.DataFrame(X, columns=list("abcdef")).assign(y=np.array(["red", "green", "blue"])[Y])
CUTS = [0, 0, 400, 1200, N]  # the first is empty


@pytest.fixture(scope="module")
def client():
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


def frames(frame=FRAME, cuts=CUTS):
    return dd.from_delayed([dask.delayed(frame.iloc[a:b]) for a, b in pairwise(cuts)], meta=frame.iloc[:0])


def arrays(cuts=CUTS):
    sizes = tuple(np.diff(cuts))
    return da.from_array(X, chunks=(sizes, (6,))), da.from_array(FRAME["y"].to_numpy().astype(str), chunks=(sizes,))


@pytest.fixture(scope="module")
def fitted(client):
    return AutoMKLClassifier(B, client, random_state=0).fit(frames(), target="y")


def test_all_rows_are_learned_and_predictions_are_lazy(fitted):
    model = fitted.to_local()
    assert isinstance(model, Local)
    assert model.n_seen_ == N
    assert fitted.score(frames()) > 0.8
    assert_array_equal(
        fitted.predict(frames()).compute().to_numpy().astype(str), model.predict(X_frame := FRAME.drop(columns="y"))
    )
    probabilities = fitted.predict_proba(frames()).compute()
    assert list(probabilities.columns) == ["blue", "green", "red"]
    assert_array_equal(probabilities.to_numpy(), model.predict_proba(X_frame))
    rows, _ = arrays()
    assert_array_equal(fitted.predict(rows).compute(), model.predict(X_frame))
    assert fitted.predict_proba(rows).compute().shape == (N, 3)


def test_a_table_to_predict_may_lack_columns(fitted):
    lacking = FRAME.drop(columns=["b", "y"])
    found = fitted.predict(frames(lacking)).compute().to_numpy().astype(str)
    assert_array_equal(found, fitted.to_local().predict(lacking))


def test_kinds_of_input_give_the_same_bits(fitted, client, tmp_path):
    expected = fitted.to_local().decision_function(FRAME.drop(columns="y"))
    rows, labels = arrays()
    others = [
        AutoMKLClassifier(B, client, random_state=0).fit(rows, labels),
        AutoMKLClassifier(B, client, random_state=0).fit(frames().drop(columns="y"), frames()["y"]),
        AutoMKLClassifier(B, client, random_state=0).fit(
            [dask.delayed((X[a:b], FRAME["y"].to_numpy()[a:b])) for a, b in pairwise(CUTS)]
        ),
        AutoMKLClassifier(B, client, random_state=0).fit(
            client.scatter([FRAME.iloc[a:b] for a, b in pairwise(CUTS)], hash=False)
        ),
    ]
    for other in others:
        assert_array_equal(other.to_local().decision_function(X), expected)
    frames(cuts=[0, 400, 1200, N]).to_parquet(tmp_path / "table")
    from_files = AutoMKLClassifier(B, client, random_state=0).fit(str(tmp_path / "table"))
    assert from_files.to_local().n_seen_ == N


def test_score_of_labels_that_dask_keeps_as_texts_of_arrow(fitted):
    table = dd.from_pandas(FRAME, npartitions=3)
    expected = fitted.to_local().score(FRAME.drop(columns="y"), FRAME["y"])
    assert fitted.score(table) == pytest.approx(expected)
    assert fitted.score(table.drop(columns="y"), table["y"]) == pytest.approx(expected)


def test_sorted_partitions_of_one_class_each(client):
    frame = FRAME.sort_values("y")
    model = AutoMKLClassifier(B, client, random_state=0).fit(frames(frame, [0, 500, 1000, N]))
    assert model.score(frames()) > 0.8


def test_numbers_and_more_rows(client):
    X, y = make_friedman1(1500, n_features=6, noise=1.0, random_state=0)
    table = dd.from_pandas(pd.DataFrame(X, columns=list("abcdef")).assign(y=y), npartitions=3)
    model = AutoMKLRegressor(B, client, random_state=0).fit(table)
    first = model.score(table)
    assert first > 0.7
    assert model.partial_fit(table).to_local().n_seen_ == 3000


def test_a_client_that_dies_goes_on_with_the_same_bits(fitted, client, tmp_path, monkeypatch):
    path = tmp_path / "checkpoint.bomkl"
    ends = iter(range(100))
    end_round = plan.Job.end_round

    def dying(job):
        if next(ends) == 3:
            raise KeyboardInterrupt
        end_round(job)

    monkeypatch.setattr(plan.Job, "end_round", dying)
    with pytest.raises(KeyboardInterrupt):
        AutoMKLClassifier(B, client, str(path), random_state=0).fit(frames())
    monkeypatch.setattr(plan.Job, "end_round", end_round)
    assert 0 < modelfile.load(path).n_seen_ < N
    with pytest.raises(ValueError, match="other partitions"):
        AutoMKLClassifier(B, client, str(path), random_state=0).fit(frames(cuts=[0, N]))
    with pytest.raises(ValueError, match=r"other rows: partition 1 is the first that differs. Give the partitions"):
        AutoMKLClassifier(B, client, str(path), random_state=0).fit(frames(FRAME.assign(a=FRAME["a"] + 1)))
    with pytest.raises(ValueError, match="other settings"):
        AutoMKLClassifier(B + 1, client, str(path), random_state=0).fit(frames())
    resumed = AutoMKLClassifier(B, client, str(path), random_state=0).fit(frames())
    names = FRAME.drop(columns="y")
    assert_array_equal(resumed.to_local().decision_function(names), fitted.to_local().decision_function(names))
    assert modelfile.load(path).n_seen_ == N
    assert AutoMKLClassifier(B, client, str(path), random_state=0).fit(frames()).to_local().n_seen_ == N  # anew


def test_partitions_in_another_order_are_not_gone_on_with():
    tables = [(X[begin : begin + 300], Y[begin : begin + 300]) for begin in range(0, N, 300)]
    settings = {"budget": B, "update": "rounds", "random_state": 0}
    job = plan.Job(Local(**settings), [plan.summary(*table) for table in tables])
    job.learn_head([plan.drawn_rows(piece, *tables[piece.partition]) for piece in job.head_pieces()])
    swapped = [tables[i] for i in (0, 1, 3, 2, 4)]
    with pytest.raises(ValueError, match="the same partitions in another order: partition 2 is the first"):
        plan.Job(Local(**settings), [plan.summary(*table) for table in swapped]).resume(job.model, job.notes())
    plan.Job(Local(**settings), [plan.summary(*table) for table in tables]).resume(job.model, job.notes())


def test_a_row_may_be_repaired_only_where_rows_are_still_to_come():
    tables = [(X[begin : begin + 150], Y[begin : begin + 150]) for begin in range(0, N, 150)]
    settings = {"budget": B, "update": "rounds", "random_state": 0}
    job = plan.Job(Local(**settings), [plan.summary(*table) for table in tables])
    job.learn_head([plan.drawn_rows(piece, *tables[piece.partition]) for piece in job.head_pieces()])
    while job.used.count(150) == 0:
        for piece in job.next_round():
            job.add(plan.piece_sums(job.static(), job.means(), piece, *tables[piece.partition]))
        job.end_round()
    learned, partly = job.used.index(150), job.used.index(min(job.used))
    assert 0 < min(job.used) < 150

    def resume(number):
        repaired = list(tables)
        repaired[number] = np.vstack([np.ones((1, 6)), tables[number][0][1:]]), tables[number][1]
        other = plan.Job(Local(**settings), [plan.summary(*table) for table in repaired])
        other.resume(job.model, job.notes())

    resume(partly)
    with pytest.raises(ValueError, match=f"other rows: partition {learned} is the first that differs"):
        resume(learned)


def test_a_column_that_holds_texts_in_one_partition_is_named(client):
    texts = FRAME[400:800].assign(c=FRAME["c"][400:800].astype(str).astype(object))
    parts = [dask.delayed(part) for part in (FRAME[:400], texts, FRAME[800:])]
    message = r"Partition 1: the column 'c' holds strings, but numbers in partition 0. Convert it first, or declare"
    with pytest.raises(ValueError, match=message):
        AutoMKLClassifier(B, client, random_state=0).fit(parts)


def test_errors_name_the_partition_and_keep_the_checkpoint(fitted, client, tmp_path):
    path = tmp_path / "checkpoint.bomkl"
    bad = FRAME.copy()
    bad.loc[1100, "c"] = np.inf
    with pytest.raises(ValueError, match=r"Partition 2: The column 'c' must hold finite numbers. Got inf in row 700 "):
        AutoMKLClassifier(B, client, str(path), random_state=0).fit(frames(bad))
    broken = X.copy()
    broken[1100, 2] = np.nan
    parts = [dask.delayed((broken[a:b], Y[a:b])) for a, b in pairwise(CUTS)]
    with pytest.raises(ValueError, match=r"Partition 2: row 700, column 2 holds .*nan"):
        AutoMKLClassifier(B, client, random_state=0).fit(parts)
    assert 0 < modelfile.load(path).n_seen_ < N
    repaired = AutoMKLClassifier(B, client, str(path), random_state=0).fit(frames())
    assert_array_equal(repaired.to_local().decision_function(X), fitted.to_local().decision_function(X))
    with pytest.raises(ValueError, match="is not a column"):
        AutoMKLClassifier(B, client).fit(frames(), target="z")
    with pytest.raises(FileNotFoundError, match="no such file"):
        AutoMKLClassifier(B, client).fit(str(tmp_path / "nothing"))
    with pytest.raises(TypeError, match="Dask DataFrame"):
        AutoMKLClassifier(B, client).fit(X, Y)
    with pytest.raises(ValueError, match="no rows"):
        AutoMKLClassifier(B, client).fit(frames(cuts=[0, 0]))


def test_a_value_that_does_not_fit_is_missing_and_the_client_warns():
    text, missing = FRAME.astype({"b": object}), FRAME.copy()
    rows = [401, 402, 403, 1400, 1401]
    text.loc[rows, "b"], missing.loc[rows, "b"] = "much", np.nan
    scores, noted = [], 0
    for frame in (text, missing):
        tables = [(part.drop(columns="y"), part["y"]) for part in (frame[:400], frame[400:1200], frame[1200:])]
        model = Local(B, update="rounds", types={"b": "number"}, random_state=0)
        job = plan.Job(model, [plan.summary(*table) for table in tables])
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            job.learn_head([plan.drawn_rows(piece, *tables[piece.partition]) for piece in job.head_pieces()])
            while pieces := job.next_round():
                with warnings.catch_warnings(action="error"):  # nobody reads those of a worker
                    gains = [
                        plan.piece_sums(job.static(), job.means(), each, *tables[each.partition]) for each in pieces
                    ]
                job.add(plan.total(pickle.loads(pickle.dumps(gains))))
                job.end_round()
        assert all("'b' holds numbers. Other values, such as 'much', count" in str(each.message) for each in caught)
        noted += sum(notice.rows for each in caught for notice in each.message.notices)
        scores.append(job.model.decision_function(FRAME.drop(columns="y")))
    assert noted == len(rows)
    assert_array_equal(*scores)


def test_what_is_not_of_dask_is_named_before_anything_is_counted(client, tmp_path):
    with pytest.raises(TypeError, match="must each be a Dask Series"):
        AutoMKLClassifier(B, client).fit(frames().drop(columns="y"), Y)
    with pytest.raises(TypeError, match="must each be a Dask array"):
        AutoMKLClassifier(B, client).fit(arrays()[0], Y)
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        AutoMKLClassifier(B, client, str(tmp_path / "nothing" / "model.bomkl")).fit(frames())


def test_a_file_that_vanishes_is_named(client, tmp_path):
    frames(cuts=[0, 400, 1200, N]).to_parquet(tmp_path / "table")
    table = dd.read_parquet(tmp_path / "table")
    victim = sorted((tmp_path / "table").glob("*.parquet"))[1]
    path = tmp_path / "checkpoint.bomkl"
    victim.unlink()
    with pytest.raises(ValueError, match=r"Partition 1: .*"):
        AutoMKLClassifier(B, client, str(path), random_state=0).fit(table)
    assert not path.exists()


# ---------------------------------------------------------------- weights and tables

N_MIXED = 1600
MIXED = dask_kills.partition(0, N_MIXED).assign(day=pd.date_range("2024-01-01", periods=N_MIXED, freq="h"))


def mixed(cuts=(0, 300, 301, 1200, N_MIXED), frame=MIXED):
    return [dask.delayed(frame.iloc[a:b]) for a, b in pairwise(cuts)]


@pytest.fixture(scope="module")
def of_tables(client):
    return AutoMKLClassifier(B, client, random_state=0).fit(mixed(), sample_weight="weight")


def test_weights_are_a_column_or_a_collection_and_zeros_do_not_count(of_tables, client):
    model = of_tables.to_local()
    counted = MIXED[MIXED["weight"] > 0]
    assert model.n_seen_ == len(counted)
    features = MIXED.drop(columns=["weight", "y"])
    table = dd.from_delayed(mixed(), meta=MIXED.iloc[:0])
    kept = [sum(MIXED["weight"].iloc[:cut] > 0) for cut in (0, 300, 301, 1200, N_MIXED)]
    others = [
        AutoMKLClassifier(B, client, random_state=0).fit(table.drop(columns="weight"), sample_weight=table["weight"]),
        AutoMKLClassifier(B, client, random_state=0).fit(mixed(kept, counted), sample_weight="weight"),
    ]
    for other in others:
        assert_array_equal(other.to_local().decision_function(features), model.decision_function(features))
    weighted = of_tables.score(table, sample_weight="weight")
    assert weighted == pytest.approx(np.average(model.predict(features) == MIXED["y"], weights=MIXED["weight"]))
    wrong = MIXED.assign(weight=np.where(np.arange(N_MIXED) == 350, -1.0, 1.0))
    with pytest.raises(ValueError, match=r"Partition 2: row 49 has the weight -1.0"):
        AutoMKLClassifier(B, client).fit(mixed(frame=wrong), sample_weight="weight")


def test_tables_with_texts_gaps_and_dates(of_tables, client, tmp_path):
    model, features = of_tables.to_local(), MIXED.drop(columns=["weight", "y"])
    kinds = {"a": "number", "b": "number", "c": "number", "d": "number", "colour": "category", "day": "date"}
    assert model.encoder_.kinds_ == kinds
    assert model.encoder_.n_rows_ == model.n_seen_  # it has learned from all rows, round after round
    assert model.score(features, MIXED["y"]) > 0.8
    lazy = of_tables.predict(dd.from_delayed(mixed(), meta=MIXED.iloc[:0])).compute()
    assert_array_equal(lazy.to_numpy().astype(str), model.predict(features))
    modelfile.save(model, tmp_path / "m.bomkl")
    assert_array_equal(modelfile.load(tmp_path / "m.bomkl").predict(features), model.predict(features))
    tables = [part.compute() for part in mixed()]
    tables = [(each.drop(columns=["y", "weight"]), each["y"].to_numpy(), each["weight"].to_numpy()) for each in tables]
    job = plan.Job(Local(B, update="rounds", random_state=0), [plan.summary(*table) for table in tables])
    job.learn_head([plan.drawn_rows(piece, *tables[piece.partition]) for piece in job.head_pieces()])
    while pieces := job.next_round():
        for piece in reversed(pieces):
            job.add(plan.piece_sums(job.static(), job.means(), piece, *tables[piece.partition]))
        job.end_round()
    assert dask_kills.digest_of(job.model, features) == dask_kills.digest_of(model, features)


def test_an_error_is_not_its_own_cause():
    """Dask follows the causes of an error to the last one, so a circle would take all memory."""
    part = MIXED.drop(columns=["y", "weight"])[:400], MIXED["y"].to_numpy()[:400], None
    job = plan.Job(Local(B, update="rounds", random_state=0), [plan.summary(*part)])
    job.learn_head([plan.drawn_rows(piece, *part) for piece in job.head_pieces()])
    piece = job.next_round()[0]
    with pytest.raises(ValueError, match=r"Partition 0: The column 'a' must hold finite numbers") as caught:
        plan.piece_sums(job.static(), job.means(), piece, part[0].assign(a=np.inf), *part[1:])
    causes = [caught.value]
    while (cause := causes[-1].__cause__) is not None:
        assert cause not in causes
        causes.append(cause)


def test_targets_that_are_too_large_are_refused(client):
    X, y = make_friedman1(600, n_features=5, random_state=0)
    y[430] = 1e300
    parts = [dask.delayed((X[a:b], y[a:b])) for a, b in pairwise([0, 400, 600])]
    with pytest.raises(ValueError, match=r"Partition 1: row 30 has the target 1e\+300; targets must be numbers within"):
        AutoMKLRegressor(B, client, random_state=0).fit(parts)


# ---------------------------------------------------------------- processes that die


@pytest.mark.slow
def test_killed_workers_and_a_killed_client_change_no_bit():
    counts = [0, 300, 1, 700]
    expected = dask_kills.digest(dask_kills.plainly(counts, B, order=3))
    for model, _ in dask_kills.with_kills(counts, B, workers=2, kills=2, every=0.7):
        assert dask_kills.digest(model) == expected
    model, seen = dask_kills.with_a_killed_client(counts, B, 2)
    assert 0 < seen < model.n_seen_
    assert dask_kills.digest(model) == expected


def test_a_cluster_without_workers_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr("bomkl.dask.runner._PATIENCE", 1)
    monkeypatch.setattr("bomkl.dask.runner._LOOK", 0.5)
    settings = {"n_workers": 0, "processes": False, "dashboard_address": ":0"}
    with (
        distributed.LocalCluster(**settings) as cluster,
        distributed.Client(cluster) as client,
        pytest.raises(ValueError, match=r"Partition [0-3]: the cluster has had no worker for 1 seconds"),
    ):
        AutoMKLClassifier(B, client).fit(frames())


@pytest.mark.slow
def test_a_partition_that_kills_its_workers_is_named(tmp_path):
    path = tmp_path / "checkpoint.bomkl"
    with dask.config.set({"distributed.scheduler.allowed-failures": 0}), dask_kills.cluster(1) as (_, client):
        parts = [dask.delayed(dask_kills.partition)(0, 300), dask.delayed(os._exit)(9)]  # as where memory is short
        with pytest.raises(ValueError, match=r"Partition 1: workers died again and again .* memory"):
            AutoMKLClassifier(B, client, str(path), random_state=0).fit(parts, sample_weight="weight")
    assert not path.exists()
