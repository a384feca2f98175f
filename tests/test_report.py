"""Reports, and plots of a model."""

from __future__ import annotations

import warnings
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from bomkl import AutoMKLClassifier, AutoMKLRegressor, BudgetMKLClassifier
from bomkl.auto.insight import plots
from bomkl.evaluate import ProgressiveValidation
from bomkl.report import RowWatch, report_page, write_report
from bomkl.report.figures import picture
from bomkl.report.words import change_words

from .command_line import bomkl

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(700, 3))
NOISY = (X[:, 0] > 0) ^ ((X[:, 1] > 0.8) & (RANDOM.random(700) < 0.5))


class Checker(HTMLParser):
    """Every tag that is opened is closed, no script, nothing from elsewhere."""

    void = frozenset({"meta", "link", "path", "use", "image", "rect", "br", "stop"})

    def __init__(self):
        super().__init__()
        self.open, self.headings, self.text = [], 0, []

    def handle_starttag(self, tag, attrs):
        assert tag != "script"
        for name, value in attrs:
            if name in ("src", "href", "xlink:href"):
                assert value.startswith(("#", "data:")), value
        self.headings += tag == "h2"
        if tag not in self.void:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in self.void:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def checked(page):
    checker = Checker()
    checker.feed(page)
    assert checker.open == []
    assert len(page) < 3_000_000
    return checker, " ".join(" ".join(checker.text).split())


def watched(model, rows, y):
    watch = RowWatch(model)
    validation = ProgressiveValidation(model, watch=watch.note)
    for begin in range(0, len(y), 250):
        some = rows.iloc[begin : begin + 250] if hasattr(rows, "iloc") else rows[begin : begin + 250]
        validation.learn(some, y[begin : begin + 250])
    return watch


def test_a_report_of_a_table_says_what_is_wrong_where():
    table = pd.DataFrame(X, columns=["size", "<b>&$x$", "noise"]).assign(
        shop=np.where(X[:, 1] > 0.8, "late", "early"), gap=np.where(RANDOM.random(700) < 0.4, None, "here")
    )
    model = AutoMKLClassifier(budget=40, random_state=0)
    watch = watched(model, table, np.where(NOISY, "yes", "no"))
    checker, text = checked(report_page(model, watch, "Report of <i>"))
    assert checker.headings >= 8
    for words in ("Wrong on ", "Guessing the commonest class", "a linear model on", "What to do next", "Report of <i>"):
        assert words in text
    assert "<b>&$x$" in text
    assert "shop" in {group.column for group in watch.groups()}
    assert "Columns that may be left out" in text
    assert "missing in gap" in text


def test_a_report_of_numbers(tmp_path):
    y = 3 * X[:, 0] + RANDOM.normal(size=700)
    model = AutoMKLRegressor(budget=40, random_state=0)
    watch = watched(model, X, y)
    write_report(tmp_path / "page.html", model, watch)
    text = checked((tmp_path / "page.html").read_text(encoding="utf-8"))[1]
    assert "root mean square" in text
    assert "intervals" in text
    assert "column 0" in {str(name) for name in watch.columns}


def test_new_values_are_counted_once_however_many_there_are_and_dates_are_none():
    names = [f"name {at}" for at in range(600)] + [f"name {at // 2}" for at in range(1150, 1250)]
    days = pd.date_range("2020-01-01", periods=700).strftime("%Y-%m-%d")
    model = AutoMKLClassifier(budget=20, random_state=0)
    watch = watched(model, pd.DataFrame({"name": names, "day": days}), np.arange(700) % 2)
    assert watch.columns["name"].new == 100 + 25  # of rows 500 to 600, and one of two after them
    _, text = checked(report_page(model, watch))
    assert "column missing, of 100 new, of 100 name 0 18 Changes" in text


def test_names_of_wide_letters_have_room():
    def draw(ax):
        ax.barh(range(2), [1, 2])
        ax.set_yticks(range(2), ["WN", "MMMMMMMM"])
        return "bars"

    ax = drawn(draw, (4.2, 2.0))
    assert min(label.get_window_extent().x0 for label in ax.get_yticklabels()) >= 0


def test_classes_stand_in_their_order():
    y = np.arange(700) % 12
    model = AutoMKLClassifier(budget=20, random_state=0).partial_fit(X, y)
    ax = Figure().subplots()
    plots.draw_confusion(model, ax)
    assert [label.get_text() for label in ax.get_yticklabels()] == [str(at) for at in range(12)]


def test_a_linear_model_that_sees_no_words_is_no_baseline():
    words = [f"{'late again today' if late else 'early as ever'} {row}" for row, late in enumerate(X[:, 0] > 0)]
    model = AutoMKLClassifier(budget=20, random_state=0).partial_fit(pd.DataFrame({"note": words}), X[:, 0] > 0)
    assert "a linear model on" not in checked(report_page(model))[1]


ODD = {
    "one column": (AutoMKLClassifier, X[:, :1], NOISY),
    "constant column": (AutoMKLRegressor, np.column_stack([X[:, 0], np.ones(700)]), X[:, 0]),
    "missing values": (AutoMKLRegressor, np.where(RANDOM.random((700, 3)) < 0.3, np.nan, X), X[:, 0]),
    "many columns": (AutoMKLClassifier, RANDOM.normal(size=(130, 520)), NOISY[:130]),
    "many classes": (AutoMKLClassifier, X[:260], RANDOM.integers(0, 400, 260)),
    "one target": (AutoMKLRegressor, X[:150], np.ones(150)),
    "huge targets": (AutoMKLRegressor, X[:300], 1e100 * X[:300, 0]),
    "two rows": (AutoMKLClassifier, X[:2], [0, 1]),
    "one row": (AutoMKLRegressor, X[:1], [1.0]),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_rows_have_a_report(name):
    kind, rows, y = ODD[name]
    model = kind(budget=20, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(rows, y)
        checked(report_page(model))


@pytest.mark.parametrize("kind", [AutoMKLClassifier, AutoMKLRegressor])
def test_a_report_of_sorted_rows_begins_and_ends_with_their_order(kind):
    y = np.repeat([0, 1], 700) if kind is AutoMKLClassifier else np.arange(1400.0)
    model = kind(budget=20, random_state=0)
    with pytest.warns(UserWarning, match="shuffle the rows"):
        model.partial_fit(RANDOM.normal(size=(1400, 1)), y)
    text = checked(report_page(model))[1]
    assert "1,400 rows, 1 column, " in text
    assert "The order of the rows is not random" in text.partition("Error along the stream")[0]
    assert "shuffle the rows first" in text.partition("What to do next")[2]
    shuffled = checked(report_page(kind(budget=20, random_state=0).fit(X, NOISY)))[1]
    assert "not random" not in shuffled


@pytest.mark.parametrize(
    ("settings", "shuffle", "looks"),
    [({}, False, True), ({}, True, False), ({"drift": None}, False, False), ({"update": "rounds"}, False, False)],
)
def test_only_models_that_look_for_drift_speak_of_it(settings, shuffle, looks):
    model = AutoMKLClassifier(budget=20, random_state=0, **settings).fit(X, NOISY, shuffle=shuffle)
    assert ("Changes of the stream" in checked(report_page(model))[1]) == looks


def test_plots_have_the_units_of_the_table():
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(700), "D")
    table = pd.DataFrame({"metres": 1000 + 10 * X[:, 0], "word": np.where(X[:, 1] > 0, "a", "b"), "day": days})
    model = AutoMKLRegressor(budget=40, random_state=0).fit(table, X[:, 0] + (X[:, 1] > 0))
    for figure in (model.plot_learning(), model.plot_calibration(), model.plot_drift(), model.plot_importances()):
        assert figure.axes[0].get_xlabel()
    numbers, words = model.plot_effects(["metres", "word"]).axes[:2]
    low, high = numbers.get_xlim()
    assert 950 < low < high < 1050
    assert numbers.get_xlabel() == "metres"
    assert {label.get_text() for label in words.get_yticklabels()} == {"a", "b"}
    dates = model.plot_effects("day").axes[0]
    assert 18262 - 60 < dates.get_xlim()[0] < 18262 + 60  # days from 1970 to 2020
    assert dates.lines[0].get_linestyle() == "None"
    with pytest.raises(ValueError, match="names of columns"):
        model.plot_effects(["feet"])


def drifting(**settings):
    """A model of a stream that changes in the middle."""
    model = AutoMKLClassifier(budget=30, random_state=0, **settings)
    return model.partial_fit(X, (np.arange(700) < 350) ^ (X[:, 0] > 0))


def drawn(draw, size):
    """The axes of a picture."""
    seen = []
    picture(lambda ax: seen.append(ax) or draw(ax), size, "picture")
    return seen[0]


def test_changes_are_drawn_named_and_listed_once():
    model = drifting()
    ax = drawn(lambda ax: plots.draw_drift(model, ax), (5.2, 3.0))
    assert ax.get_legend().get_window_extent().x1 <= ax.figure.bbox.width
    ax = model.plot_drift().axes[0]
    names = {True: "sudden change", False: "gradual change"}
    shown = {text.get_text() for text in ax.get_legend().get_texts()}
    assert shown & set(names.values()) == {names[event.sudden] for event in model.drift_}
    assert {event.row for event in model.drift_} <= {line.get_xdata()[0] for line in ax.lines}
    _, text = checked(report_page(model))
    assert f"noticed, the last at row {model.drift_[-1].row:,}." in text
    assert all(text.count(change_words(event)) == 1 for event in model.drift_)


def test_of_many_changes_the_last_are_listed(monkeypatch):
    monkeypatch.setattr("bomkl.report.page._MOST_EVENTS", 1)
    model = drifting()
    model.partial_fit(-X, (np.arange(700) < 350) ^ (X[:, 0] > 0))
    assert len(model.drift_) > 1
    _, text = checked(report_page(model))
    assert f"Of {len(model.drift_)} changes, the last 1 are listed." in text
    assert change_words(model.drift_[-1]) in text
    assert change_words(model.drift_[0]) not in text


def test_only_a_model_that_notes_changes_says_that_there_were_none():
    rows = RANDOM.normal(size=(200, 3))
    for drift in ("auto", None):
        model = AutoMKLClassifier(30, drift, random_state=0).partial_fit(rows, rows[:, 0] > 0)
        assert ("No change of the stream was noticed." in checked(report_page(model))[1]) == (drift == "auto")


def test_effects_are_what_the_model_predicts():
    model = AutoMKLRegressor(budget=60, random_state=0).fit(X, 2 * X[:, 0])
    (effect,) = model._effects([0])
    slope = np.polyfit(effect.values, effect.means[:, 0], 1)[0]
    assert slope == pytest.approx(2, rel=0.1)


def test_commands_write_reports(tmp_path):
    path = tmp_path / "rows.csv"
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(label=np.where(NOISY, "x", "y"))[:300].to_csv(path, index=False)
    for arguments in (["report", path, "-o"], ["eval", path, "--report"]):
        page = tmp_path / f"{arguments[0]}.html"
        done = bomkl(*arguments, page, "--budget", 30)
        assert done.exit_code == 0, done.output
        assert "Report of rows.csv" in checked(page.read_text(encoding="utf-8"))[1]
    assert bomkl("report", path, "-o", tmp_path / "no" / "page.html").exit_code != 0
    assert "auto" in bomkl("report", path, "-o", tmp_path / "p.html", "--algorithm", "SPA").output


def test_a_report_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "page.html"
    path.write_text("before")
    model = AutoMKLRegressor(budget=20, random_state=0).partial_fit(X[:50], X[:50, 0])

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("bomkl.report.page.picture", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model.report(path)
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_budget_models_have_no_report():
    assert not hasattr(BudgetMKLClassifier(), "report")


@pytest.mark.parametrize(
    ("settings", "rows", "why"),
    [
        ({"update": "rounds"}, 300, "no rows have been kept yet"),
        ({}, 95, "no rows have been kept yet"),
        ({}, 96, "these columns have one value only"),
    ],
)
def test_effects_that_cannot_be_drawn_say_why(settings, rows, why):
    model = AutoMKLClassifier(random_state=0, **settings).partial_fit(np.ones((rows, 2)), np.arange(rows) % 2)
    with pytest.raises(ValueError, match=f"There is nothing to draw: {why}"):
        model.plot_effects()
