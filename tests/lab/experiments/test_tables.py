"""The tables: means, marks, differences and what was not run."""

from collections.abc import Callable

import pytest

from bomkl_lab.experiments.document import Table, Value, as_html, as_markdown, table_as_text
from bomkl_lab.experiments.protocol import SPA, table_cells
from bomkl_lab.experiments.published import Summary, agrees, known_reason, published_differences, published_table
from bomkl_lab.experiments.results import Row
from bomkl_lab.experiments.tables import (
    NO_REASON,
    BlockOfTable,
    agreement_counts,
    as_table,
    build_block,
    differences,
    not_run,
)

FakeRow = Callable[..., Row]


def block_of(fake_row: FakeRow, table: int, dataset: str, algorithms: list[str], shift: float = 0.0) -> BlockOfTable:
    cells = table_cells(table, dataset, algorithms, range(3))
    rows = {cell.key(): fake_row(cell, shift) for cell in cells}
    return build_block(table, dataset, algorithms, rows, range(3), {})


def test_agreement_rule() -> None:
    paper = Summary(100.0, 5.0, 10)
    assert agrees(Summary(102.0, 0.0, 10), paper)  # 2 % of the value
    assert agrees(Summary(103.0, 5.0, 10), paper)  # 1.3 pooled standard errors
    assert not agrees(Summary(105.0, 5.0, 10), paper)  # 2.2 pooled standard errors
    assert agrees(Summary(108.0, 0.0, 1), paper)  # a single run has no deviation of its own
    assert not agrees(Summary(0.0, 0.0, 10), Summary(1.0, 0.0, 10))


def test_marks_and_means(fake_row: FakeRow) -> None:
    block = block_of(fake_row, 1, "german", ["OMKC(U)", SPA])
    assert [entry.mark("mistakes") for entry in block.entries] == ["agrees", "agrees"]
    assert block.entries[0].mistake is not None
    assert block.entries[0].mistake.mean == pytest.approx(35.37, rel=0.01)
    assert agreement_counts([block])["SPA and budget algorithms, mistakes"] == (1, 1)
    assert differences([block]) == []


def test_a_difference_has_its_reason_or_says_that_none_is_known(fake_row: FakeRow) -> None:
    block = block_of(fake_row, 1, "german", ["OMKC(U)", "OMKC(SD)"], shift=-0.1)
    unknown, known = (d for d in differences([block]) if d.quantity == "mistakes")
    assert NO_REASON in str(unknown).lower()
    assert "wrong kernel's classifier" in str(known)
    assert agreement_counts([block])["Perceptron and OMKC, mistakes"] == (0, 2)


def test_known_differences_name_real_cells() -> None:
    names = {name for table in (1, 2) for block in published_table(table).values() for name in block}
    datasets = {name for table in (1, 2) for name in published_table(table)}
    for entry in published_differences():
        assert set(entry["algorithms"]) <= names | {"*"}
        assert set(entry["datasets"]) <= datasets | {"*"}
        assert set(entry["quantities"]) <= {"mistakes", "support vectors", "*"}
        assert entry["reason"].endswith(".")
    assert known_reason("german", "OMKC(SD)", "mistakes")
    assert known_reason("german", "OMKC(U)", "mistakes") is None


def test_a_sample_is_labelled_and_never_judged(fake_row: FakeRow) -> None:
    block = block_of(fake_row, 2, "susy-sample", [SPA], shift=0.5)
    assert block.entries[0].mark("mistakes") == "sample"
    assert "a sample of susy's 1,000,000" in block.title
    assert "beta = 12.3" in block.title
    assert differences([block]) == []
    assert agreement_counts([block])["SPA and budget algorithms, mistakes"] == (0, 0)


def test_not_run_with_the_reason(fake_row: FakeRow) -> None:
    block = build_block(1, "kdd08", ["OMKC(U)", SPA], {}, range(3), {"kdd08": "needs registration"})
    assert not_run([block]) == ["Table 1, kdd08: needs registration (OMKC(U), BOMKC(SPA))"]
    assert {entry.mark("support vectors") for entry in block.entries} == {"not run"}
    (cell,) = table_cells(1, "german", [SPA], [0])
    failed = {cell.key(): {"cell": cell.as_dict(), "status": "failed", "error": "MemoryError: "}}
    assert "failed: MemoryError" in not_run([build_block(1, "german", [SPA], failed, [0], {})])[0]


def test_partial_runs_say_so(fake_row: FakeRow) -> None:
    cells = table_cells(1, "german", [SPA], range(3))
    rows = {cell.key(): fake_row(cell) for cell in cells[:2]}
    table = as_table(build_block(1, "german", [SPA], rows, range(3), {}))
    assert table.rows[0][0].text == "BOMKC(SPA) (2 of 3 runs)"


def test_own_algorithms_have_no_published_value(fake_row: FakeRow) -> None:
    block = block_of(fake_row, 1, "german", ["mine", SPA])
    mine = as_table(block).rows[0]
    assert [value.text for value in mine[2:4]] == ["-", "-"]
    assert mine[1].bold  # 25 % beats SPA's 30 %
    assert differences([block]) == []


def test_table_2_prints_short_names(fake_row: FakeRow) -> None:
    block = block_of(fake_row, 2, "a9a", ["BOMKC(RBP)", SPA])
    assert [row[0].text for row in as_table(block).rows] == ["RBP", "SPA"]
    assert "B = 443 for each kernel" in block.title


def test_rendering_escapes_and_emphasises() -> None:
    table = Table(("a", "b"), ((Value("<x|y>"), Value("1", bold=True)), (Value("z"), Value("22", tone="differs"))))
    assert "**1**" in as_markdown([table])
    assert "<x\\|y>" in as_markdown([table])
    page = as_html("t", [table])
    assert "&lt;x|y&gt;" in page
    assert '<td class="differs">22</td>' in page
    text = table_as_text(table, ("\x1b[1m", "\x1b[0m")).splitlines()
    assert text[2].replace("\x1b[1m", "").replace("\x1b[0m", "") == "<x|y>   1"
    assert "\x1b[1m1\x1b[0m" in text[2]
