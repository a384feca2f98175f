import contextlib
import errno
import json
import os
import shutil
import sqlite3
import threading
import time
from types import SimpleNamespace

import pandas as pd
import pytest
from typer.testing import CliRunner

from bomkl import AutoMKLClassifier, modelfile
from bomkl._support.files import locked
from bomkl.cli import app
from bomkl.serve import push
from bomkl.serve.errors import LogError
from bomkl.serve.folder.replay import Replay, Report
from bomkl.serve.folder.snapshots import Snapshots
from bomkl.serve.folder.start import Start
from bomkl.serve.requests.service import Service, ServiceSettings
from bomkl.serve.server import bound_sockets, serve
from bomkl.serve.storage.log import Log
from bomkl.serve.storage.logfile import log_path
from bomkl.tables.notices import TableWarning


def replayed(folder):
    with Replay(str(folder)) as run:
        return list(run.run())


def verdicts(folder):
    return [line.problem for line in replayed(folder) if not isinstance(line, Report)]


@pytest.fixture
def three_snapshots(serving, stream, tmp_path):
    """A folder with a snapshot after 80, 140 and 200 rows, and the model after the last."""
    rows, labels = stream
    for begin, end in ((0, 80), (80, 140), (140, 200)):
        with serving() as client:
            client.learn(rows[begin:end], labels[begin:end])
            model = client.get("/v1/model").content
    return tmp_path / "data", model


def test_every_snapshot_is_the_model_that_the_log_gives(three_snapshots):
    folder, _ = three_snapshots
    assert [each.rows for each in Snapshots(str(folder)).list()] == [80, 140, 200]
    assert verdicts(folder) == [None, None, None]


@pytest.mark.parametrize("damaged", [1, 2, 3])
def test_a_damaged_snapshot_falls_back_to_the_one_before(three_snapshots, serving, damaged, capsys):
    folder, model = three_snapshots
    for snapshot in Snapshots(str(folder)).list()[-damaged:]:
        with open(snapshot.path, "r+b") as file:
            file.seek(3000)
            file.write(b"damaged")
    with serving() as client:
        assert client.state()["rows"] == 200
        assert client.get("/v1/model").content == model
    assert capsys.readouterr().err.count("checksum is wrong") == damaged
    assert sum(problem is not None for problem in verdicts(folder)) == damaged


def test_replay_finds_a_snapshot_of_another_model(three_snapshots):
    folder, _ = three_snapshots
    first, second, _ = Snapshots(str(folder)).list()
    notes = modelfile.read(second.path).notes
    modelfile.save(modelfile.load(first.path), second.path, notes)
    assert verdicts(folder) == [None, "its model differs from that of the log", None]


def test_a_log_that_is_behind_its_snapshots_is_not_served(serving, stream, tmp_path):
    """It would learn other rows under the numbers of the lost ones, and then go on from a snapshot of those."""
    folder = tmp_path / "data"
    for end in (80, 140, 200):
        with serving() as client:
            client.learn(*[part[:60] for part in stream])
        if end == 80:
            shutil.copytree(folder, tmp_path / "copy")
    shutil.copy(tmp_path / "copy" / "log.sqlite", folder)
    with pytest.raises(LogError, match=r"acknowledged are missing. It ends with entry 1, .* 3 entries with 180 rows"):
        Log(str(folder))
    os.unlink(folder / "log.sqlite.end")  # and the snapshots know as well
    with pytest.raises(LogError, match=r"missing from the log. It ends with entry 1, .*-0*180.bomkl"), serving():
        pass
    for snapshot in Snapshots(str(folder)).list()[1:]:
        os.unlink(snapshot.path)
    with serving() as client:
        assert client.state()["rows"] == 60
        client.learn(*[part[:10] for part in stream])
    assert verdicts(folder) == [None, None]


def test_replay_works_beside_a_running_service(serving, stream, tmp_path):
    rows, labels = stream
    with serving() as client:
        client.learn(rows, labels)
        *_, last = replayed(tmp_path / "data")
        assert (last.rows, last.error) == (200, client.state()["error"])


def test_the_log_keeps_as_many_rows_as_told(serving, stream, tmp_path):
    rows, labels = stream
    for begin in range(0, 200, 25):
        with serving(keep_log=60) as client:
            client.learn(rows[begin : begin + 25], labels[begin : begin + 25], key=str(begin))
            model = client.get("/v1/model").content
    with serving(keep_log=60) as client:
        while client.service._prune_through:
            time.sleep(0.01)
    folder = str(tmp_path / "data")
    with Log(folder, read_only=True) as log:
        assert log.end.rows == 200
        assert 60 <= sum(len(entry.labels) for entry in log.entries()) < 110
    with Replay(folder) as run:
        assert [line.problem for line in run.run() if not isinstance(line, Report)]
        run.save(str(tmp_path / "again.bomkl"))
    assert (tmp_path / "again.bomkl").read_bytes() == model
    with serving(keep_log=60) as client:
        assert client.get("/v1/model").content == model


def test_a_second_process_is_refused(tmp_path):
    with locked(log_path(tmp_path)), pytest.raises(LogError, match="another process serves this folder"):
        serve(str(tmp_path), Start(), None, ServiceSettings(), "127.0.0.1", 0, None)


def test_other_options_on_the_same_folder_are_refused(serving):
    with serving():
        pass
    with pytest.raises(LogError, match="budget was 30, not 31"), serving(start=Start(budget=31)):
        pass


def test_a_file_that_is_no_log_is_refused(tmp_path):
    (tmp_path / "log.sqlite").write_bytes(b"something else" * 100)
    with pytest.raises(LogError, match="not a log of bomkl serve"):
        Log(str(tmp_path))
    with pytest.raises(LogError, match="there is no log here"):
        Replay(str(tmp_path / "nowhere"))


def test_a_database_of_someone_else_is_not_touched(tmp_path):
    with contextlib.closing(sqlite3.connect(log_path(tmp_path))) as database, database:
        database.execute("CREATE TABLE entries (other)")
    before = (tmp_path / "log.sqlite").read_bytes()
    with pytest.raises(LogError, match="not a log of bomkl serve: it has other tables"):
        Log(str(tmp_path))
    assert (tmp_path / "log.sqlite").read_bytes() == before


def test_a_log_that_nobody_can_write_to_is_replayed(three_snapshots, monkeypatch):
    folder, _ = three_snapshots
    files = sorted(os.listdir(folder))
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with Replay(str(folder)) as run:
        lines = list(run.run())
        assert sorted(os.listdir(folder)) == files  # SQLite made none beside it
    assert [line.problem for line in lines if not isinstance(line, Report)] == [None, None, None]


def test_a_transaction_that_is_undone_leaves_no_gap(tmp_path, monkeypatch):
    """Not even if the disk cannot be read at that moment."""
    log = Log(str(tmp_path))
    log.begin()
    log.append([[1.0]], [1], 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(log, "_db", SimpleNamespace(in_transaction=False))
        log.rollback()
    log._db.execute("ROLLBACK")
    log.begin()
    assert log.append([[2.0]], [1], 0.0).seq == 1
    log.commit()
    assert [(entry.seq, entry.last_row) for entry in log.entries()] == [(1, 1)]
    log.close()


@pytest.mark.parametrize("file", ["log.sqlite", "log.sqlite-wal"])
def test_rows_are_not_acknowledged_if_the_log_was_deleted(serving, stream, tmp_path, file):
    rows, labels = stream
    with serving() as client:
        client.learn(rows[:20], labels[:20])
        os.rename(tmp_path / "data" / file, tmp_path / file)
        assert "deleted or replaced" in client.learn(rows[20:], labels[20:], 507)["detail"]
        assert client.ask("/v1/predict", {"row": rows[0]})["prediction"] in (0, 1)
        os.rename(tmp_path / file, tmp_path / "data" / file)
        assert client.learn(rows[20:], labels[20:])["rows"] == 200
    assert verdicts(tmp_path / "data") == [None]


def test_a_data_folder_that_was_deleted_is_not_made_again(tmp_path):
    with pytest.raises(FileNotFoundError):
        Snapshots(str(tmp_path / "gone")).write(None)
    assert not (tmp_path / "gone").exists()


def test_a_model_that_cannot_be_written_leaves_nothing_behind(serving, stream, tmp_path, monkeypatch):
    rows, labels = stream
    with serving() as client:
        client.learn(rows[:20], labels[:20])
        with monkeypatch.context() as patch:
            patch.setattr(modelfile, "save", full_disk)
            response = client.get("/v1/model")
        assert response.status_code == 507
        assert "No space left" in response.json()["detail"]
        assert not list((tmp_path / "data").glob("download-*"))
        assert client.get("/v1/model").status_code == 200


def full_disk(*_):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("thread", ["_write_log", "_run_model"])
def test_a_service_that_has_failed_ends(tmp_path, monkeypatch, thread):
    """So whoever watches over the process starts it again."""

    def fail(self):
        raise MemoryError("no more")

    monkeypatch.setattr(Service, thread, fail)
    with pytest.raises(LogError, match=r"the service has failed \(MemoryError\('no more'\)\)"):
        serve(str(tmp_path), Start(), None, ServiceSettings(), "127.0.0.1", 0, None)


def test_a_full_disk_refuses_rows_and_loses_none(serving, stream, tmp_path):
    """SQLite itself says that the disk is full: the file may not grow beyond its pages."""
    rows, labels = stream
    with serving() as client:
        client.learn(rows[:50], labels[:50])
        database = client.service._log._db
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count={pages}")
        learned, refused = 50, 0
        for at in range(50, 100):
            response = client.post("/v1/learn", json={"rows": rows[at:] * 10, "y": labels[at:] * 10})
            if response.status_code == 507:
                refused += 1
                assert "disk is full" in response.json()["detail"]
                assert response.headers["retry-after"]
            else:
                learned = response.json()["rows"]
        assert refused
        assert client.state()["rows"] == learned
        assert client.ask("/v1/predict", {"row": rows[0]})["prediction"] in (0, 1)
        database.execute("PRAGMA max_page_count=1000000")
        assert client.learn(rows[100:], labels[100:])["rows"] == learned + 100
    assert verdicts(tmp_path / "data") == [None]


def test_concurrent_repeats_of_one_request_are_learned_once(serving, stream):
    rows, labels = stream
    replies = []
    with serving() as client:

        def send(number):
            replies.append(
                (number, client.learn(rows[number * 10 :][:10], labels[number * 10 :][:10], key=str(number)))
            )

        threads = [threading.Thread(target=send, args=(at % 20,)) for at in range(60)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert client.state()["rows"] == 200
    assert len(replies) == 60
    assert len({(number, str(reply)) for number, reply in replies}) == 20


@pytest.mark.slow
def test_killed_again_and_again_it_loses_nothing(tmp_path):
    run = pytest.importorskip("bomkl_lab.benchmarks.serve_kills").run

    figures = run(tmp_path / "data", kills=2, seed=0, budget=30)
    assert figures["acknowledged"] > 0
    assert (figures["lost"], figures["twice"], figures["never_sent"]) == (0, 0, 0)
    assert figures["model_is_that_of_one_run"]
    assert figures["log_intact"] == "ok"


def run_bomkl(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_push_state_replay_and_eval_agree_on_a_stream_that_begins_with_one_class(serving, stream, tmp_path):
    rows, labels = stream
    names = ["on time"] * 10 + [("on time", "late")[label] for label in labels[10:190]] + ["unknown"] * 10
    lines = ["a,b,label", *(f"{row['a']!r},{row['b']!r},{y}" for row, y in zip(rows, names, strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    with serving() as client:
        pushed = run_bomkl("push", tmp_path / "rows.csv", "--url", client.base_url, "--json").stdout
        state = client.state()
    last = [line for line in replayed(tmp_path / "data") if isinstance(line, Report)][-1]
    evaluated = run_bomkl("eval", tmp_path / "rows.csv", "--budget", 30, "--json").stdout.splitlines()[-1]
    errors = [json.loads(pushed)["error"], state["error"], last.error, json.loads(evaluated)["error"]]
    assert errors == [errors[0]] * 4


def test_push_and_eval_agree_where_columns_begin_with_gaps(serving, stream, tmp_path):
    rows, labels = stream
    lines = ["wind,a,city,day,b,label"]
    for at, (row, y) in enumerate(zip(rows, labels, strict=True)):
        wind = "" if at < 30 or at % 7 == 0 else repr(row["a"] * row["b"])
        city = "" if at < 11 else ("Oslo", "Bonn", "Rome")[at % 3]
        day = "" if at < 50 else f"2024-03-{1 + at % 28:02d}"
        lines.append(f"{wind},{row['a']!r},{city},{day},{row['b']!r},{y}")
    text = "\n".join(lines) + "\n"
    (tmp_path / "rows.csv").write_text(text)
    with serving() as client:
        pushed = run_bomkl("push", tmp_path / "rows.csv", "--url", client.base_url, "--batch", "64", "--json").stdout
    command = ["eval", "--budget", "30", "--json"]
    from_file = CliRunner().invoke(app, [*command, str(tmp_path / "rows.csv")]).stdout.splitlines()[-1]
    from_pipe = CliRunner().invoke(app, [*command, "--block-rows", "16", "-"], input=text).stdout.splitlines()[-1]
    model = AutoMKLClassifier(budget=30, random_state=0)
    table = pd.read_csv(tmp_path / "rows.csv")
    with pytest.warns(
        TableWarning, match="no value in the first rows"
    ):  # `wind` and `day` come after the budget is full
        model.partial_fit(table, table.pop("label"))
    errors = [json.loads(each)["error"] for each in (pushed, from_file, from_pipe)]
    assert [*errors, model.mistakes_ / 200] == [errors[0]] * 4


def test_push_streams_a_file(serving, stream, tmp_path):
    rows, labels = stream
    lines = ["a,b,label", *(f"{row['a']!r},{row['b']!r},{y}" for row, y in zip(rows, labels, strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    with serving() as client:
        command = ["push", tmp_path / "rows.csv", "--url", client.base_url]
        for _ in range(2):  # the second one learns nothing
            done = run_bomkl(*command, "--batch", "64", "--key", "k")
            figures = dict(line.split("\t") for line in done.stdout.splitlines())
            assert figures["rows"] == "200"
            assert float(figures["error"]) == client.state()["error"]
        assert client.state()["rows"] == 200
        client.learn(rows, labels)
        gone = run_bomkl(*command, "--label", "c")
        assert gone.exit_code == 1
        assert "there is no label column 'c'" in gone.stderr


def test_push_says_that_it_waits_for_a_service_and_gives_up_in_the_end(tmp_path, monkeypatch):
    (tmp_path / "rows.csv").write_text("a,label\n1,0\n2,1\n")

    def lose_patience(seconds):
        monkeypatch.setattr(push, "_PATIENCE", -1.0)

    monkeypatch.setattr(push, "_SAY_AFTER", -1.0)
    monkeypatch.setattr(push.time, "sleep", lose_patience)
    (nobody,) = bound_sockets("127.0.0.1", 0)  # the port is taken, but nobody listens
    with nobody:
        url = f"http://127.0.0.1:{nobody.getsockname()[1]}"
        done = run_bomkl("push", tmp_path / "rows.csv", "--url", url)
    assert done.exit_code == 1
    first, last = done.stderr.splitlines()
    assert f"{url} does not take rows" in first
    assert "Trying again for 60 s" in first
    assert f"{url} cannot be reached" in last
