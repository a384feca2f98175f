"""What the log notices: damage, loss and entries of another place or time; how it is repaired; and old logs."""

import contextlib
import os
import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the extra bomkl[serve] is not installed")

from tests.command_line import bomkl
from tests.logs import START, model_of, write_log

from bomkl.serve.errors import LogError
from bomkl.serve.folder.replay import Replay, Report
from bomkl.serve.folder.snapshots import Snapshots
from bomkl.serve.storage.log import Log
from bomkl.serve.storage.logfile import log_path

OLD = Path(__file__).parents[1] / "data" / "log_0_2_0"


def test_a_log_that_is_lost_before_the_first_snapshot_is_noticed(tmp_path):
    log = Log(str(tmp_path))
    log.begin()
    log.append([[1.0]], [1], 0.0)
    log.commit()
    log.close()
    os.unlink(log_path(tmp_path))
    with pytest.raises(LogError, match=r"acknowledged are missing. It ends with entry 0, .* 1 entries with 1 rows"):
        Log(str(tmp_path))
    assert not os.path.exists(log_path(tmp_path))


CHANGES = [
    ("UPDATE entries SET body = '[[' WHERE seq = 2", r"the checksum of entry 2 is wrong \(log.sqlite-wal, byte \d+\)"),
    ("UPDATE entries SET last_row = last_row + 1", r"its last entry is not entry 3 as it was written"),
    ("UPDATE entries SET last_row = 139 WHERE seq = 2", r"the checksum of entry 2 is wrong"),
    ("UPDATE entries SET last_row = 'many' WHERE seq = 2", r"the checksum of entry 2 is wrong"),
    ("DELETE FROM entries WHERE seq = 3", "entry 3 is missing"),
    (
        "INSERT INTO entries SELECT 4, last_row, at, digest, body FROM entries WHERE seq = 3",
        "checksum of entry 4 is wrong",
    ),
    (
        "REPLACE INTO entries SELECT 2, last_row, at, digest, body FROM entries WHERE seq = 1",
        "checksum of entry 2 is wrong",
    ),
    ("UPDATE facts SET value = replace(value, 'number', 'category')", r"checksum of 'columns' in its table 'facts' is"),
    ("DELETE FROM facts WHERE name = 'columns'", "a fact, a key or a row that waits for its label is missing"),
    ("DELETE FROM facts WHERE name = 'start'", "a fact, a key or a row that waits for its label is missing"),
    ("DELETE FROM facts WHERE name = 'end'", "its fact 'end' is missing"),
    ("UPDATE facts SET value = 'x' WHERE name = 'end'", "checksum of 'end' in its table 'facts' is wrong"),
    ("UPDATE keys SET seq = 2", "checksum of 'key:k' in its table 'keys' is wrong"),
    ("DELETE FROM keys", "a fact, a key or a row that waits for its label is missing"),
    ("UPDATE waiting SET cells = '[1, 2]'", "checksum of 'late' in its table 'waiting' is wrong"),
    ("DROP INDEX keys_by_seq", "its tables are not those of a log"),
    ("DROP TABLE facts", "it has other tables"),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with three entries, a key, and a row that waits for its label; and what a service makes of it."""
    folder = tmp_path_factory.mktemp("log")
    write_log(folder / "data")
    write_log(folder / "snapshots", snapshots=(2,))
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    shutil.copytree(whole / "data", tmp_path / "data")
    return tmp_path / "data"


def change(folder, *statements):
    with contextlib.closing(sqlite3.connect(log_path(folder))) as database, database:
        for statement in statements:
            database.execute(statement)


def replayed(folder):
    with Replay(str(folder)) as run:
        return [line for line in run.run() if isinstance(line, Report)][-1].rows


@pytest.mark.parametrize(("damage", "message"), CHANGES)
def test_a_damaged_log_is_named_and_left_as_it_is(folder, tmp_path, damage, message):
    assert replayed(folder) == 200
    with Log(str(folder), read_only=True):  # which keeps the change in the write-ahead log
        change(folder, damage)
        before = (folder / "log.sqlite").read_bytes()
        with pytest.raises(LogError, match=rf"log.sqlite: .*{message}"):
            replayed(folder)
        with pytest.raises(LogError, match=rf"log.sqlite: .*{message}"):
            model_of(folder)
        assert (folder / "log.sqlite").read_bytes() == before


def test_a_snapshot_of_another_log_is_refused(whole, tmp_path):
    write_log(tmp_path / "data", (100, 40, 60), snapshots=(2,))
    (snapshot,) = Snapshots(str(whole / "snapshots")).list()
    shutil.copy(snapshot.path, tmp_path / "data" / "snapshots")
    with pytest.raises(LogError, match=r"140.bomkl: has learned another entry 2.*log.sqlite has"):
        model_of(tmp_path / "data")


def test_a_mark_of_another_log_is_refused(folder, tmp_path):
    write_log(tmp_path / "other", (100, 40))
    shutil.copy(tmp_path / "other" / "log.sqlite.end", folder)
    with pytest.raises(LogError, match=r"entry 2 is not the one that .*log.sqlite.end names"):
        Log(str(folder), read_only=True)
    (folder / "log.sqlite.end").write_text("nonsense")
    with pytest.raises(LogError, match=r"log.sqlite.end: is damaged \(byte 0 to 8\)"):
        Log(str(folder), read_only=True)


def test_damage_in_the_write_ahead_log_is_noticed_and_left_as_it_is(tmp_path):
    """SQLite takes it for the end of what was written, and would delete what comes after it."""
    log = write_log(tmp_path / "data", close=False)
    shutil.copytree(tmp_path / "data", tmp_path / "killed")
    log.close()
    content = bytearray((tmp_path / "killed" / "log.sqlite-wal").read_bytes())
    content[-100] ^= 1
    (tmp_path / "killed" / "log.sqlite-wal").write_bytes(content)
    with pytest.raises(LogError, match=r"acknowledged are missing. It ends with entry 2, .* 3 entries with 200 rows"):
        model_of(tmp_path / "killed")
    assert (tmp_path / "killed" / "log.sqlite-wal").read_bytes() == content


def test_an_entry_that_was_torn_before_it_was_acknowledged_is_no_damage(tmp_path):
    log = write_log(tmp_path / "data", close=False)
    log.begin()
    log.append([[1.0, "Rome"]], ["fine"], 0.0)
    log._write_end()
    log._db.execute("COMMIT")  # and the process is killed before the mark is written
    shutil.copytree(tmp_path / "data", tmp_path / "killed")
    log.close()
    whole = (tmp_path / "killed" / "log.sqlite-wal").read_bytes()
    for cut in (1, 100, 5000):
        (tmp_path / "killed" / "log.sqlite-wal").write_bytes(whole[:-cut])
        with Log(str(tmp_path / "killed"), read_only=True) as log:
            assert log.end.seq == 3
    model_of(tmp_path / "killed")


# ------------------------------------------------------------ repair


def test_repair_cuts_off_at_the_last_good_entry_after_asking(folder, tmp_path):
    change(folder, "UPDATE entries SET last_row = 139 WHERE seq = 2")
    before = (folder / "log.sqlite").read_bytes()
    asked = bomkl("replay", folder, "--repair", input="n\n")
    assert asked.exit_code == 1
    assert "the checksum of entry 2 is wrong" in asked.stderr
    assert "Entries 1 to 1 with 80 rows will be kept." in asked.stderr
    assert (folder / "log.sqlite").read_bytes() == before
    done = bomkl("replay", folder, "--repair", input="y\n")
    assert done.exit_code == 0
    assert "rows\t80\n" in done.stdout
    assert (folder / "log.sqlite.damaged-1").read_bytes() == before
    write_log(tmp_path / "same", (80,))
    assert model_of(folder) == model_of(tmp_path / "same")
    again = bomkl("replay", folder, "--repair", "--yes")
    assert again.exit_code == 0
    assert "nothing to repair" in again.stderr
    assert bomkl("replay", folder, "--yes").exit_code == 2


def test_repair_keeps_what_a_snapshot_has_learned(whole, tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(whole / "snapshots", folder)
    expected = model_of(folder)
    change(folder, "DELETE FROM entries WHERE seq = 1")
    assert model_of(folder) == expected  # a service goes on from the snapshot
    assert bomkl("replay", folder).exit_code == 1  # and a replay finds the damage
    done = bomkl("replay", folder, "--repair", "--yes")
    assert done.exit_code == 0, done.stderr
    assert "Entries 3 to 3 with 60 rows will be kept. The snapshot after entry 2 has learned" in done.stderr
    assert model_of(folder) == expected


def test_repair_drops_rows_that_are_damaged_and_keeps_the_others(folder, tmp_path):
    expected, _ = model_of(folder)
    change(folder, "UPDATE waiting SET cells = '[1, 2]'", "UPDATE facts SET value = '[9]' WHERE name = 'end'")
    assert bomkl("replay", folder, "--repair", "--yes").exit_code == 0
    model, rest = model_of(folder)
    assert model == expected
    assert "Known(seq=1, fingerprint='f', reply={'rows': 80" in rest
    assert "'late'" not in rest


def test_repair_goes_on_without_rows_that_are_lost(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "older")
    for part in ("log.sqlite", "log.sqlite.end"):
        shutil.copy(tmp_path / "older" / part, folder)
    write_log(tmp_path / "longer", (80, 60, 60, 1))
    shutil.copy(tmp_path / "longer" / "log.sqlite.end", folder)
    done = bomkl("replay", folder, "--repair", "--yes")
    assert done.exit_code == 0
    assert "acknowledged are missing" in done.stderr
    assert replayed(folder) == 200


def test_what_cannot_be_repaired_is_said(folder):
    change(folder, "UPDATE facts SET value = '{}' WHERE name = 'start'")
    done = bomkl("replay", folder, "--repair", "--yes")
    assert done.exit_code == 1
    assert "This cannot be repaired: put back a copy of the log" in done.stderr


def test_a_log_in_use_is_not_repaired(folder):
    from bomkl._support.files import locked

    with locked(log_path(folder)):
        done = bomkl("replay", folder, "--repair", "--yes")
    assert done.exit_code == 1
    assert "Stop it before a repair" in done.stderr


# ------------------------------------------------------------ old logs


def test_a_log_of_version_0_2_0_is_read_and_upgraded(tmp_path):
    folder = tmp_path / "data"
    shutil.copytree(OLD, folder)
    assert replayed(folder) == 40
    assert (folder / "log.sqlite").read_bytes() == (OLD / "log.sqlite").read_bytes()
    model = model_of(folder)
    assert "Known(seq=1, fingerprint='f', reply={'rows': 20" in model[1]
    assert model_of(folder) == model
    write_log(tmp_path / "same", (20, 12, 8), start=replace(START, drift=None))  # the default of 0.2.0
    assert model[0] == model_of(tmp_path / "same")[0]
    change(folder, "UPDATE entries SET body = replace(body, 'fine', 'nefi') WHERE seq = 2")
    with pytest.raises(LogError, match="the checksum of entry 2 is wrong"):
        model_of(folder)


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        ("UPDATE entries SET body = replace(body, '\"fine\"', '\"nef\"') WHERE seq = 2", "no class is 'nef'"),
        ("UPDATE entries SET last_row = 33 WHERE seq = 2", "it has 12 rows and 12 labels, but its place in the log is"),
        ("DELETE FROM entries WHERE seq = 2", "entry 2 is missing before it"),
        ("UPDATE entries SET body = '[[' WHERE seq = 2", "Expecting value"),
        ("DELETE FROM facts WHERE name = 'columns'", "its columns are missing"),
    ],
)
def test_damage_in_a_log_of_version_0_2_0_is_named_and_repaired(tmp_path, damage, message):
    folder = tmp_path / "data"
    shutil.copytree(OLD, folder)
    change(folder, damage)
    with pytest.raises(LogError, match=rf"log.sqlite: entry \d.* is damaged: .*{message}"):
        model_of(folder)
    done = bomkl("replay", folder, "--repair", "--yes")
    if "facts" not in damage:
        assert done.exit_code == 0, done.stderr
        assert replayed(folder) == 20


def test_a_snapshot_of_version_0_2_0_is_read(whole, tmp_path):
    from bomkl import modelfile

    folder = tmp_path / "data"
    shutil.copytree(whole / "snapshots", folder)
    expected = model_of(folder)
    (snapshot,) = Snapshots(str(folder)).list()
    model = modelfile.read(snapshot.path)
    notes = {name: value for name, value in model.notes.items() if name != "digest"}
    modelfile.save(model.estimator, snapshot.path, notes)
    assert model_of(folder) == expected
