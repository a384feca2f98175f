"""Tables of results in pages, replaced where they are measured again."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path


def put_tables(page: Path, tables: Iterable[str]) -> list[str]:
    """Replace the tables of a page by those of the same first cell; returns the first cells of those it has."""
    text, found = page.read_text(encoding="utf-8"), []
    for table in tables:
        title = table.split("|")[1].strip()
        text, count = re.subn(
            rf"^\| {re.escape(title)} \|.*\n(?:\|.*\n)+", lambda _, table=table: table.strip() + "\n", text, flags=re.M
        )
        found += [title] * bool(count)
    page.write_text(text, encoding="utf-8")
    return found


def show_tables(options: argparse.Namespace, tables: Sequence[str]) -> None:
    """Print tables, and put them in the pages that ``--into`` names."""
    print(*tables, sep="\n\n")
    for page in options.into:
        put_tables(page, tables)
