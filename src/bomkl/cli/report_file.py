"""Reports: a page of HTML about a run."""

from __future__ import annotations

import importlib.util
import os
from typing import TYPE_CHECKING, Any

from bomkl._support.extras import install_hint
from bomkl.cli.options import UsageError, check_output, fail, naming

if TYPE_CHECKING:
    from bomkl.report import RowWatch


def row_watch(option: str, path: str, estimator: Any, inputs: list[str]) -> RowWatch:
    """Return what watches the rows, after looking whether the report can be written."""
    check_output(option, path, inputs=inputs)
    if not hasattr(estimator, "plot_learning"):
        raise UsageError(f"A report needs --algorithm auto or auto-regression. Got {type(estimator).__name__} instead.")
    if not all(importlib.util.find_spec(name) for name in ("jinja2", "matplotlib")):
        fail(f"A report needs Jinja2 and matplotlib. {install_hint('report')}")
    from bomkl.report import RowWatch

    return RowWatch(estimator)


def save_report(path: str, watch: RowWatch, inputs: list[str]) -> None:
    """Write the page."""
    from bomkl.report import write_report

    names = ", ".join(os.path.basename(name) if "://" not in name else name for name in inputs[:3])
    title = names + (f" and {len(inputs) - 3} more" if len(inputs) > 3 else "")
    with naming(path):
        write_report(path, watch.estimator, watch, title="Report of " + title)
