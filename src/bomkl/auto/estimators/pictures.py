"""What estimators show: plots, and a report."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from bomkl._support.change import as_of
from bomkl.auto.features.geometry import Float
from bomkl.auto.insight import plots
from bomkl.auto.insight.columns import MeasuredColumns
from bomkl.auto.insight.effects import Effect, effect_of
from bomkl.auto.insight.words import text_columns, words_of
from bomkl.plots import new_axes, new_figure
from bomkl.report import write_report

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_CURVES = 3  # classes


class Pictures(MeasuredColumns):
    """Plots of a model."""

    classes_: Any
    _labels: Any
    _scores_of_rows: Callable[[Any], Float]

    def plot_learning(self, ax: Axes | None = None) -> Figure:
        """Draw the error along the stream, each row predicted before the model learned from it, and simple rules.

        Parameters
        ----------
        ax : matplotlib Axes or None, default=None
            Axes to draw into. None: a new figure.

        Returns
        -------
        figure : matplotlib Figure
            The figure.
        """
        return self._drawn(plots.draw_learning, ax)

    def plot_calibration(self, ax: Axes | None = None) -> Figure:
        """Draw how often predictions came true, by their probability; for numbers, how many intervals held.

        It takes and returns what `plot_learning` does.
        """
        return self._drawn(plots.draw_calibration, ax)

    def plot_drift(self, ax: Axes | None = None) -> Figure:
        """Draw the error along the stream, and where the stream has changed.

        It takes and returns what `plot_learning` does.
        """
        return self._drawn(plots.draw_drift, ax)

    def plot_importances(self, ax: Axes | None = None) -> Figure:
        """Draw how many more errors there would be if the values of a column were shuffled.

        It takes and returns what `plot_learning` does.
        """
        return self._drawn(plots.draw_importances, ax)

    def plot_effects(self, columns: str | Sequence[Any] | None = None) -> Figure:
        """Draw how the prediction changes along columns, the others being as in rows of the stream.

        Parameters
        ----------
        columns : str, sequence of columns or None, default=None
            Names of columns of a table, or numbers. None: the four that matter most.

        Returns
        -------
        figure : matplotlib Figure
            A panel for each column. Lines are means; 80 % of the rows lie in the band.
        """
        now = as_of(self, vars(self))
        check_is_fitted(now)
        effects = now._effects([columns] if isinstance(columns, str) else columns)
        if not effects:
            why = "these columns have one value only, or none that can be shown."
            if now._sample() is None:
                why = "no rows have been kept yet. That needs 96 rows and update='rows'."
            raise ValueError(f"There is nothing to draw: {why}")
        across = min(len(effects), 2)
        down = -(-len(effects) // across)
        figure = new_figure((4.2 * across, 2.8 * down))
        for ax, effect in zip(np.ravel(figure.subplots(down, across)), effects, strict=False):
            plots.draw_effect(effect, ax, now._shown_outputs())
        for ax in figure.axes[len(effects) :]:
            ax.set_visible(False)
        return figure

    def report(self, path: str | os.PathLike[str], title: str = "") -> None:
        """Write a page about the model: its error, calibration, columns and what to do next.

        ``bomkl report`` also tells where a model is wrong on the rows of a file.

        Parameters
        ----------
        path : path
            File of HTML to write.
        title : str, default=""
            Title of the page.
        """
        check_is_fitted(self)
        write_report(path, as_of(self, vars(self)), title=title)

    def _drawing(self) -> Any:
        """Return the functions that draw a model."""
        return plots

    def _drawn(self, draw: Callable[[Any, Axes], str], ax: Axes | None) -> Figure:
        now = as_of(self, vars(self))
        check_is_fitted(now)
        figure, ax = new_axes(ax)
        draw(now, ax)
        return figure

    def _effects(self, columns: Sequence[Any] | None = None, most: int = 4) -> list[Effect]:
        """Effects of columns, by default of those that matter most."""
        names = self._column_names()
        if columns is None:
            order = np.argsort(-self.feature_importances_, kind="stable")
            chosen = [int(at) for at in order[: 2 * most] if self.feature_importances_[at] > 0]
        else:
            unknown = [each for each in columns if each not in names]
            if unknown:
                raise ValueError(f"columns must be names of columns. Got {unknown[0]!r}; known are {names[:20]}.")
            chosen = [names.index(each) for each in columns]
        sample, mixer = self._sample(), self._mixer()
        if sample is None or mixer is None:
            return []
        kinds = {} if self.encoder_ is None else self.encoder_.kinds_
        found = (effect_of(self._predictions, mixer, sample, at, kinds.get(names[at])) for at in chosen)
        return list(islice((each for each in found if each is not None), most if columns is None else None))

    def _words(self, most: int = 15) -> list[tuple[str, str, float]]:
        """Words of texts that mattered most in a sample: the column and word, the class, and the mean part."""
        sample = self._sample()
        total: dict[tuple[str, str], float] = {}
        for name, place in text_columns(sample, self._hashed_names()).items():
            for word in words_of(self._centred_scores, sample, place):
                at = int(word.parts.argmax())
                key = f"{name}: {word.text}", self._outputs()[at]
                total[key] = total.get(key, 0.0) + float(word.parts[at])
        means = [(word, of, part / sample.shape[0]) for (word, of), part in total.items()]
        return sorted(means, key=lambda each: -abs(each[2]))[:most]

    def _outputs(self) -> list[str]:
        """Names of what `_centred_scores` gives: of two classes the second; none of numbers."""
        if not hasattr(self, "classes_"):
            return [""]
        return [str(label) for label in self.classes_.tolist()[-1 if len(self.classes_) <= 2 else 0 :]]

    def _centred_scores(self, rows: Any) -> Float:
        """Scores of rows as the learner takes them, (n, outputs); of several classes, less their mean."""
        scores = self._scores_of_rows(rows)
        return np.asarray(scores - scores.mean(axis=1, keepdims=True) if scores.shape[1] > 1 else scores)

    def _shown_outputs(self) -> list[str]:
        """Names of what `_predictions` gives; none of numbers."""
        if not hasattr(self, "classes_"):
            return []
        return [str(self.classes_[at]) for at in self._shown_classes()]

    def _shown_classes(self) -> list[int]:
        classes = self.classes_
        if len(classes) <= 2:
            return [len(classes) - 1]
        counts = plots.history_of(self).counts
        common = self._labels[np.argsort(-counts, kind="stable")[:_MOST_CURVES]]
        return [int(np.searchsorted(classes, label)) for label in common]

    def _predictions(self, rows: Any) -> Float:
        """Predictions of rows as the learner takes them, (n, outputs): probabilities of some classes, or numbers."""
        margins = self._scores_of_rows(rows)
        if not hasattr(self, "classes_"):
            return margins
        if margins.shape[1] == 1:
            return np.exp(-np.logaddexp(0, -margins))
        return np.asarray(
            np.exp(margins - np.logaddexp.reduce(margins, axis=1, keepdims=True))[:, self._shown_classes()]
        )
