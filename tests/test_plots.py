"""Plots draw what the records hold, and nothing lies on top of it."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import make_moons
from typer.testing import CliRunner

from bomkl import BudgetMKLClassifier, BudgetMKLRegressor, plots
from bomkl.cli import app
from bomkl.evaluate import Progress, progressive_validation
from bomkl.kernels import Gaussian, Linear

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def moons():
    return make_moons(400, noise=0.2, random_state=0)


@pytest.fixture(scope="module")
def records(moons):
    return list(progressive_validation(BudgetMKLClassifier(random_state=0), [moons], every=100))


def lines_of(ax):
    return {line.get_label(): line.get_ydata().tolist() for line in ax.get_lines()}


def test_the_error_and_its_band(records):
    (ax,) = plots.plot_error(records).axes
    assert lines_of(ax)["so far"] == [record.error for record in records]
    assert lines_of(ax)["since the last record"] == [record.error_since_last for record in records]
    assert len(ax.collections) == 1
    (ax,) = plots.plot_error([Progress(10, 1.5, 1.5, 3)]).axes
    assert len(ax.collections) == 0


def test_kernels_beyond_six_share_a_line(records):
    for draw, name in ((plots.plot_kernel_weights, "kernel_weights"), (plots.plot_support, "kernel_support")):
        (ax,) = draw(records).axes
        lines = lines_of(ax)
        assert len(lines) == 6
        assert "11 others together" in lines
        totals = np.sum(list(lines.values()), axis=0)
        np.testing.assert_allclose(totals, [sum(getattr(record, name)) for record in records])


def test_a_kernel_has_one_colour_in_all_panels_and_no_legend_covers_values(records):
    figure = plots.plot_progress(records)
    figure.canvas.draw()
    colours = {}
    for ax in figure.axes[1:]:
        for line in ax.get_lines():
            colours.setdefault(line.get_label(), set()).add(line.get_color())
    assert all(len(used) == 1 for used in colours.values())
    assert any(label in [line.get_label() for line in figure.axes[2].get_lines()] for label in colours)
    for ax in figure.axes:
        assert not ax.get_legend().get_window_extent().overlaps(ax.get_window_extent())


def test_few_kernels_have_a_line_each(moons):
    model = BudgetMKLClassifier([Gaussian(), Linear()], random_state=0)
    (ax,) = plots.plot_support(list(progressive_validation(model, [moons]))).axes
    assert set(lines_of(ax)) == {"Gaussian(sigma=1.0)", "Linear()"}


def test_wilson_interval_against_its_defining_equation():
    for share, rows in ((0.1, 20), (0.5, 7), (0.97, 300)):
        for end in plots.wilson_interval(share, rows):
            assert abs(share - end) == pytest.approx(1.96 * np.sqrt(end * (1 - end) / rows))
    assert plots.wilson_interval(1.0, 5)[1] == 1.0


def test_decision_surfaces(moons):
    X, y = moons
    for target, model in (
        (y, BudgetMKLClassifier(random_state=0)),
        (np.array(["a", "b", "c"])[np.digitize(X[:, 0], [0, 1])], BudgetMKLClassifier(random_state=0)),
        (X[:, 0] ** 2, BudgetMKLRegressor(random_state=0)),
    ):
        figure = plots.plot_decision(model.fit(X, target), X, target, resolution=12)
        figure.canvas.draw()
        assert [figure.axes[0].get_xlabel(), figure.axes[0].get_ylabel()] == ["first column", "second column"]
    with pytest.raises(ValueError, match=r"two features\. Got an array of shape \(5, 3\)"):
        plots.plot_decision(model, np.zeros((5, 3)), np.zeros(5))


def test_kernels_of_a_model_and_given_axes(moons):
    from matplotlib.figure import Figure

    figure = Figure()
    ax = figure.subplots()
    assert plots.plot_kernels(BudgetMKLClassifier(random_state=0).fit(*moons), ax=ax) is figure
    assert len(ax.patches) == 16


def test_nothing_to_plot_and_runs_that_do_not_belong_together(records):
    with pytest.raises(ValueError, match="no records"):
        plots.plot_error([])
    with pytest.raises(ValueError, match="different kernels"):
        plots.plot_support([*records, Progress(500, 0.1, 0.1, 3, ("x",), (1.0,), (3,))])


def test_eval_draws(moons, tmp_path):
    rows = tmp_path / "rows.csv"
    rows.write_text("a,b,label\n" + "".join(f"{a},{b},{label}\n" for (a, b), label in zip(*moons, strict=True)))
    for name, magic in (("out.png", b"\x89PNG"), ("out.svg", b"<?xml")):
        done = CliRunner().invoke(app, ["eval", str(rows), "--plot", str(tmp_path / name)])
        assert done.exit_code == 0
        assert (tmp_path / name).read_bytes().startswith(magic)
