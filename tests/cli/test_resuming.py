"""Training runs that go on: on the same rows, on others, and with notes that lie."""

from __future__ import annotations

import os
import random
import signal

import numpy as np
import pytest
from tests.cli.processes import exit_code, in_a_process, wait_for
from tests.command_line import bomkl, make_rows, svm_text

from bomkl import BudgetMKLClassifier, modelfile


@pytest.mark.slow
def test_a_pipe_that_breaks_off_loses_nothing_learned_before(svm, tmp_path):
    text = svm_text(20_000)
    done = bomkl("train", "-", "-o", tmp_path / "m", "-q", input=text + "1 x:3\n")
    assert done.exit_code == 1
    assert "<stdin>:20001: column 3: not an index:value pair: 'x:3'" in done.stderr
    assert "holds the rows before the error" in done.stderr
    assert bomkl("train", "-", "-o", tmp_path / "m", "-q", "--resume", input=text).exit_code == 0
    bomkl("train", "-", "-o", tmp_path / "whole", "-q", input=text)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize(
    "notes", [{"schema": {}}, {"schema": 3}, {"settings": 3}, {"settings": {"depth": 3}, "inputs": []}]
)
def test_notes_that_lie(svm, tmp_path, notes):
    X, y = make_rows(50)
    complete = {"done_passes": 0, "row": 0, "tally": {}, "history": [], "inputs": [], "schema": {}, "settings": {}}
    for given in (notes, complete | notes):
        modelfile.save(BudgetMKLClassifier(random_state=0).fit(X, y), tmp_path / "m", given)
        for args in (
            ["predict", tmp_path / "m", svm],
            ["inspect", tmp_path / "m"],
            ["train", svm, "-o", tmp_path / "m", "--resume"],
        ):
            done = bomkl(*args)
            assert done.exit_code in (0, 1)


def test_resuming_another_run_is_refused(svm, model, tmp_path):
    other = tmp_path / "other.svm"
    other.write_text(svm_text(100, seed=1))
    done = bomkl("train", other, "-o", model, "-a", "SPA", "--resume")
    assert done.exit_code == 1
    assert f"use --start-from {model}" in done.stderr
    done = bomkl("train", svm, "-o", model, "-a", "SPA", "--resume", "--budget", 5)
    assert "trained with other settings: budget (None, now 5)" in done.stderr


def test_learning_other_rows_with_a_model(svm, model, tmp_path):
    other = tmp_path / "other.svm"
    other.write_text(svm_text(100, seed=1))
    assert bomkl("train", other, "-o", tmp_path / "m2", "--from", model, "-q").exit_code == 0
    expected = modelfile.load(model).partial_fit(*make_rows(100, seed=1))
    X, _ = make_rows(50, seed=2)
    again = modelfile.load(tmp_path / "m2")
    assert again.n_seen_ == 600
    np.testing.assert_array_equal(again.decision_function(X), expected.decision_function(X))


def test_more_passes_go_on_from_a_complete_run(svm, tmp_path):
    bomkl("train", svm, "-o", tmp_path / "two", "--passes", 2, "-q")
    two = modelfile.load(tmp_path / "two").decision_function(make_rows(9)[0]).tolist()
    bomkl("train", svm, "-o", tmp_path / "m", "-q")
    bomkl("train", svm, "-o", tmp_path / "m", "-q", "--resume", "--passes", 2)
    assert modelfile.load(tmp_path / "m").decision_function(make_rows(9)[0]).tolist() == two
    refused = bomkl("train", "-", "-o", tmp_path / "m3", "--passes", 2, input=svm.read_bytes())
    assert "can be read only once, so --passes must be 1" in refused.stderr


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_a_pipe_is_silent(tmp_path, stop):
    read, write = os.pipe()
    child = in_a_process("train", "-", "-o", tmp_path / "m", "--checkpoint-every", 1, stdin=read)
    os.close(read)
    # More than a block and what is read ahead; the pipe stays open, so the command waits for more.
    os.write(write, svm_text(40_000).encode())
    wait_for((tmp_path / "m").exists)
    os.kill(child, stop)
    assert exit_code(child) == 128 + stop
    os.close(write)
    assert modelfile.load(tmp_path / "m").n_seen_ >= 1024


def other_rows(text):
    lines = text.splitlines(keepends=True)
    yield "other contents", "".join(lines[:100]) + "+1 1:9 2:9 3:9\n" + "".join(lines[101:])
    yield "another label", "-" + text[1:] if text[0] == "+" else "+" + text[1:]
    yield "a row removed", "".join(lines[1:])
    yield "two rows exchanged", "".join([lines[1], lines[0], *lines[2:]])
    yield "cut below the checkpoint", "".join(lines[:200])


@pytest.mark.parametrize("change", range(5))
def test_a_run_is_not_resumed_on_other_rows(tmp_path, change):
    text = svm_text(3000)
    piped = ["train", "-", "-o", tmp_path / "m", "-q", "-a", "SPA", "--checkpoint-every", 1, "--resume"]
    assert bomkl(*piped, input=text + "1 x:3\n").exit_code == 1  # stops at row 3000
    before = (tmp_path / "m").read_bytes()
    refused = bomkl(*piped, input=list(other_rows(text))[change][1])
    assert refused.exit_code == 1
    assert "the rows have changed since it was trained" in refused.stderr
    assert (tmp_path / "m").read_bytes() == before
    more = svm_text(3100)
    assert bomkl(*piped, input=more).exit_code == 0
    assert modelfile.load(tmp_path / "m").n_seen_ == 3100


def test_a_complete_run_is_not_resumed_on_other_rows(svm, tmp_path):
    args = ["train", svm, "-o", tmp_path / "m", "-q", "--resume", "--budget", 50]
    assert bomkl(*args).exit_code == 0
    assert bomkl(*args).exit_code == 0
    svm.write_text(svm_text(500, seed=1))
    for passes in (1, 2):
        refused = bomkl(*args, "--passes", passes)
        assert refused.exit_code == 1
        assert "the rows have changed since it was trained" in refused.stderr


def test_a_pipe_that_brings_only_new_rows(tmp_path):
    lines = svm_text(700).splitlines(keepends=True)
    args = ["train", "-", "-q", "-a", "SPA", "--features", 3, "--classes", "1,-1", "-o"]
    bomkl(*args, tmp_path / "whole", input="".join(lines))
    assert bomkl(*args, tmp_path / "m", input="".join(lines[:300]) + "nonsense\n").exit_code == 1
    done = bomkl(*args, tmp_path / "m", "--resume", "--only-new", input="".join(lines[300:]))
    assert done.exit_code == 0
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
    assert bomkl(*args, tmp_path / "m", "--only-new", input="").exit_code == 2


def test_a_pipe_of_new_data_is_learned_from_and_rows_are_never_skipped_in_silence(tmp_path):
    args = ["train", "-", "-q", "-a", "SPA", "--resume", "-o", tmp_path / "m"]
    old, new = svm_text(400), svm_text(400, seed=1)
    assert bomkl(*args, input=old).stderr == ""
    same = bomkl(*args, input=old)
    assert same.exit_code == 0
    assert same.stderr == f"bomkl: skipped 400 rows that {tmp_path / 'm'} has learned from before.\n"
    assert modelfile.load(tmp_path / "m").n_seen_ == 400
    other = bomkl(*args, input=new)
    assert other.exit_code == 0
    assert f"<stdin> does not begin with the 400 rows that {tmp_path / 'm'} has learned from" in other.stderr
    assert modelfile.load(tmp_path / "m").n_seen_ == 800
    again = bomkl(*args, input=new + svm_text(50, seed=2))  # the last pipe, and more
    assert (again.exit_code, "skipped 400 rows" in again.stderr) == (0, True)
    assert modelfile.load(tmp_path / "m").n_seen_ == 850
    shifted = "".join(new.splitlines(keepends=True)[1:])
    refused = bomkl(*args, input=shifted)
    assert (refused.exit_code, modelfile.load(tmp_path / "m").n_seen_) == (1, 850)
    assert "add --only-new" in refused.stderr
    assert bomkl(*args, "--only-new", input=shifted).stderr == ""
    assert modelfile.load(tmp_path / "m").n_seen_ == 850 + 399


def test_a_pipe_of_new_data_is_learned_from_after_one_that_broke_off(tmp_path):
    args = ["train", "-", "-q", "--resume", "--checkpoint-every", 1, "-o", tmp_path / "m"]
    assert bomkl(*args, input="a,b,label\n1,,x\n2,red,y\nfar,too,many,cells\n").exit_code == 1
    done = bomkl(*args, input="a,b,label\n7,blue,x\n")
    assert "does not begin with the 2 rows" in done.stderr
    assert modelfile.load(tmp_path / "m").n_seen_ == 3


def test_a_run_that_goes_on_says_what_it_skips(svm, tmp_path):
    args = ["train", svm, "-o", tmp_path / "m", "-q", "--resume", "--budget", 50]
    assert bomkl(*args).stderr == ""
    assert bomkl(*args).stderr == f"bomkl: {tmp_path / 'm'} has learned from all rows of {svm} before; none is new.\n"


@pytest.mark.parametrize("algorithm", ["auto", "SPA", "BPAS"])
def test_a_table_in_parts_of_a_pipe_is_the_model_of_one_run(tmp_path, algorithm):
    head, *lines = [
        "size,city,when,label\n",
        *(
            f"{'' if i % 11 == 3 else i % 7},{'' if i % 13 == 5 else f'city {i % 5}'},"
            f"2024-03-{1 + i // 24:02d}T{i % 24:02d}:00,{'late' if i * i % 5 < 2 else 'on time'}\n"
            for i in range(300)
        ),
    ]
    args = ["train", "-", "-q", "-a", algorithm, "--budget", 20, "--resume", "--only-new", "-o"]
    assert bomkl(*args, tmp_path / "whole", input=head + "".join(lines)).exit_code == 0
    for begin, end in ((0, 3), (3, 4), (4, 150), (150, 300)):
        broken = "" if end == 300 else "far, too, many, cells, here\n"
        done = bomkl(*args, tmp_path / "m", input=head + "".join(lines[begin:end]) + broken)
        assert done.exit_code == (0 if end == 300 else 1)
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()


def test_predictions_of_a_run_that_goes_on(tmp_path):
    text = svm_text(2000)
    args = ["train", "-", "-q", "-a", "SPA", "--resume"]
    bomkl(*args, "-o", tmp_path / "whole", "--predictions", tmp_path / "p_whole", input=text)
    args += ["-o", tmp_path / "m", "--predictions", tmp_path / "p"]
    assert bomkl(*args, input="".join(text.splitlines(keepends=True)[:1500]) + "nonsense\n").exit_code == 1
    with open(tmp_path / "p", "a") as file:
        file.write("rows that were predicted, but not in a checkpoint\n")
    assert bomkl(*args, input=text).exit_code == 0
    assert (tmp_path / "p").read_text() == (tmp_path / "p_whole").read_text()


def test_two_trainers_of_one_model(svm, tmp_path):
    read, write = os.pipe()
    first = in_a_process("train", "-", "-o", tmp_path / "m", "--checkpoint-every", 1, stdin=read)
    os.close(read)
    os.write(write, svm_text(50).encode())
    wait_for((tmp_path / "m").exists)
    refused = bomkl("train", svm, "-o", tmp_path / "m")
    assert refused.exit_code == 1
    assert refused.stderr == f"bomkl: error: {tmp_path / 'm'}: another process is writing this file\n"
    os.close(write)
    assert exit_code(first) == 0
    assert sorted(os.listdir(tmp_path)) == ["m", "rows.svm"]


@pytest.mark.parametrize("seed", range(30))
def test_hostile_notes(svm, tmp_path, seed):
    rng = random.Random(seed)
    X, y = make_rows(50)

    def junk(depth=0):
        if depth < 2 and rng.random() < 0.4:
            return {rng.choice(NAMES): junk(depth + 1) for _ in range(3)}
        return rng.choice([None, -1, 2**70, 1e300, float("inf"), float("nan"), "x\x1b[2J\ny", [], [1], {}, True, ""])

    notes = {name: junk() for name in NAMES if rng.random() < 0.9}
    modelfile.save(BudgetMKLClassifier(random_state=0).fit(X, y), tmp_path / "m", notes)
    for args in (
        ["predict", tmp_path / "m", svm],
        ["score", tmp_path / "m", svm],
        ["inspect", tmp_path / "m"],
        ["inspect", tmp_path / "m", "--json"],
        ["train", svm, "-o", tmp_path / "m", "--resume", "-a", "SPA", "-q"],
        ["train", svm, "-o", tmp_path / "m2", "--start-from", tmp_path / "m", "-a", "SPA", "-q"],
    ):
        done = bomkl(*args)
        assert done.exit_code in (0, 1)
        assert "\x1b" not in done.stdout + done.stderr
        if done.exit_code:
            assert done.stderr.splitlines()[-1].startswith("bomkl: error: ")


NAMES = (
    "schema", "settings", "inputs", "done_passes", "row", "tally", "history", "fingerprint", "columns", "rows", "label",
    "n_features", "ignored", "buckets", "label_kind", "classes", "algorithm", "error", "whole", "begun",
)  # fmt: skip
