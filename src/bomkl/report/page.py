"""The page: what is found is put into sections, and a template makes HTML of them."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from bomkl._support.extras import install_hint
from bomkl._support.files import replacing
from bomkl._version import __version__
from bomkl.report.figures import picture
from bomkl.report.watch import NEW_AFTER, RowWatch
from bomkl.report.words import change_words, first_words, next_steps

_MOST_EVENTS = 10
_MOST_GAPS = 15


@dataclass
class Section:
    title: str
    lines: list[str] = field(default_factory=list)
    figures: list[tuple[str, str]] = field(default_factory=list)
    head: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)
    bullets: list[str] = field(default_factory=list)
    small: bool = False  # whether pictures stand side by side


def report_page(model: Any, watch: RowWatch | None = None, title: str = "") -> str:
    """Make the page of a fitted Auto model, as HTML.

    `watch`: what watched the rows that it learned from. None: the page tells what the model remembers.
    """
    try:
        from jinja2 import Environment
    except ImportError as error:
        raise ImportError(f"Reports need Jinja2 and matplotlib. {install_hint('report')}") from error
    drawing = model._drawing()
    history = drawing.history_of(model)
    events = model.drift_
    groups = [] if watch is None else watch.groups()
    sections = _Sections(model, drawing, history)
    found = [
        sections.error(),
        sections.mistakes(),
        sections.calibration(),
        sections.importances(),
        sections.effects(),
        sections.words(),
        _groups(watch, groups, history),
        _gaps(watch, model),
        sections.drift(events),
        sections.odd(watch),
        Section("What to do next", bullets=next_steps(model, history, watch, groups, events)),
    ]
    kind = "regression" if history.regression else _counted(len(model.classes_), "class", "classes")
    template = Environment(autoescape=True).from_string(
        Path(__file__).with_name("template.html").read_text(encoding="utf-8")
    )
    return template.render(
        title=title or "Report",
        about=f"{_counted(history.rows, 'row')}, {_counted(model.n_features_in_, 'column')}, {kind}.",
        first=first_words(model, history, drawing.linear_error(model)),
        sections=[each for each in found if each is not None],
        footer=f"Made by bomkl {__version__}. Every row was predicted before the model learned from it.",
    )


def _counted(n: int, one: str, more: str | None = None) -> str:
    return f"{n:,} {one if n == 1 else more or one + 's'}"


def write_report(path: str | os.PathLike[str], model: Any, watch: RowWatch | None = None, title: str = "") -> None:
    """Write the page of a model to a file, which takes its place when all of it is written."""
    page = report_page(model, watch, title)
    with replacing(os.fspath(path)) as file:
        file.write(page.encode("utf-8", errors="xmlcharrefreplace"))


class _Sections:
    """Sections that a model fills by itself."""

    def __init__(self, model: Any, drawing: Any, history: Any) -> None:
        self.model, self.drawing, self.history = model, drawing, history

    def _figure(self, draw: Callable[[Any, Any], str], size: tuple[float, float] = (5.2, 3.0)) -> tuple[str, str]:
        return picture(lambda ax: draw(self.model, ax), size, draw.__name__)

    def error(self) -> Section:
        return Section("Error along the stream", figures=[self._figure(self.drawing.draw_learning)])

    def mistakes(self) -> Section:
        if self.history.regression:
            return Section("Predictions and targets", figures=[self._figure(self.drawing.draw_residuals, (5.2, 4.0))])
        labels, counts = self.model._labels.tolist(), self.history.counts
        if not len(self.history.confusion):
            order = np.argsort(-counts, kind="stable")[: self.drawing.MOST_CLASSES]
            rows = [[str(labels[at]), f"{int(counts[at]):,}"] for at in order]
            return Section(
                "Classes", [f"The {len(order)} commonest of {len(counts)} classes."], [], ["class", "rows"], rows
            )
        shown = min(len(labels), self.drawing.MOST_CLASSES)
        size = (5.2, 3.2) if shown <= 6 else (7.0, 5.8)
        section = Section("Which classes are confused", figures=[self._figure(self.drawing.draw_confusion, size)])
        confusion = self.history.confusion
        order = np.argsort(-confusion.sum(axis=1), kind="stable")[: self.drawing.MOST_CLASSES]
        section.head = ["class", "rows", "found, of 100", "right when predicted, of 100"]
        for at in order:
            total, right, said = int(confusion[at].sum()), int(confusion[at, at]), int(confusion[:, at].sum())
            if total:
                precision = f"{100 * right / said:.1f}" if said else "never predicted"
                section.rows.append([str(labels[at]), f"{total:,}", f"{100 * right / total:.1f}", precision])
        if len(labels) > shown:
            section.lines.append(f"The {shown} commonest of {len(labels)} classes.")
        return section

    def calibration(self) -> Section | None:
        try:
            figure = self._figure(self.drawing.draw_calibration, (5.2, 3.6))
        except ValueError:
            return None
        title = "Do intervals hold what they promise" if self.history.regression else "Can probabilities be trusted"
        return Section(title, figures=[figure])

    def importances(self) -> Section:
        section = Section("Columns that matter")
        try:
            n = min(int(np.isfinite(self.model._measured()[1]).sum()), 20)
            section.figures.append(self._figure(self.drawing.draw_importances, (5.2, 1.2 + 0.24 * n)))
        except (ValueError, TypeError):
            section.lines.append("No column has been measured yet.")
            return section
        section.lines.append(
            "For some rows, the values of a column were passed on among them before the model learned from them. The "
            "bars show how much the error rises by that; grey lines are two standard errors. A column whose line "
            "crosses zero may be noise, or another column tells the same."
        )
        if not self.history.regression and len(self.model.classes_) > 2 and n > 1:
            section.head = ["class", "columns that matter most for its rows, in shares of all"]
            section.rows = self._columns_by_class()
        return section

    def _columns_by_class(self) -> list[list[str]]:
        """Columns that matter beyond doubt for the rows of each class, of the commonest classes."""
        shares, deviations = self.model._measured_by_class()
        names, labels, rows = self.model._column_names(), self.model._labels, []
        order = np.argsort(-self.history.counts[: len(shares)], kind="stable")[: self.drawing.MOST_CLASSES]
        for at in order[np.argsort(labels[order], kind="stable")]:
            sure = np.where(shares[at] > 2 * deviations[at], shares[at], 0.0)
            top = [each for each in np.argsort(-sure, kind="stable")[:4] if sure[each] > 0]
            shown = ", ".join(f"{names[each]} ({sure[each]:.0%})" for each in top)
            rows.append([str(labels[at]), shown or "none for sure"])
        return rows

    def effects(self) -> Section | None:
        outputs = self.model._shown_outputs()
        figures = []
        draw = self.drawing.draw_effect
        for number, effect in enumerate(self.model._effects(most=4)):
            size = (4.2, 2.5) if effect.is_number else (4.2, 1.0 + 0.26 * len(effect.values))
            figures.append(picture(lambda ax, e=effect: draw(e, ax, outputs), size, f"effect{number}"))  # type: ignore[misc]
        if not figures:
            return None
        text = "What the model predicts along a column, the other columns being as in rows of the stream. "
        return Section("How they matter", [text + "Bands hold 80 of 100 rows."], figures, small=True)

    def words(self) -> Section | None:
        found = self.model._words()
        if len(found) < 3:
            return None
        text = "Words of strings that added most to the scores of sampled rows, on average over them."
        head = ["column and word", "speaks for" if any(of for _, of, _ in found) else "", "adds"]
        return Section("Words that matter", [text], [], head, [[word, of, f"{part:+.3g}"] for word, of, part in found])

    def drift(self, events: list[Any]) -> Section | None:
        if not self.model._follows_drift:
            return None
        if not events:
            return Section("Changes of the stream", ["No change of the stream was noticed."])
        section = Section("Changes of the stream", figures=[self._figure(self.drawing.draw_drift)])
        if len(events) > _MOST_EVENTS:
            section.lines.append(f"Of {len(events)} changes, the last {_MOST_EVENTS} are listed.")
        section.bullets = [change_words(event, _dates(self.model)) for event in events[-_MOST_EVENTS:]]
        return section

    def odd(self, watch: RowWatch | None) -> Section | None:
        if watch is not None and watch.odd:
            rows = [[f"{row + 1:,}", str(label), _cell(guess), cells] for _, row, label, guess, cells in watch.odd]
        elif watch is None and len(self.history.surprises):
            rows = []
            for _, row, label, guess in self.history.surprises[:10]:
                names = [
                    _cell(each) if self.history.regression else str(self.model._labels[int(each)])
                    for each in (label, guess)
                ]
                rows.append([f"{int(row) + 1:,}", *names, ""])
        else:
            return None
        what = "target" if self.history.regression else "label"
        text = f"Rows whose {what} contradicts the model most. Some of them may be wrong in the table."
        return Section("Rows that look odd", [text], [], ["row", what, "predicted", "first columns"], rows)


def _dates(model: Any) -> set[Any]:
    kinds = {} if model.encoder_ is None else model.encoder_.kinds_
    return {name for name, kind in kinds.items() if kind == "date"}


def _cell(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _groups(watch: RowWatch | None, groups: list[Any], history: Any) -> Section | None:
    if watch is None or not watch.columns:
        return None
    section = Section("Where it is wrong")
    if not groups:
        section.lines.append("No group of rows has more errors than chance explains.")
        return section
    mean = watch.errors / max(watch.rows, 1)
    section.lines.append(
        "Groups of rows with more errors than chance explains, even where so many groups are looked at."
    )
    unit = "off by, on average" if history.regression else "wrong of 100"
    section.head = ["column", "value", "rows", unit, "all rows"]
    scale = 1 if history.regression else 100
    section.rows = [
        [each.column, each.value, f"{each.rows:,}", f"{scale * each.error:.3g}", f"{scale * mean:.3g}"]
        for each in groups
    ]
    return section


def _gaps(watch: RowWatch | None, model: Any) -> Section | None:
    if watch is None or not watch.columns:
        return None
    section = Section("Missing and new values")
    dates, found = _dates(model), []
    for name, each in watch.columns.items():
        new = 0.0 if name in dates else each.new  # dates are new all the time
        if each.missing or new:
            found.append((each.missing / each.rows, new / each.rows, str(name)))
    if not found:
        section.lines.append("No value is missing, and no category came late.")
        return section
    section.head = ["column", "missing, of 100", "new, of 100"]
    for missing, new, name in sorted(found, key=lambda each: -each[0] - each[1])[:_MOST_GAPS]:
        section.rows.append([name, f"{100 * missing:.2g}", f"{100 * new:.2g}"])
    section.lines.append(f"New are values that no row before had; the first {NEW_AFTER} rows do not count.")
    return section
