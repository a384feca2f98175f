"""AutoMKL on Dask: the same bits whatever happens to the workers, every row once, errors that name the partition."""

import os
import signal
import threading
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_classification, make_friedman1

dask = pytest.importorskip("dask")
distributed = pytest.importorskip("distributed")
import dask.array as da  # noqa: E402
import dask.dataframe as dd  # noqa: E402

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
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=False, dashboard_address=None) as cluster,
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


def test_kinds_of_input_give_the_same_bits(fitted, client, tmp_path):
    expected = fitted.to_local().decision_function(FRAME.drop(columns="y"))
    rows, labels = arrays()
    others = [
        AutoMKLClassifier(B, client, random_state=0).fit(rows, labels),
        AutoMKLClassifier(B, client, random_state=0).fit(frames().drop(columns="y"), frames()["y"]),
        AutoMKLClassifier(B, client, random_state=0).fit(
            [dask.delayed((X[a:b], FRAME["y"].to_numpy()[a:b])) for a, b in pairwise(CUTS)]
        ),
    ]
    for other in others:
        assert_array_equal(other.to_local().decision_function(X), expected)
    frames(cuts=[0, 400, 1200, N]).to_parquet(tmp_path / "table")
    from_files = AutoMKLClassifier(B, client, random_state=0).fit(str(tmp_path / "table"))
    assert from_files.to_local().n_seen_ == N


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
    with pytest.raises(ValueError, match="other settings"):
        AutoMKLClassifier(B + 1, client, str(path), random_state=0).fit(frames())
    resumed = AutoMKLClassifier(B, client, str(path), random_state=0).fit(frames())
    names = FRAME.drop(columns="y")
    assert_array_equal(resumed.to_local().decision_function(names), fitted.to_local().decision_function(names))
    assert modelfile.load(path).n_seen_ == N
    assert AutoMKLClassifier(B, client, str(path), random_state=0).fit(frames()).to_local().n_seen_ == N  # anew


def test_errors_name_the_partition_and_keep_the_checkpoint(client, tmp_path):
    path = tmp_path / "checkpoint.bomkl"
    bad = FRAME.copy()
    bad.loc[1100, "c"] = np.nan
    with pytest.raises(ValueError, match=r"Partition 2: row 700, column 2 holds .*nan"):
        AutoMKLClassifier(B, client, str(path), random_state=0).fit(frames(bad))
    text = FRAME.astype({"b": object})
    text.loc[401, "b"] = "much"
    with pytest.raises(ValueError, match=r"Partition 2: row 1, column 'b' holds 'much'"):
        AutoMKLClassifier(B, client, random_state=0).fit(frames(text))
    with pytest.raises(ValueError, match="is not a column"):
        AutoMKLClassifier(B, client).fit(frames(), target="z")
    with pytest.raises(FileNotFoundError, match="no such file"):
        AutoMKLClassifier(B, client).fit(str(tmp_path / "nothing"))
    with pytest.raises(TypeError, match="Dask DataFrame"):
        AutoMKLClassifier(B, client).fit(X, Y)
    with pytest.raises(ValueError, match="no rows"):
        AutoMKLClassifier(B, client).fit(frames(cuts=[0, 0]))


def test_a_file_that_vanishes_is_named(client, tmp_path):
    frames(cuts=[0, 400, 1200, N]).to_parquet(tmp_path / "table")
    table = dd.read_parquet(tmp_path / "table")
    victim = sorted((tmp_path / "table").glob("*.parquet"))[1]
    path = tmp_path / "checkpoint.bomkl"
    victim.unlink()
    with pytest.raises(ValueError, match=r"Partition 1: .*"):
        AutoMKLClassifier(B, client, str(path), random_state=0).fit(table)
    assert not path.exists()


@pytest.mark.parametrize("workers", [2])
def test_workers_that_are_killed_change_no_bit(fitted, workers):
    with (
        distributed.LocalCluster(workers, threads_per_worker=1, dashboard_address=None, memory_limit=0) as cluster,
        distributed.Client(cluster) as client,
    ):
        stop = threading.Event()
        killed = []

        def kill():
            while not stop.wait(0.7) and len(killed) < 5:
                nannies = [worker for worker in cluster.workers.values() if getattr(worker, "pid", None)]
                if nannies:
                    victim = nannies[len(killed) % len(nannies)].pid
                    if victim not in killed:
                        os.kill(victim, signal.SIGKILL)
                        killed.append(victim)

        thread = threading.Thread(target=kill, daemon=True)
        thread.start()
        model = AutoMKLClassifier(B, client, random_state=0).fit(frames())
        stop.set()
        thread.join()
    names = FRAME.drop(columns="y")
    assert_array_equal(model.to_local().decision_function(names), fitted.to_local().decision_function(names))
    assert killed
