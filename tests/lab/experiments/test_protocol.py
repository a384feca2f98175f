"""Cells, and the cells the paper consists of."""

import dataclasses

import pytest

from bomkl_lab.experiments import protocol
from bomkl_lab.experiments.algorithms import known_algorithms, paper_algorithms, register_algorithm, resolve_algorithm
from bomkl_lab.experiments.names import UnknownNameError
from bomkl_lab.experiments.protocol import SPA, Cell, make_cell, table_cells
from bomkl_lab.experiments.published import published_table


def test_cell_is_frozen_and_survives_its_dict() -> None:
    cell = Cell("a9a", SPA, 3, 12, (("alpha", 0.5), ("beta", 6.0)), "float64")
    assert Cell.from_dict(cell.as_dict()) == cell
    with pytest.raises(dataclasses.FrozenInstanceError):
        cell.seed = 4  # type: ignore[misc]


def test_key_tells_cells_apart() -> None:
    cells = [
        make_cell("a9a", SPA, 0),
        make_cell("a9a", SPA, 1),
        make_cell("ijcnn1", SPA, 0),
        make_cell("a9a", "OMKC(U)", 0),
        make_cell("a9a", SPA, 0, budget=5),
        make_cell("a9a", SPA, 0, parameters={"beta": 6.0}),
        dataclasses.replace(make_cell("a9a", SPA, 0), dtype="float64"),
    ]
    assert len({cell.key() for cell in cells}) == len(cells)


def test_default_parameters_are_left_out() -> None:
    assert make_cell("a9a", SPA, 0, parameters={"alpha": 1.0, "beta": 3.0}) == make_cell("a9a", SPA, 0)


def test_madelon_runs_in_double_precision() -> None:
    assert make_cell("madelon", SPA, 0).dtype == "float64"


def test_table_1_has_no_budgets_and_table_2_has_the_published_ones() -> None:
    assert {cell.budget for cell in table_cells(1, "a9a", ["OMKC(U)", SPA], range(3))} == {None}
    assert {cell.budget for cell in table_cells(2, "a9a", ["BOMKC(RBP)"], range(3))} == {443}
    assert table_cells(1, "a9a", [SPA], range(2)) == table_cells(2, "a9a", [SPA], range(2))


def test_susy_sample_keeps_the_papers_expected_budget() -> None:
    (cell,) = table_cells(2, "susy-sample", [SPA], [0])
    beta = dict(cell.parameters)["beta"]
    assert beta == pytest.approx(12.3, abs=0.05)
    assert 40924 / beta == pytest.approx(1_000_000 / 300)
    (rival,) = table_cells(2, "susy-sample", ["BOMKC(RBP)"], [0])
    assert rival.budget == 124


def test_the_sample_stands_in_only_where_the_whole_is_missing() -> None:
    assert "susy-sample" in protocol.table_datasets(2, ["a9a", "susy-sample"])
    assert "susy-sample" not in protocol.table_datasets(2, ["susy", "susy-sample"])


def test_figure_cells() -> None:
    cells = protocol.figure_sensitivity_cells([0])
    assert len(set(cells)) == len(cells) == 26
    assert make_cell("a9a", SPA, 0) in cells
    rivals = protocol.figure_rival_cells({3.0: 7092.3, 6.0: 3000.0}, [0, 1])
    assert len(rivals) == 2 * 4 * 2
    assert {cell.budget for cell in rivals} == {443, 188}


def test_the_nine_algorithms_and_their_short_names() -> None:
    assert len(paper_algorithms()) == 9
    assert resolve_algorithm("rbp") == "BOMKC(RBP)"
    assert resolve_algorithm("omkc(dd)") == "OMKC(DD)"
    with pytest.raises(UnknownNameError, match=r"Unknown algorithm 'OMKC\(DU\)'. Did you mean 'OMKC\(U\)'"):
        resolve_algorithm("OMKC(DU)")


def test_paper_names_agree_with_the_package() -> None:
    paper = pytest.importorskip("bomkl.paper")
    assert set(paper.ALGORITHMS) == set(paper_algorithms())


@pytest.mark.parametrize("name", ["OMKC(U)", "", "a,b"])
def test_register_refuses_names(name: str) -> None:
    with pytest.raises(ValueError, match="The 'name' parameter of register_algorithm must be a new name"):
        register_algorithm(name, print)


def test_register_refuses_what_cannot_be_called() -> None:
    with pytest.raises(ValueError, match="The 'factory' parameter of register_algorithm must be callable"):
        register_algorithm("mine", 3)  # type: ignore[arg-type]
    assert "mine" not in known_algorithms()


def test_published_tables_are_complete() -> None:
    assert [len(published_table(table)) for table in (1, 2)] == [6, 6]
    assert all(len(block) == 5 for table in (1, 2) for block in published_table(table).values())
