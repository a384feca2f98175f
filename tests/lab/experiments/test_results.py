"""The results file under torn lines, foreign lines and a second writer."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from bomkl_lab.experiments.protocol import make_cell
from bomkl_lab.experiments.results import ResultsBusyError, Row, open_for_append, read_results, reproducible_part

CELLS = [make_cell("german", "OMKC(U)", seed) for seed in range(3)]


def row(seed: int, **fields: object) -> Row:
    return {"cell": CELLS[seed].as_dict(), "status": "ok", "mistakes": seed, **fields}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "out" / "rows.jsonl"
    with open_for_append(path) as results:
        for seed in range(3):
            results.append(row(seed))
    return path


def test_round_trip(path: Path) -> None:
    results = read_results(path)
    assert list(results.rows) == [cell.key() for cell in CELLS]
    assert results.problems == []
    assert read_results(path.with_name("other")).rows == {}


def test_compressed_rows_can_be_read(path: Path, tmp_path: Path) -> None:
    packed = tmp_path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_results(packed).rows == read_results(path).rows


@pytest.mark.parametrize("cut", [1, 5, 40])
def test_torn_last_line_is_reported_and_nothing_is_overwritten(path: Path, cut: int) -> None:
    torn = path.read_bytes()[:-cut]
    path.write_bytes(torn)
    results = read_results(path)
    if cut == 1:  # only the line break is missing: the row itself is whole
        assert len(results.rows) == 3
    else:
        assert list(results.rows) == [CELLS[0].key(), CELLS[1].key()]
        (problem,) = results.problems
        assert f"{path}, line 3: incomplete" in problem
    with open_for_append(path) as appender:
        appender.append(row(2, again=True))
    assert path.read_bytes().startswith(torn + b"\n")
    assert read_results(path).rows[CELLS[2].key()]["again"]


@pytest.mark.parametrize("line", [b"{", b"[]", b"7", b'{"cell": 3}', b'{"cell": {}}', b"\xff\xfe", b'{"status": "ok"}'])
def test_foreign_line_in_the_middle_is_reported(path: Path, line: bytes) -> None:
    lines = path.read_bytes().split(b"\n")
    path.write_bytes(b"\n".join([lines[0], line, *lines[1:]]))
    results = read_results(path)
    assert len(results.rows) == 3
    (problem,) = results.problems
    assert "line 2: not a result" in problem


def test_unknown_status_is_a_problem(path: Path) -> None:
    path.write_text(json.dumps(row(0, status="perhaps")) + "\n")
    assert "line 1" in read_results(path).problems[0]


def test_the_last_row_of_a_cell_counts(path: Path) -> None:
    with open_for_append(path) as results:
        results.append(row(1, again=True))
    assert read_results(path).rows[CELLS[1].key()]["again"]


def test_two_writers_are_kept_apart(path: Path) -> None:
    pytest.importorskip("fcntl")
    with open_for_append(path), pytest.raises(ResultsBusyError, match="in use by another run"), open_for_append(path):
        pass


def test_values_that_are_no_json_are_refused_before_writing(path: Path) -> None:
    before = path.read_bytes()
    with open_for_append(path) as results, pytest.raises(ValueError, match="JSON"):
        results.append(row(0, mistakes=float("nan")))
    assert path.read_bytes() == before


def test_reproducible_part_leaves_times_out(fake_row: Callable[..., Row]) -> None:
    part = reproducible_part(fake_row(CELLS[0]))
    assert "mistakes" in part
    assert not {"seconds", "machine", "curve", "peak_memory_mib"} & set(part)
