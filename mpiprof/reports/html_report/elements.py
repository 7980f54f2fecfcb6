"""Elements of the page as HTML text; every text from a trace is escaped and has a limit."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from mpiprof.reports.table import Column
from mpiprof.reports.tokens import name_operation_colour

MAX_TEXT, MAX_LONG_TEXT = 300, 2000  # characters of a name and of a paragraph


def format_text(content: object, limit: int = MAX_TEXT) -> str:
    """Return a text, escaped, and cut to a limit."""
    text = str(content)
    return escape(text if len(text) <= limit else f"{text[: limit - 1]}…")


def format_sentence(content: str) -> str:
    """Return a sentence, escaped, in which text between backticks is code."""
    parts = format_text(content, MAX_LONG_TEXT).split("`")
    if len(parts) % 2 == 0:  # an unpaired backtick belongs to the text
        return "`".join(parts)
    return "".join(f"<code>{part}</code>" if i % 2 else part for i, part in enumerate(parts))


def make_paragraph(content: str, name: str = "") -> str:
    """Return a paragraph of a class, or nothing without text."""
    style = f' class="{name}"' if name else ""
    return f"<p{style}>{format_sentence(content)}</p>" if content else ""


def make_section(title: str, note: str, *parts: str, name: str = "") -> str:
    """Return a section with a heading and a note beside it."""
    style = f' class="{name}"' if name else ""
    beside = f"<span>{format_text(note)}</span>" if note else ""
    heading = f'<div class="heading"><h2>{format_text(title)}</h2>{beside}</div>'
    return f"<section{style}>{heading}{''.join(parts)}</section>"


def make_figure(pictures: Sequence[tuple[str, str]], how_to_read: str, caption: str = "") -> str:
    """Return pictures of one content with their explanation.

    pictures: class and SVG of each; "wide" or "narrow" shows a picture on pages of that width only.
    """
    drawn = "".join(
        f'<div class="picture {name}"{" tabindex=0" if name == "scrolls" else ""}>{svg}</div>'
        for name, svg in pictures
    )
    head = f'<p class="caption">{format_text(caption)}</p>' if caption else ""
    note = f"<b>How to read this:</b> {format_text(how_to_read, MAX_LONG_TEXT)}"
    return f"<figure>{head}{drawn}<figcaption>{note}</figcaption></figure>"


def make_rows(heads: Sequence[str], rows: Sequence[str], name: str) -> str:
    """Return a table of rows; a heading may be empty."""
    head = "".join(
        f'<th scope="col">{format_text(text)}</th>' if text else "<td></td>" for text in heads
    )
    body = "".join(rows)
    return f'<table class="rows {name}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'


def make_cell(content: str, name: str = "") -> str:
    """Return a cell of HTML content."""
    return f'<td class="{name}">{content}</td>' if name else f"<td>{content}</td>"


def make_table(columns: Sequence[Column]) -> str:
    """Return a table of a report's columns."""
    sides = [' class="left"' * column.left for column in columns]
    heads = "".join(
        f'<th scope="col"{side}>{format_text(column.head)}</th>'
        for side, column in zip(sides, columns, strict=True)
    )
    body = ""
    for row in zip(*(column.cells for column in columns), strict=True):
        cells = zip(sides, row, strict=True)
        body += f"<tr>{''.join(f'<td{side}>{format_text(text)}</td>' for side, text in cells)}</tr>"
    table = f"<thead><tr>{heads}</tr></thead><tbody>{body}</tbody>"
    return f'<div class="scrolls" tabindex=0><table class="table">{table}</table></div>'


def name_operation(operation: str) -> str:
    """Return an operation with its colour."""
    colour = f"var(--{name_operation_colour(operation)})"
    mark = f'<i style="background:{colour}"></i>'
    return f'<span class="operation">{mark}{format_text(operation)}</span>'
