"""Training runs that are stopped, by a signal, a reader that goes away or a full disk; pipes that fill slowly."""

from __future__ import annotations

import functools
import itertools
import os
import random
import signal
import subprocess
import sys
import time

import pytest
from tests.cli.processes import exit_code, in_a_process, wait_for
from tests.command_line import bomkl, make_rows, svm_text
from tests.slow import slow_but

from bomkl import modelfile
from bomkl.cli.signals import Deferred


def signal_after(number, saves, seconds):
    """Send this process a signal once it has saved so often and then worked for some seconds of processor time."""
    save, saved = modelfile.save, itertools.count(1)

    def start():
        signal.setitimer(signal.ITIMER_PROF, max(seconds, 1e-6))

    def counted(*args, **options):
        save(*args, **options)
        if next(saved) == saves:
            start()

    signal.signal(signal.SIGPROF, lambda *_: os.kill(os.getpid(), number))
    modelfile.save = counted
    if saves == 0:
        start()


def test_a_reader_that_goes_away(svm, model):
    svm.write_text(svm_text(20_000))
    read, write = os.pipe()
    child = in_a_process("predict", model, svm, "--kind", "margins", stdout=write)
    os.close(write)
    with os.fdopen(read) as pipe:
        float(pipe.readline())
    assert exit_code(child) == 141


def test_a_closed_terminal_that_is_to_be_ignored_stops_nothing():
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    try:
        with Deferred() as signals:
            signal.raise_signal(signal.SIGHUP)
            assert not signals.received
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("output", "code", "message"),
    [
        # nobody sees the table of progress, and nothing else is lost
        pytest.param("2>/dev/full", 0, None, marks=pytest.mark.slow),
        pytest.param(
            "--json >/dev/full", 1, "bomkl: error: standard output: No space left on device\n", marks=pytest.mark.slow
        ),
        ("--predictions - >/dev/full", 1, "bomkl: error: standard output: No space left on device\n"),
        pytest.param(
            "--predictions /dev/full", 1, "bomkl: error: /dev/full: No space left on device\n", marks=pytest.mark.slow
        ),
    ],
)
def test_a_run_whose_output_fails_keeps_what_it_learned(svm, tmp_path, output, code, message):
    run = f"'{sys.executable}' -m bomkl train {svm} -a SPA --budget 10 -o {tmp_path / 'm'} {output}"
    done = subprocess.run(["sh", "-c", run], capture_output=True, text=True)
    assert done.returncode == code
    assert "Traceback" not in done.stderr
    if message is not None:
        assert done.stderr.endswith(message)
    assert modelfile.load(tmp_path / "m").n_seen_ > 0


@pytest.mark.parametrize(("output", "code"), slow_but([("stdout", 141)], [("stdout", 141), ("stderr", 0)]))
def test_a_run_whose_reader_has_gone_keeps_what_it_learned(svm, tmp_path, output, code):
    read, write = os.pipe()
    os.close(read)
    args = [sys.executable, "-m", "bomkl", "train", svm, "-a", "SPA", "-o", tmp_path / "m", "--json"]
    others = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    done = subprocess.run(args, **(others | {output: write}))
    os.close(write)
    assert done.returncode == code
    assert modelfile.load(tmp_path / "m").n_seen_ == 500


@pytest.mark.slow
@pytest.mark.parametrize("command", ["train -q", "convert --to csv"])
def test_a_full_disk_is_named_with_the_file(svm, tmp_path, command):
    script = f"ulimit -f 1; trap '' XFSZ; exec '{sys.executable}' -m bomkl {command} {svm} -o {tmp_path / 'm'}"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr == f"bomkl: error: {tmp_path / 'm'}: File too large\n"
    assert [path.name for path in tmp_path.iterdir()] == [svm.name]  # no half of a file either


@pytest.mark.slow
@pytest.mark.parametrize("kill", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_runs_that_are_stopped_again_and_again_end_in_the_same_model(tmp_path, kill):
    (tmp_path / "rows.svm").write_text(svm_text(12_000))
    often = ["--passes", 2, "--checkpoint-every", 1]
    args = ["train", tmp_path / "rows.svm", "--budget", 30, *often, "-q", "--resume", "-o"]
    assert bomkl(*args, tmp_path / "whole").exit_code == 0  # imports what children would import again and again
    rng = random.Random(0)
    stops = 0
    for _ in range(100):  # 24 saves are needed in all, and each run is stopped after some
        begin = functools.partial(signal_after, kill, saves=rng.randrange(6), seconds=rng.uniform(0, 0.02))
        code = exit_code(in_a_process(*args, tmp_path / "m", begin=begin))
        if code == 0:
            break
        assert code in (-kill, 128 + kill), code
        stops += 1
    else:
        pytest.fail("the run never came to its end")
    assert stops >= 2
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
    assert bomkl(*args, tmp_path / "m").exit_code == 0  # a run that is complete is left as it is
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()


def csv_text(n):
    X, y = make_rows(n)
    return [f"{a},{b},{'red' if c > 0 else 'blue'},{label}\n" for (a, b, c), label in zip(X.tolist(), y, strict=True)]


@pytest.mark.parametrize("kind", ["csv", "svm", "jsonl"])
def test_rows_of_a_slow_pipe_are_learned_though_more_may_come(tmp_path, kind):
    lines = svm_text(12).splitlines(keepends=True)
    if kind == "csv":
        lines = ["a,b,c,label\n" + csv_text(12)[0], *csv_text(12)[1:]]
    elif kind == "jsonl":
        lines = [f'{{"a": {x[0]}, "b": {x[1]}, "label": {y}}}\n' for x, y in zip(*make_rows(12), strict=True)]
    read, write = os.pipe()
    child = in_a_process("train", "-", "-o", tmp_path / "m", "--checkpoint-every", 10, stdin=read)
    os.close(read)
    for line in lines:
        os.write(write, line.encode())
        time.sleep(0.01)
    wait_for((tmp_path / "m").exists)
    assert modelfile.load(tmp_path / "m").n_seen_ >= 10
    os.close(write)
    assert exit_code(child) == 0
    assert modelfile.load(tmp_path / "m").n_seen_ == 12


def test_predictions_of_a_slow_pipe_come_with_its_rows(model):
    to_child, from_child = os.pipe(), os.pipe()
    child = in_a_process("predict", model, "-", stdin=to_child[0], stdout=from_child[1])
    os.close(to_child[0])
    os.close(from_child[1])
    with os.fdopen(from_child[0]) as answers:
        for line in svm_text(5).splitlines(keepends=True):
            os.write(to_child[1], line.encode())
            assert answers.readline().strip() in ("1", "-1")  # before the next row is sent
        os.close(to_child[1])
        assert answers.read() == ""
    assert exit_code(child) == 0


def test_a_signal_that_is_sent_twice_at_once_is_one_request(monkeypatch):
    clock, ended = [100.0], []
    monkeypatch.setattr("bomkl.cli.signals.time.monotonic", lambda: clock[0])
    monkeypatch.setattr("bomkl.cli.signals.os._exit", ended.append)
    with Deferred() as signals:
        for seconds in (0, 0.9):
            clock[0] = 100 + seconds
            signal.raise_signal(signal.SIGINT)
        assert signals.received == signal.SIGINT
        assert not ended
        clock[0] = 101
        signal.raise_signal(signal.SIGTERM)
    assert ended == [143]


@pytest.mark.parametrize("stop", slow_but((signal.SIGINT,), (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)))
@pytest.mark.parametrize("sent", ["", "a,b,label\n", "a,b,label\n1,2,x\n"])
def test_a_signal_before_the_first_block(tmp_path, stop, sent):
    read, write = os.pipe()
    child = in_a_process("train", "-", "-o", tmp_path / "m", stdin=read)
    os.close(read)
    os.write(write, sent.encode())
    wait_for((tmp_path / ".m.lock").exists)
    time.sleep(0.3)  # usually it waits for the pipe by then; any other moment is as good
    os.kill(child, stop)
    assert exit_code(child) == 128 + stop
    os.close(write)
    assert bomkl("train", "-", "-o", tmp_path / "m", "-q", "--resume", input="a,b,label\n1,2,x\n2,3,y\n").exit_code == 0
    assert modelfile.load(tmp_path / "m").n_seen_ == 2


def test_a_slow_pipe_that_is_stopped_again_and_again_ends_in_the_same_model(tmp_path):
    text = ["a,b,c,label\n", *csv_text(120)]
    args = ["train", "-", "--budget", 30, "-q", "--resume", "--flush-seconds", 0.01, "-o"]
    bomkl(*args, tmp_path / "whole", input="".join(text))
    rng = random.Random(0)
    codes = []
    for _ in range(8):
        read, write = os.pipe()
        child = in_a_process(*args, tmp_path / "m", stdin=read)
        os.close(read)
        stop = rng.choice([signal.SIGINT, signal.SIGTERM])
        when = rng.randrange(len(text))
        for number, line in enumerate(text):
            if number == when:
                os.kill(child, stop)
                break
            os.write(write, line.encode())
            time.sleep(0.003)
        codes.append(exit_code(child))
        assert codes[-1] in (128 + stop, -stop)
        os.close(write)
    assert bomkl(*args, tmp_path / "m", input="".join(text)).exit_code == 0
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()


def test_a_signal_before_anything_is_imported_leaves_no_traceback():
    child = subprocess.Popen([sys.executable, "-m", "bomkl", "demo"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    time.sleep(0.5)
    child.send_signal(signal.SIGTERM)
    assert child.wait() in (143, -15)
    assert b"Traceback" not in child.stderr.read()
    child.stderr.close()
