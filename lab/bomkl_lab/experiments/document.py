"""A small document: headings, paragraphs, tables, pictures and commands, rendered as Markdown or one HTML page."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Tone = Literal["", "agrees", "differs", "muted"]


@dataclass(frozen=True)
class Value:
    """The content of one table cell."""

    text: str
    bold: bool = False
    tone: Tone = ""


@dataclass(frozen=True)
class Table:
    """A table with a header; the first column is text, the others are numbers."""

    header: tuple[str, ...]
    rows: tuple[tuple[Value, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class Heading:
    """A heading of level 1 to 3."""

    text: str
    level: int = 2


@dataclass(frozen=True)
class Paragraph:
    """Running text; `code` in backticks is set as code."""

    text: str


@dataclass(frozen=True)
class Listing:
    """Commands or other text to be set as it stands."""

    text: str


@dataclass(frozen=True)
class Items:
    """A bulleted list."""

    texts: tuple[str, ...]


@dataclass(frozen=True)
class Picture:
    """A vector picture: inlined in HTML, linked in Markdown."""

    file: str
    svg: str
    description: str


Block = Table | Heading | Paragraph | Listing | Items | Picture


def table_as_text(table: Table, emphasis: tuple[str, str] = ("*", "*")) -> str:
    """Render a table with aligned columns; `emphasis` goes around bold values.

    Examples
    --------
    >>> print(table_as_text(Table(("name", "n"), ((Value("a"), Value("1", bold=True)), (Value("bc"), Value("22"))))))
    name    n
    ----  ---
    a     *1*
    bc     22
    """
    opening, closing = emphasis
    # Escape sequences have no width: pad by what is seen, then wrap.
    seen = [[f"*{value.text}*" if value.bold and opening == "*" else value.text for value in row] for row in table.rows]
    widths = [max(len(text) for text in column) for column in zip(table.header, *seen, strict=True)]

    def line(texts: Sequence[str]) -> str:
        padded = [
            text.ljust(width) if index == 0 else text.rjust(width)
            for index, (text, width) in enumerate(zip(texts, widths, strict=True))
        ]
        return "  ".join(padded).rstrip()

    lines = [line(table.header), "  ".join("-" * width for width in widths)]
    for row, texts in zip(table.rows, seen, strict=True):
        rendered = line(texts)
        if opening != "*":
            for value in row:
                if value.bold:
                    rendered = rendered.replace(value.text, f"{opening}{value.text}{closing}", 1)
        lines.append(rendered)
    return "\n".join(filter(None, [table.caption, *lines]))


def as_markdown(blocks: Sequence[Block]) -> str:
    """Render a document as Markdown."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"{'#' * level} {text}"
        case Paragraph(text):
            return text
        case Listing(text):
            return f"```\n{text}\n```"
        case Items(texts):
            return "\n".join(f"* {text}" for text in texts)
        case Picture(file, _, description):
            return f"![{description}]({file})"
        case Table(header, rows, caption):
            rule = "|".join([":--", *["--:"] * (len(header) - 1)])
            lines = [f"| {' | '.join(header)} |", f"|{rule}|"]
            lines += [f"| {' | '.join(_markdown_value(value) for value in row)} |" for row in rows]
            return "\n".join([f"**{caption}**\n", *lines] if caption else lines)


def _markdown_value(value: Value) -> str:
    text = value.text.replace("|", "\\|").replace("*", "\\*")
    return f"**{text}**" if value.bold else text


def as_html(title: str, blocks: Sequence[Block]) -> str:
    """Render a document as one HTML page that needs no other file and no network."""
    body = "\n".join(_html(block) for block in blocks)
    return _PAGE.format(title=html.escape(title), style=_STYLE, body=body)


def _html(block: Block) -> str:
    match block:
        case Heading(text, level):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Paragraph(text):
            return f"<p>{_inline(text)}</p>"
        case Listing(text):
            return f"<pre>{html.escape(text)}</pre>"
        case Items(texts):
            return "<ul>" + "".join(f"<li>{_inline(text)}</li>" for text in texts) + "</ul>"
        case Picture(_, svg, description):
            data = base64.b64encode(svg.encode()).decode()
            alt = html.escape(description, quote=True)
            image = f'<img src="data:image/svg+xml;base64,{data}" alt="{alt}">'
            return f'<figure><div class="wide">{image}</div><figcaption>{alt}</figcaption></figure>'
        case Table(header, rows, caption):
            head = "".join(f'<th scope="col">{html.escape(text)}</th>' for text in header)
            lines = "".join(f"<tr>{''.join(_html_value(value) for value in row)}</tr>" for row in rows)
            title = f'<p class="caption">{_inline(caption)}</p>' if caption else ""
            return f'{title}<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>'


def _html_value(value: Value) -> str:
    text = html.escape(value.text)
    tone = f' class="{value.tone}"' if value.tone else ""
    return f"<td{tone}>{f'<b>{text}</b>' if value.bold else text}</td>"


def _inline(text: str) -> str:
    return re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(text))


_STYLE = """
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; }
body { max-width: 70rem; margin: 0 auto; padding: 1rem; }
h1, h2, h3 { line-height: 1.2; margin: 2rem 0 0.5rem; }
p, li { overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: 0.5rem 0 1rem; }
table { border-collapse: collapse; font-size: 0.9rem; font-variant-numeric: tabular-nums; }
.caption { font-weight: 600; margin: 1.5rem 0 0; }
th, td { padding: 0.25rem 0.6rem; border-bottom: 1px solid #ddd; text-align: right; white-space: nowrap; }
th:first-child, td:first-child { text-align: left; }
thead th { border-bottom: 2px solid #666; }
.agrees { color: #005f3c; }
.differs { color: #8f3600; font-weight: 600; }
.muted { color: #595959; }
pre, code { font: 0.9em ui-monospace, monospace; background: #f3f3f3; }
pre { padding: 0.75rem; overflow-x: auto; }
figure { margin: 1.5rem 0; }
img { width: 100%; min-width: 44rem; max-width: 60rem; height: auto; display: block; }
figcaption { color: #595959; font-size: 0.9rem; }
@media print { .wide { overflow: visible; } }
"""

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<main>
{body}
</main>
</body>
</html>
"""
