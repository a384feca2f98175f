"""Reports of a model and of a run: one page of HTML, without a network, in plain words first."""

from bomkl.report.page import report_page, write_report
from bomkl.report.watch import RowWatch

__all__ = ["RowWatch", "report_page", "write_report"]
