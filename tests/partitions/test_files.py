"""Files as partitions: every row once, whatever the format, and `bomkl train --workers`."""

import gzip

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import dump_svmlight_file, make_classification
from typer.testing import CliRunner

from bomkl import modelfile
from bomkl._support.stream_options import StreamOptions
from bomkl.cli.app import app
from bomkl.partitions import PartitionError, files
from bomkl.streams import open_stream

N = 1200
X, Y = make_classification(N, 5, n_informative=4, n_redundant=0, random_state=0)
FRAME = pd.DataFrame(np.round(X, 6), columns=list("abcde")).assign(label=Y)


def write(folder, format):
    if format == "parquet":
        pytest.importorskip("pyarrow")
        FRAME.to_parquet(folder / "t.parquet", row_group_size=100)
    elif format == "svm":
        dump_svmlight_file(FRAME.drop(columns="label").to_numpy(), Y, str(folder / "t.svm"), zero_based=False)
    elif format == "quoted.csv":
        FRAME.assign(a=[f'"{a}"' for a in FRAME["a"]]).to_csv(folder / "t.quoted.csv", index=False, quoting=3)
    elif format == "csv.gz":
        with gzip.open(folder / "t.csv.gz", "wt") as file:
            FRAME.to_csv(file, index=False)
    else:
        FRAME.to_csv(folder / "t.csv", index=False)
    return str(folder / f"t.{format}")


@pytest.mark.parametrize(
    ("format", "split"), [("parquet", 1), ("svm", 1), ("csv", 1), ("csv.gz", 0), ("quoted.csv", 0)]
)
def test_parts_hold_every_row_once(format, split, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "_ROWS", 250)
    monkeypatch.setattr(files, "_BYTES", 10_000)
    path = write(tmp_path, format)
    stream = open_stream(path)
    parts = tuple(files.file_partitions([path], StreamOptions()))
    assert (len(parts) > 3) == bool(split)
    reader = files.RowReader(parts, stream.options, stream.scan())
    tables = [reader(i) for i in range(len(parts))]
    rows = np.vstack([rows.toarray() if hasattr(rows, "toarray") else rows for rows, _, _ in tables])
    assert_allclose(rows, FRAME.drop(columns="label").to_numpy(), atol=1e-9)
    assert_array_equal(np.concatenate([labels for _, labels, _ in tables]), Y)


def test_bad_cells_name_the_part(tmp_path):
    path = write(tmp_path, "csv")
    stream = open_stream(path)
    reader = files.RowReader(tuple(files.file_partitions([path], StreamOptions())), stream.options, stream.scan())
    text = (tmp_path / "t.csv").read_text().splitlines()
    text[500] = "much" + text[500][text[500].index(",") :]
    (tmp_path / "t.csv").write_text("\n".join(text) + "\n")
    with pytest.raises(PartitionError, match=r"Partition 0 \(.*t\.csv, bytes 0 to .*501.*much"):
        reader(0)
    (tmp_path / "t.csv").unlink()
    with pytest.raises(PartitionError, match=r"Partition 0 .*No such file"):
        reader(0)


@pytest.mark.slow
def test_train_with_workers(tmp_path):
    path, model = write(tmp_path, "csv"), tmp_path / "m.bomkl"
    run = CliRunner().invoke(app, ["train", path, "-o", str(model), "--workers", "1", "--budget", "40"])
    assert run.exit_code == 0, run.output
    assert modelfile.load(model).n_seen_ == N
    assert "rows/s" in run.output
    shown = CliRunner().invoke(app, ["inspect", str(model)])
    assert shown.exit_code == 0, shown.output
    assert CliRunner().invoke(app, ["predict", str(model), path]).exit_code == 0
    for wrong in (["--passes", "2"], ["-a", "BOMKC(SPA)"], ["--scheduler", "tcp://127.0.0.1:1"]):
        refused = CliRunner().invoke(app, ["train", path, "-o", str(model), "--workers", "1", *wrong])
        assert refused.exit_code == 2, refused.output


@pytest.mark.slow
def test_tables_and_weights_with_workers(tmp_path):
    rng = np.random.default_rng(0)
    frame = FRAME.assign(colour=rng.choice(["red", "blue"], N), weight=rng.integers(2, size=N))
    frame.loc[::7, "a"] = np.nan
    path, model = tmp_path / "t.csv", tmp_path / "m.bomkl"
    frame.to_csv(path, index=False)
    options = ["--workers", "1", "--budget", "40", "--weight", "weight"]
    run = CliRunner().invoke(app, ["train", str(path), "-o", str(model), *options])
    assert run.exit_code == 0, run.output
    trained = modelfile.load(model)
    assert trained.n_seen_ == int(frame["weight"].sum())
    assert trained.encoder_.kinds_["colour"] == "category"
    predicted = CliRunner().invoke(app, ["predict", str(model), str(path)])
    assert predicted.exit_code == 0, predicted.output
    assert len(predicted.stdout.splitlines()) >= N


@pytest.mark.slow
def test_more_processes_than_the_rows_are_worth_are_pointed_out(tmp_path):
    path = write(tmp_path, "csv")
    for workers, said in ((2, True), (1, False)):
        done = CliRunner().invoke(app, ["train", str(path), "-q", "--workers", str(workers), "-o", str(tmp_path / "m")])
        assert done.exit_code == 0
        assert ("One process would be faster for so few rows: leave out --workers." in done.stderr) is said


@pytest.mark.slow
def test_columns_of_a_later_file_are_learned_or_named(tmp_path):
    half = N // 2
    FRAME[:half].drop(columns="e").to_csv(tmp_path / "a.csv", index=False)
    FRAME[half:].to_csv(tmp_path / "b.csv", index=False)
    FRAME[:0].to_csv(tmp_path / "c.csv", index=False)
    begin = ["train", str(tmp_path), "-o", str(tmp_path / "m"), "--workers", "1", "--budget", "20", "--label", "label"]
    for policy, columns in (("learn", "abcde"), ("ignore", "abcd"), ("refuse", "")):
        (tmp_path / "m").unlink(missing_ok=True)
        run = CliRunner().invoke(app, [*begin, "--new-columns", policy])
        if policy == "refuse":
            assert run.exit_code == 1
            assert "were not there before" in run.stderr
            return
        assert run.exit_code == 0, run.output
        assert "".join(modelfile.load(tmp_path / "m").feature_names_in_) == columns
        assert ("The column 'e' is ignored" in run.stderr) == (policy == "ignore")
        assert (f"Rows: {half}." in run.stderr) == (policy == "ignore")
