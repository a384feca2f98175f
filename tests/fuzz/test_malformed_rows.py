"""Malformed tables and pipes: one clear line for each, the documented exit code, and what was learned before is kept.

Short here; ``BOMKL_FUZZ_CASES=1000 pytest tests/fuzz/test_malformed_rows.py`` runs more.
"""

from __future__ import annotations

import contextlib
import json
import os
import random

import pytest
from typer.testing import CliRunner

from bomkl import modelfile
from bomkl.cli import app

CASES = int(os.environ.get("BOMKL_FUZZ_CASES", "60"))
ALGORITHMS = ["auto", "auto", "SPA", "RBP", "BPAS", "OMKC(FOGD)"]
COLUMNS = ["size", "colour", "when", "label"]


def cell(rng, column):
    return {
        "size": f"{rng.gauss(0, 1):.3f}",
        "colour": rng.choice(["red", "blue", "with, comma", 'with "quote"', "grün"]),
        "when": f"2024-0{rng.randrange(1, 10)}-1{rng.randrange(10)}",
        "label": rng.choice(["yes", "no"]),
    }[column]


def quoted(text):
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\n') else text


def csv_rows(rng, n):
    rows = [[quoted(cell(rng, column)) for column in COLUMNS] for _ in range(n)]
    return [",".join(COLUMNS).encode(), *(",".join(row).encode() for row in rows)]


def jsonl_rows(rng, n):
    return [json.dumps({column: cell(rng, column) for column in COLUMNS}).encode() for _ in range(n)]


def svm_rows(rng, n):
    return [f"{rng.choice([-1, 1])} 1:{rng.gauss(0, 1):.3f} 3:{rng.random():.3f}".encode() for _ in range(n)]


WRITERS = {"csv": csv_rows, "tsv": lambda rng, n: [line.replace(b",", b"\t") for line in csv_rows(rng, n)],
           "jsonl": jsonl_rows, "svmlight": svm_rows}  # fmt: skip


def drop_a_cell(rng, line):
    return line.rsplit(rng.choice([b",", b"\t", b":"]), 1)[0]


def insert(*pieces):
    def change(rng, line):
        at = rng.randrange(len(line) + 1)
        return line[:at] + rng.choice(pieces) + line[at:]

    return change


LINE_CHANGES = [
    drop_a_cell,
    insert(b",extra", b"\textra", b" 9:1", b' ,"x": 3'),
    insert(b"\0", b"\0\0\0"),
    insert(b"\xff\xfe", b"\xc3\x28", b"\xed\xa0\x80"),
    insert(b'"', b'""', b"'"),
    insert(b"\r", b"\r\n", b"\x0b", b"\xe2\x80\xa8"),
    insert(b"1e999", b"-inf", b"nan", b"0x10", b"1_000", b"++1"),
    lambda rng, line: line[: rng.randrange(len(line) + 1)],
    lambda rng, line: b"",
    lambda rng, line: bytes(rng.randrange(256) for _ in range(20)),
    lambda rng, line: line * 50,
    lambda rng, line: b'{"size": [1, 2], "label": "yes"}',
    lambda rng, line: b'{"late": 1, "label": "yes"}',
    lambda rng, line: b"[" * 3000,
]
FILE_CHANGES = [
    lambda rng, lines: [lines[0].replace(b"colour", b"size"), *lines[1:]],
    lambda rng, lines: lines[1:],
    lambda rng, lines: [lines[0], *lines],
    lambda rng, lines: lines[:1],
    lambda rng, lines: [],
    lambda rng, lines: [b"", b"", *lines],
    lambda rng, lines: [b"\xef\xbb\xbf" + lines[0], *lines[1:]],
    lambda rng, lines: b"\n".join(lines).decode("utf-8", "ignore").encode("utf-16").split(b"\n"),
    lambda rng, lines: [lines[0].replace(b"label", b"Label"), *lines[1:]],
    lambda rng, lines: [line + b",x" for line in lines],
    lambda rng, lines: [b"\x1f\x8b" + lines[0], *lines[1:]],
    lambda rng, lines: [b"PAR1" + lines[0], *lines[1:]],
    lambda rng, lines: [b"# comment", *lines],
]


def malformed(rng):
    kind = rng.choice(list(WRITERS))
    lines = WRITERS[kind](rng, rng.choice([3, 30, 90]))
    if rng.random() < 0.4:
        lines = rng.choice(FILE_CHANGES)(rng, lines)
    for _ in range(rng.choice([0, 1, 1, 3])):
        if lines:
            at = rng.randrange(len(lines))
            lines[at] = rng.choice(LINE_CHANGES)(rng, lines[at])
    return kind, rng.choice([b"\n", b"\n", b"\r\n"]).join(lines) + rng.choice([b"\n", b""])


@pytest.mark.parametrize("seed", range(CASES))
def test_one_line_for_each_and_nothing_lost(tmp_path, seed):
    rng = random.Random(seed)
    kind, data = malformed(rng)
    path, output = tmp_path / "rows", tmp_path / "m"
    path.write_bytes(data)
    args = ["--on-bad-line", rng.choice(["stop", "skip"]), "-q", "--budget", "20"]
    args += ["--format", kind] if rng.random() < 0.7 else []
    args += (
        ["-a", rng.choice(["auto", "auto", "SPA", "RBP", "BPAS", "OMKC(FOGD)"])]
        if kind != "svmlight" or rng.random() < 0.5
        else []
    )
    piped = rng.random() < 0.6
    for command in (["train", "-o", str(output)], ["eval"]):
        runner = CliRunner()
        with contextlib.chdir(tmp_path):
            done = runner.invoke(
                app, [*command, "-" if piped else "rows", *args], input=data if piped else None, catch_exceptions=False
            )
        assert done.exit_code in (0, 1)
        lines = done.stderr.splitlines()
        assert sum(line.startswith("bomkl: error: ") for line in lines) == done.exit_code
        assert all(line.startswith("bomkl: ") and line.isprintable() for line in lines)
    assert not [name for name in os.listdir(tmp_path) if name not in ("rows", "m")]
    if done.exit_code and output.exists():
        assert modelfile.load(output).n_seen_ > 0
