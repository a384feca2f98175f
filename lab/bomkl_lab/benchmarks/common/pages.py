"""Tables of results in pages, replaced where they are measured again."""

from __future__ import annotations

import re
from collections.abc import Iterable
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
