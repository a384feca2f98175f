"""The benchmarks run at tiny sizes and give rows with the fields that the page is made of. No time is asserted."""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).parents[2]


def check_fields(rows, *fields):
    assert rows
    for row in rows:
        missing = [field for field in fields if field not in row]
        assert not missing, (missing, row)


def test_the_exponent_of_a_power_is_found():
    from bomkl_lab.benchmarks.common.measure import exponent

    x = np.array([10.0, 20.0, 50.0, 100.0])
    assert exponent(x, 3e-5 * x**1.5) == pytest.approx(1.5)
    noisy = 2.0 * x * np.array([1.01, 0.99, 1.01, 0.99])
    assert exponent(x, noisy) == pytest.approx(1.0, abs=0.02)


def test_work_in_turn_is_warmed_up_and_alternates():
    from bomkl_lab.benchmarks.common.measure import in_turn

    calls = []
    times = in_turn(lambda: calls.append("a"), lambda: calls.append("b"), seconds=0, rounds=2)
    assert calls == ["a", "b"] * 3
    assert [len(taken) for taken in times] == [2, 2]


def test_rows_are_written_behind_the_machine_and_read_back(tmp_path, capsys):
    from bomkl_lab.benchmarks.common.rows import read_rows, report

    kept = report("example", iter([{"x": 1 / 3, "n": 2}]), lambda row: f"x = {row['x']}", tmp_path)
    assert kept == [{"bench": "example", "x": 0.33333, "n": 2}]
    assert capsys.readouterr().out == "x = 0.33333\n"
    machine, *rows = read_rows(tmp_path / "example.jsonl")
    assert machine["bench"] == "machine"
    assert machine["instruction_set"]
    assert rows == kept


def test_a_model_with_a_pool_scores_as_its_expansion_says():
    from bomkl.kernels import Gaussian
    from bomkl_lab.benchmarks.common.generated import model_with_pool

    model = model_with_pool([Gaussian(1.0)], rows=70, d=3)
    X = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)
    squared = ((X[:, None] - model.support_vectors_[None]) ** 2).sum(axis=2)
    assert model.n_support_.tolist() == [70]
    np.testing.assert_allclose(model.decision_function(X), np.exp(-squared / 2) @ model.dual_coef_[:, 0], rtol=1e-4)


def test_every_line_of_the_roofline_picture_is_inside_its_panel():
    from bomkl_lab.benchmarks.common.figures import roofline

    rows = [
        {"kernels": kernels, "d": 8, "path": path, "pool": pool, "fraction": fraction}
        for kernels, fraction in (("one", 0.5), ("many", 3.0))
        for path in ("fused", "decision_function")
        for pool in (100, 1000)
    ]
    for axis in roofline(rows).axes:
        assert all(max(line.get_ydata(), default=0) <= axis.get_ylim()[1] for line in axis.get_lines())


def test_roofline():
    from bomkl_lab.benchmarks import roofline
    from bomkl_lab.benchmarks.common.generated import text_like

    limits, *dense = roofline.dense_rows([4], [50], seconds=0)
    check_fields([limits], "sgemm_gflops", "exps_per_second", "bytes_per_second")
    assert [(row["kernels"], row["path"]) for row in dense] == [
        (kernels, path) for kernels in ("one Gaussian", "16 kernels") for path in ("fused", "decision_function")
    ]
    check_fields(dense, "d", "pool", "pairs_per_second", "limit", "fraction", "of_sgemm", "of_exp")
    X, y = text_like(60, d=500, nonzeros=10)
    assert (np.diff(X.indptr) == 10).all()
    csr, filled = roofline.sparse_cell("text", X, y, seconds=0)
    assert (csr["rows_as"], filled["rows_as"]) == ("CSR", "dense")
    assert csr["support"] == filled["support"] > 0
    assert roofline.show(limits).startswith(f"one core: sgemm {limits['sgemm_gflops']:.1f} GFLOP/s")
    assert all(f"pool {row['pool']:>7,}" in roofline.show(row) for row in dense)
    assert f"{csr['support']} SVs" in roofline.show(csr)


@pytest.mark.slow
def test_end_to_end_on_the_bundled_data(monkeypatch):
    import bomkl
    from bomkl_lab.benchmarks import end_to_end

    monkeypatch.setenv("BOMKL_DATA", str(Path(bomkl.__file__).parent / "data"))
    rows = list(end_to_end.measure(["magic04"], rows=300))
    check_fields(rows, "rows_per_second", "mistakes", "support", "seconds", "mebibytes", "values_per_second")
    assert all(row["of_limit"] > 0 for row in rows)
    assert len({row["algorithm"] for row in rows}) == 11
    assert all((row["rows"], row["of_rows"]) == (300, 300) for row in rows)
    (cut,) = end_to_end.measure(["magic04"], ["BOMKC(SPA)"], rows=5_000, most_seconds=1e-9)
    assert (cut["rows"], cut["of_rows"]) == (end_to_end.CHUNK, 5_000)
    assert f"{100 * rows[0]['mistakes'] / 300:6.2f} % mistakes" in end_to_end.show(rows[0])
    assert end_to_end.show(cut).endswith(f", the first {end_to_end.CHUNK:,} rows")


@pytest.mark.slow
def test_budget_learners_beside_another_version(monkeypatch):
    import bomkl
    from bomkl_lab.benchmarks import budget_speed

    monkeypatch.setenv("BOMKL_DATA", str(Path(bomkl.__file__).parent / "data"))
    row = budget_speed.beside(Path(sys.executable), "magic04", "BOMKC(RBP)", 300, turns=1)
    check_fields([row], "older_seconds", "seconds", "ratio", "values_per_second", "mistakes")
    assert "BOMKC(RBP)" in budget_speed.table([row])


def test_growth():
    from bomkl_lab.benchmarks import growth

    every = {(series.along, series.name): series for series in growth.series(scale=64)}
    for key in (("rows", "BOMKC(SPA), beta = 3"), ("budget", "BOMKC(RBP)"), ("columns", "OMKC(DD)")):
        series = every[key]
        *points, fit = growth.run(series)
        check_fields(points, "series", "along", "size", "seconds", "support")
        check_fields([fit], "exponent", "last_exponent", "against")
        assert f"{points[0]['support']:,} SVs" in growth.show(points[0])
        assert f"time ~ ({fit['against']})^{fit['exponent']:.2f}" in growth.show(fit)


def test_peers_that_are_not_installed_are_said_to_be_missing(monkeypatch):
    from bomkl_lab.benchmarks import speed_peers

    def missing(X, y, n_jobs):
        raise SystemExit("no_such_peer is not installed")

    X = np.random.default_rng(0).normal(size=(200, 3))
    y = (X[:, 0] > 0).astype(int)
    monkeypatch.setitem(speed_peers.ONLINE, "missing", missing)
    assert "not installed" in speed_peers.run_online("missing", X, y)["not_run"]
    fields = ("rows", "seconds", "rows_per_second", "mistakes")
    check_fields([speed_peers.run_online("BOMKC(SPA)", X, y), speed_peers.run_svc(X, y)], *fields)


def test_a_target_says_whether_it_is_met():
    from bomkl_lab.benchmarks import targets

    assert targets.at_most("x", 1.0, 2.0, "s")["met"] is False
    assert targets.at_least("x", 1.0, 2.0, "s")["met"] is True
    (row,) = targets.one_row()
    check_fields([row], "bound", "seen", "support")
    assert targets.show(row).endswith("NOT MET") is not row["met"]


def test_a_line_without_its_data_is_not_run(monkeypatch):
    from bomkl_lab.benchmarks import targets
    from bomkl_lab.experiments.datasets import MissingDataError

    def absent():
        raise MissingDataError("nowhere to be found")
        yield

    monkeypatch.setattr(targets, "LINES", {"a line": absent})
    (row,) = targets.measure()
    assert targets.show(row).endswith("not run: nowhere to be found")


def test_the_guard_fails_on_what_has_become_slower_and_stays_so():
    from bomkl_lab.benchmarks import guard

    reference = {"case": 1.0}
    assert not guard.check("case", lambda: 1.2, reference)["slower"]
    regression = guard.check("case", lambda: 2.0, reference)
    assert regression["slower"]
    assert "SLOWER" in guard.show(regression)
    disturbed = iter([2.0, 1.1])
    assert not guard.check("case", lambda: next(disturbed), reference)["slower"]
    assert not guard.check("new case", lambda: 9.0, reference)["slower"]


def test_the_guard_exits_with_an_error_on_a_regression(monkeypatch, tmp_path):
    from bomkl import _core
    from bomkl_lab.benchmarks import guard

    name, case = "learn, BOMKC(SPA)", guard.paper_learning("BOMKC(SPA)", 200)
    monkeypatch.setattr(guard, "REFERENCE", tmp_path / "guard.toml")
    guard.write_reference({_core.instruction_set(): {name: 1e-9}}, guard.REFERENCE)
    kept = guard.read_reference(guard.REFERENCE)[_core.instruction_set()]
    monkeypatch.setattr(guard, "measure", lambda reference: iter([guard.check(name, lambda: 1.0, kept)]))
    monkeypatch.setattr(sys, "argv", ["guard"])
    with pytest.raises(SystemExit, match=r"slower than guard.toml allows: learn, BOMKC\(SPA\)"):
        guard.main()
    assert case()() is not None


def test_the_report_on_speed_has_its_sections_and_puts_tables_into_pages(tmp_path):
    from bomkl_lab.benchmarks import document
    from bomkl_lab.benchmarks.common.rows import machine, write_rows

    run = {
        "what": "SPA on a9a",
        "seconds": 0.1,
        "numpy_seconds": 6.8,
        "ratio": 68.0,
        "mistakes": 0.1,
        "numpy_mistakes": 0.2,
    }
    missed = {"what": "one row", "sense": "<=", "bound": 30.0, "seen": 41.0, "unit": "microseconds", "met": False}
    rows = {"speed": run, "targets": missed, "guard": {"case": "learn", "ratio": 3.95}}
    for name, row in rows.items():
        write_rows(tmp_path / f"{name}.jsonl", [machine(), {"bench": name, **row}])
    page = tmp_path / "page.md"
    page.write_text("Before.\n\n| run | old |\n|:--|--:|\n| old | 1 |\n\nAfter.\n")
    document.write(tmp_path, [page])
    report = (tmp_path / document.REPORT).read_text()
    assert [line[3:] for line in report.splitlines() if line.startswith("## ")] == [
        "Compared with NumPy",
        "Targets",
        "Guard against becoming slower",
    ]
    assert "| **one row** | **at most 30 microseconds** | **41 microseconds** | **no** |" in report
    lines = page.read_text().splitlines()
    assert lines[4] == "| SPA on a9a | 0.10 | 6.80 | 68 | 10.00 and 20.00 |"
    assert (lines[0], lines[-1]) == ("Before.", "After.")


def test_the_best_of_the_others_is_one_of_one_pass():
    from bomkl_lab.benchmarks import peers

    runs = [
        ("AutoMKL", 24.36, 0.5),
        ("VW nn 10", 26.42, 0.6),
        ("River ARF", 25.0, 0.7),
        ("LightGBM refitted", 20.0, 0.4),
    ]
    found = {("german", name): {"method": name, "mistakes": wrong, "log_loss": loss} for name, wrong, loss in runs}
    line = peers.best_table(found, ["german"]).splitlines()[2]
    assert line == "| german | 24.36 (0.500) | 25.00 (0.700) River ARF | 20.00 (0.400) |"


def test_learners_fitted_anew_are_judged_before_they_see_a_row():
    from sklearn.linear_model import LogisticRegression

    from bomkl_lab.benchmarks.refit import mistakes_percent

    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 2))
    assert mistakes_percent(LogisticRegression, X, np.where(X[:, 0] > 0, 1, -1), seed=0) < 15
    guesses = mistakes_percent(LogisticRegression, X, rng.choice([-1, 1], 200), seed=0)
    assert 35 < guesses < 65


def test_recorded_streams_need_their_archive(monkeypatch, tmp_path):
    from bomkl_lab.benchmarks import drift_streams, peers_files
    from bomkl_lab.experiments.datasets import MissingDataError

    monkeypatch.setattr(peers_files, "data_folders", lambda: [tmp_path])
    with pytest.raises(MissingDataError, match=f"scikit-multiflow.*{tmp_path}"):
        drift_streams.recorded("elec")()


@pytest.mark.parametrize("name", ["interchanging Gaussians", "moving squares", "transient chessboard"])
def test_streams_that_change_are_the_same_every_time_and_do_change(name):
    from sklearn.neighbors import KNeighborsClassifier

    from bomkl_lab.benchmarks.drift_streams import STREAMS

    read = next(read for each, (read, _) in STREAMS.items() if each.startswith(name))
    (X, y), again = read(), read()
    np.testing.assert_array_equal(X, again[0])
    np.testing.assert_array_equal(np.unique(y), np.arange(y.max() + 1))
    early = KNeighborsClassifier(5).fit(X[:300], y[:300])
    assert early.score(X[:300], y[:300]) > early.score(X[4000:6000], y[4000:6000]) + 0.3


def test_a_win_is_counted_only_where_both_were_measured():
    from bomkl_lab.benchmarks import peers

    figures = [
        ("german", "AutoMKL", 0, {"mistakes": 1.0, "log_loss": 0.5}),
        ("german", "River ARF", 0, {"mistakes": 2.0, "log_loss": 0.4}),
        ("german", "River ARF", 1, {"mistakes": 0.0, "log_loss": 9.0}),
        ("hotel", "AutoMKL", 0, {"mistakes": 3.0}),
        ("hotel", "River ARF", 0, {"mistakes": 3.0}),
        ("a9a", "River ARF", 0, {"mistakes": 9.0, "log_loss": 0.4}),
        ("a9a", "VW nn 10", 0, {"not_run": {"rows_per_second": 1, "minutes": 9.9}}),
    ]
    rows = [{"data": data, "method": method, "seed": seed, **each} for data, method, seed, each in figures]
    lines = peers.wins(rows, ["River ARF", "VW nn 10"]).splitlines()
    assert lines[2:] == ["| mistakes (regression: RMSE) | 1 of 2 |  |", "| log loss | 0 of 1 |  |"]


def test_tables_of_a_page_are_replaced_by_those_of_the_same_title(tmp_path):
    from bomkl_lab.benchmarks.common.pages import put_tables

    page = tmp_path / "page.md"
    page.write_text("a\n\n| log loss | x |\n| --- | --- |\n| old | 1 |\n\nb | c\n\n| other | y |\n| --- | --- |\n")
    new = "| log loss | \\1 | z |\n| --- | --- | --- |\n| new | 2 | 3 |\n| newer | 4 | 5 |"
    assert put_tables(page, [new, "| nowhere | x |\n| --- | --- |"]) == ["log loss"]
    assert page.read_text() == f"a\n\n{new}\n\nb | c\n\n| other | y |\n| --- | --- |\n"


def test_the_short_table_shows_the_least_in_bold():
    from bomkl_lab.benchmarks import peers

    runs = [("german", "AutoMKL", 24.36), ("german", "VW nn 10", 26.42), ("a9a", "VW nn 10", 15.67)]
    rows = [{"data": data, "method": method, "seed": 0, "mistakes": each} for data, method, each in runs]
    lines = peers.short_table({(row["data"], row["method"]): row for row in rows}).splitlines()
    assert lines[2] == "| german | **24.4** |  | 26.4 |  |  |  | 30.2 |"
    assert lines[6] == "| a9a |  |  | **15.7** |  |  |  | 16.1 |"


@pytest.mark.parametrize("classes", [0, 2, 3])
def test_methods_say_something_about_every_row(classes):
    from bomkl_lab.benchmarks.peers_methods import METHODS
    from bomkl_lab.benchmarks.peers_streams import Stream

    X = np.random.default_rng(0).normal(size=(120, 3))
    y = X[:, 0] if not classes else np.digitize(X[:, 0], [0, 1][: classes - 1])
    said = METHODS["AutoMKL"](Stream(X, y, classes, True), 1)
    assert said.shape == ((120, classes) if classes else (120,))
    if classes:
        np.testing.assert_allclose(said.sum(axis=1), 1)
        assert (said.argmax(axis=1) == y).mean() > 0.6


def test_streams_that_are_made_are_finite_and_the_same_for_a_seed():
    from bomkl_lab.benchmarks.unseen_streams import STREAMS

    for name in ("cauchy", "categories", "moons, 8 columns of noise", "runs of labels", "random walk", "boxes"):
        first, again, other = (STREAMS[name](seed) for seed in (3, 3, 4))
        assert np.isfinite(first.X).all(), name
        assert len(first.y) == len(first.X) == 3000, name
        np.testing.assert_array_equal(first.X, again.X)
        np.testing.assert_array_equal(first.y, again.y)
        assert (first.X != other.X).any(), name


def test_files_of_keel_are_read_without_rows_that_have_gaps(tmp_path, monkeypatch):
    from bomkl_lab.benchmarks.unseen_streams import keel
    from bomkl_lab.experiments.datasets import MissingDataError

    with pytest.raises(MissingDataError, match="made-up-package: pip install"):
        keel("made_up_package", "few.dat")(0)
    package = tmp_path / "made_up_package"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('it must not be imported')")
    (package / "few.dat").write_text("@data\n1, red, yes, a\n2.5, blue, no, b\n<null>, blue, no, b\n3, green, yes, a\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    data = keel("made_up_package", "few.dat")(0)
    rows = sorted([*row, label] for row, label in zip(data.X.tolist(), data.y.tolist(), strict=True))
    assert rows == [[1, 0, 0, 1, 1, 0], [2.5, 1, 0, 0, 0, 1], [3, 0, 1, 0, 1, 0]]  # blue, green, red, then yes
    assert data.classes == 2


@pytest.mark.parametrize(("method", "most"), [("nearest rows", 0.3), ("the last label", 0.6)])
def test_simple_methods_learn_from_rows_before(method, most):
    from bomkl_lab.benchmarks.peers_streams import Stream
    from bomkl_lab.benchmarks.unseen_methods import METHODS

    X = np.random.default_rng(0).normal(size=(200, 2))
    y = (X[:, 0] > 0).astype(np.int64)
    said = METHODS[method](Stream(X, y, 2, False), 1)
    np.testing.assert_allclose(said.sum(axis=1), 1)
    assert (said.argmax(axis=1) != y).mean() < most
    numbers = METHODS[method](Stream(X, 1000 * X[:, 0], 0, False), 1)
    changed = METHODS[method](Stream(X, 1000 * np.append(X[:-1, 0], 9.0), 0, False), 1)
    np.testing.assert_array_equal(numbers, changed)  # no prediction knows the target of its own row


def test_a_difference_counts_only_beyond_chance():
    from bomkl_lab.benchmarks import unseen

    shape = {"seed": 0, "rows": 100, "columns": 2, "classes": 2}
    figures = [
        ("banana", "AutoMKL", 10.0, 0.4, 0, 0),
        ("banana", "VW logistic", 9.0, 0.5, 3, 2),
        ("banana", "River ARF", 30.0, 0.3, 5, 25),
        ("ring", "AutoMKL", 10.0, 0.4, 0, 0),
        ("ring", "VW logistic", 5.0, 0.5, 30, 2),
    ]
    names = ("data", "method", "error", "log_loss", "ours_worse", "ours_better")
    rows = [shape | dict(zip(names, each, strict=True)) for each in figures]
    assert unseen.stream_table(rows).splitlines()[2:] == [
        "| banana | 100 x 2, 2 | 10.00 | 9.00 VW logistic (by chance) | 0.4000 | 0.3000 River ARF |",
        "| ring | 100 x 2, 2 | 10.00 | 5.00 VW logistic (better) | 0.4000 | 0.5000 VW logistic |",
    ]
    assert unseen.against_table(rows).splitlines()[2:] == [
        "| VW logistic | 2 | 0 (0) | 2 (1) | 2 of 2 |",
        "| River ARF | 1 | 1 (1) | 0 (0) | 0 of 1 |",
    ]


@pytest.mark.slow
def test_a_version_is_the_same_as_itself_and_a_case_that_differs_is_named(monkeypatch):
    from bomkl_lab.benchmarks import same

    assert list(same.compared(Path(sys.executable), 6, 8)) == [{"case": "all", "same": 2, "different": 0}]
    lines = {"older": [{"number": 0, "about": "x", "said": "1", "state": "2", "error": None}], "newer": []}
    lines["newer"] = [lines["older"][0] | {"state": "3"}]
    monkeypatch.setattr(same, "lines", lambda python, role, *_: lines[role])
    different, all_cases = same.compared(Path(sys.executable), 0, 1)
    assert different == {"case": 0, "about": "x", "differs": "state"}
    assert all_cases == {"case": "all", "same": 0, "different": 1}


def test_long_streams_are_the_same_for_a_seed(monkeypatch, tmp_path):
    from bomkl_lab.benchmarks import long_streams
    from bomkl_lab.experiments.datasets import MissingDataError

    for name in long_streams.MADE:
        first, again, other = (long_streams.stream(name, 300, seed) for seed in (3, 3, 4))
        assert np.isfinite(first.X).all(), name
        assert len(np.unique(first.y)) == (300 if first.numbers else 2), name
        np.testing.assert_array_equal(first.y, again.y)
        assert (first.X != other.X).any(), name
    monkeypatch.setattr(long_streams, "data_folders", lambda: [tmp_path])
    with pytest.raises(MissingDataError, match=f"us-flights.npz.*{tmp_path}"):
        long_streams.stream("us-flights", 300)
    (tmp_path / "long").mkdir()
    np.savez(tmp_path / "long/us-flights.npz", hour=np.arange(9), origin=np.full(9, "JFK"), late=np.arange(9) % 2)
    flights = long_streams.stream("us-flights", 5)
    assert flights.rows(0, 2).to_dict("list") == {"hour": [0, 1], "origin": ["JFK", "JFK"]}
    np.testing.assert_array_equal(flights.y, [0, 1, 0, 1, 0])


@pytest.mark.parametrize("name", ["smooth", "waves"])
def test_long_streams_are_measured_and_drawn(name, monkeypatch, tmp_path):
    from bomkl_lab.benchmarks import long

    rows = [
        dict(zip(long.KEY, (name, 200, None, method), strict=True)) | long.measure(name, 200, None, method, 1.0)
        for method in ("AutoMKL", "AutoMKL, single rows")
    ]
    fields = ("error", "error_of_all", "cpu_seconds", "curve", *(() if name == "waves" else ("log_loss",)))
    check_fields(rows, *fields)
    assert "slowest_row_ms" in rows[1]
    assert rows[0]["curve"] == rows[1]["curve"]
    assert len(rows[0]["curve"]) == long.PARTS
    assert (
        long.tables(rows)[0].splitlines()[2]
        == f"| {name}, 200 rows | {rows[0]['error']:.2f} | {rows[1]['error']:.2f} |"
    )
    monkeypatch.setitem(long.METHODS, "slow", long.METHODS["AutoMKL, single rows"])
    assert "min" in long.measure(name, 200, None, "slow", 0.0)["not_run"]
    pytest.importorskip("matplotlib")
    long.plot(rows, tmp_path / "long.svg")
    assert (tmp_path / "long.svg").stat().st_size > 1000


def test_an_exception_is_named_and_said_to_be_chance_or_not():
    from bomkl_lab.benchmarks import defaults
    from bomkl_lab.benchmarks.peers_streams import Stream

    y = np.arange(100) % 2
    data = Stream(np.zeros((100, 3)), y, 2, True)
    right = np.where(y == 1, 2.0, -2.0)
    few, many = right.copy(), right.copy()
    few[:3] *= -1
    many[:30] *= -1
    losses = {name: (1.0, *defaults.row_losses(scores, y, 2)) for name, scores in (("few", few), ("many", many))}
    rows = [
        {"stream": "as good"}
        | defaults.compared(data, losses["few"], {"none": losses["many"], "adapt": losses["few"]}),
        {"stream": "worse"} | defaults.compared(data, losses["many"], {"none": losses["many"], "adapt": losses["few"]}),
    ]
    lines = defaults.exceptions(rows).splitlines()[2:]
    assert lines[0] == "| worse | error | 30.00 | 30.00 | 3.00 | 27 / 0 | 1.5e-08 | no |"
    assert len(lines) == 2  # and the log loss
    assert defaults.summary(rows).splitlines()[2].startswith("| streams that change | 2 | 0.316 | 3.162 |")
    numbers = Stream(np.zeros((4, 1)), np.array([0.0, 1, 2, 3]), 0, False)
    squares = defaults.row_losses(np.array([9.0, 1, 2, 5]), numbers.y, 0)[0]
    assert squares.tolist() == [0, 0, 4]
    three = defaults.row_losses(np.log([[0.5, 0.25, 0.25], [0.25, 0.25, 0.5]]), np.array([0, 1]), 3)
    assert three[0].tolist() == [False, True]
    np.testing.assert_allclose(three[1], -np.log([0.5, 0.25]))
