"""Pictures as SVG within the page: they take the colours of the page, light or dark, and need no script."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from bomkl._support.extras import install_hint

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_REM_OF_INCH, _LEAST_REM_OF_INCH = 6.5, 4.2  # so that letters are as large as those of the page, or a little smaller
_INK = "#12131a"  # stands for the colour of the text
_LINE = 0.2  # inches of a line


def picture(draw: Callable[[Axes], str], size: tuple[float, float], name: str) -> tuple[str, str]:
    """Draw something, and return it as SVG and what can be seen in words.

    `draw`: draws into axes, and returns these words. `size`: inches. `name`: one that no other picture of the page has.
    """
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(f"Reports need matplotlib and Jinja2. {install_hint('report')}") from error
    colours: dict[Any, Any] = dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), _INK
    )
    style: dict[Any, Any] = {
        "svg.fonttype": "none",
        "svg.hashsalt": name,
        "font.size": 10,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.facecolor": "none",
        "figure.facecolor": "none",
    }
    with matplotlib.rc_context(colours | style), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # letters stay letters in SVG, and the page has other fonts
        figure = Figure(figsize=size)
        ax = figure.subplots()
        words = draw(ax)
        _make_room(figure, ax)
        file = io.StringIO()
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    svg = file.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor")
    shape = f'style="max-width: {_REM_OF_INCH * size[0]:.1f}rem; min-width: {_LEAST_REM_OF_INCH * size[0]:.1f}rem"'
    return svg.replace("<svg ", f'<svg aria-hidden="true" focusable="false" {shape} ', 1), words


def _make_room(figure: Figure, ax: Axes) -> None:
    """Set margins by the width of names alone: a layout that measures all of it draws everything twice."""
    width, height = figure.get_size_inches()
    legend = ax.get_legend()
    lines = -(-len(legend.get_texts()) // 3) if legend is not None and legend.get_label() == "above" else 0
    top = 0.1 + _LINE * lines + 1.3 * _LINE * bool(ax.get_title(loc="left"))
    left = 0.2 + 1.2 * _LINE * bool(ax.get_ylabel()) + _longest(ax.get_yticklabels())
    names = ax.get_xticklabels()
    upright = bool(names) and names[0].get_rotation() == 90
    bottom = 0.2 + 1.2 * _LINE * bool(ax.get_xlabel()) + (_longest(names) if upright else _LINE)
    figure.subplots_adjust(left / width, bottom / height, 1 - 0.2 / width, 1 - top / height)


def _longest(labels: list[Any]) -> float:
    """Inches that the longest label takes in the font of matplotlib, which is a wide one."""
    from matplotlib.textpath import text_to_path

    measure = text_to_path.get_text_width_height_descent
    return max((measure(each.get_text(), each.get_fontproperties(), False)[0] / 72 for each in labels), default=0.0)
