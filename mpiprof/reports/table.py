"""Layout of texts on a terminal: tables, paragraphs, and sections that fit on a screen."""

from __future__ import annotations

import math
import re
import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mpiprof.interface.ascii_fallback import replace_unwritable
from mpiprof.interface.format_units import UNKNOWN
from mpiprof.interface.terminal_colour import paint

NO_BREAK = "\xa0"
BEFORE_UNIT_PATTERN = re.compile(r"(?<=\d) (?=([nuµm]?s|[KMGT]?B|\d{3})\b|%)")
MAX_LINES = 40  # of an output, unless --all is given


@dataclass(frozen=True)
class TableColumn:
    """A heading, its cells as text, and its behaviour if the terminal is too narrow."""

    head: str
    cells: Sequence[str]
    left: bool = False
    shrink: bool = False  # whether it is cut, except for its first word, the name of a file
    # Before cutting, columns are omitted: the highest `drop` first, and the last column among
    # equals. The first column and `shrink` columns are never omitted.
    drop: int = 0
    style: str = ""  # of the cells (see interface.terminal_colour)

    @property
    def width(self) -> int:
        """Return the number of characters of the widest cell."""
        return max(len(self.head), *(len(cell) for cell in self.cells), 1)

    @property
    def min_width(self) -> int:
        """Return the minimum width of a `shrink` column, which shows its file names."""
        names = [cell.partition(" ")[0] for cell in self.cells]
        return max(len(self.head), *(len(n) - max(n.rfind("/") - 1, 0) for n in names), 1)

    def replace_unwritable(self) -> TableColumn:
        """Return the column with words in place of symbols that cannot be written."""
        cells = [replace_unwritable(cell) for cell in self.cells]
        return replace(self, head=replace_unwritable(self.head), cells=cells)


def terminal_width() -> int:
    """Return the output width: that of the terminal, between 40 and 120."""
    return min(120, max(40, shutil.get_terminal_size((120, 24)).columns))


def render(*columns: TableColumn, width: int | None = None, indent: str = "  ") -> str:
    """Return the table as lines with a heading."""
    width = terminal_width() if width is None else width
    columns_left = drop_unknown(columns)
    while (width_left := _shrunk_widths(columns_left, width - len(indent))) is None:
        # The column to leave out first: the last of those with the highest `drop`.
        droppable = [column for column in columns_left[1:] if not column.shrink]
        columns_left.remove(max(reversed(droppable), key=lambda column: column.drop))
    lines = []
    for row in range(-1, len(columns_left[0].cells)):
        cells = []
        for column in columns_left:
            cell = column.head if row < 0 else column.cells[row]
            space = column.width
            if column.shrink:
                space = min(max(width_left, column.min_width), space)
            if len(cell) > space:
                cell = _shorten(cell, space)
            padding = " " * (space - len(cell))
            painted = paint(cell, "quiet" if row < 0 else column.style)
            cells.append(painted + padding if column.left else padding + painted)
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def _shorten(cell: str, width: int) -> str:
    """Return a shortened cell: a path loses its beginning, other text its end."""
    dots = replace_unwritable("…", {"…": "~"})
    return dots + cell[1 - width :] if "/" in cell.partition(" ")[0] else cell[: width - 1] + dots


def drop_unknown(columns: Sequence[TableColumn]) -> list[TableColumn]:
    """Return the columns with at least one known value, ready to be written."""
    # Some columns are empty without a machine table, or if the trace was recorded as summary.
    remaining = [c for c in columns if not c.cells or any(cell != UNKNOWN for cell in c.cells)]
    return [column.replace_unwritable() for column in remaining]


def _shrunk_widths(columns: Sequence[TableColumn], width: int) -> int | None:
    """Return how wide each column that shrinks may be; None where a column must go first."""
    shrinking = [column for column in columns if column.shrink]
    needed = sum(column.width for column in columns if not column.shrink)
    widths = (width - needed - 2 * (len(columns) - 1)) // max(1, len(shrinking))
    enough = [max(column.min_width, min(24, column.width)) for column in shrinking]
    if widths >= max(enough, default=0) or all(column.shrink for column in columns[1:]):
        return max(widths, 1)
    return None


def render_markdown(columns: Sequence[TableColumn]) -> str:
    """Return the table as Markdown, all of its columns."""
    columns_left = [column for column in columns if any(cell != UNKNOWN for cell in column.cells)]
    rows = [[c.head for c in columns_left], [":--" if c.left else "--:" for c in columns_left]]
    rows += [list(row) for row in zip(*(c.cells for c in columns_left), strict=True)]
    return "\n".join(f"| {' | '.join(map(escape_markdown, row))} |" for row in rows)


def escape_markdown(text: str) -> str:
    """Return a text in which nothing is a mark of Markdown or HTML."""
    return re.sub(r"([\\`*<>|\[\]~]|(?<!\w)_|_(?!\w))", r"\\\1", text)


def wrap_paragraph(text: str, indent: int = 2, hanging: int | None = None) -> str:
    """Return text broken for the terminal; lines after the first are indented by `hanging`."""
    filled = textwrap.fill(
        BEFORE_UNIT_PATTERN.sub(NO_BREAK, replace_unwritable(text)),
        terminal_width(),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent if hanging is None else hanging),
        break_long_words=False,  # file names
        break_on_hyphens=False,
    )
    return filled.replace(NO_BREAK, " ")


def render_bar(share: float) -> str:
    """Return a bar of up to 20 characters for a share; empty if the share is unknown."""
    return "#" * round(20 * max(0.0, min(1.0, 0.0 if math.isnan(share) else share)))


@dataclass
class Section:
    """A title and its text; an essential section is always printed.

    make_text: computes the text, of at least min_lines lines, if the section may fit on the screen.
    """

    title: str
    text: str = ""
    essential: bool = False
    make_text: Callable[[], str] | None = None
    min_lines: int = 0

    def compute_text(self) -> None:
        """Set the text, if it is not computed yet."""
        if self.make_text is not None:
            self.text, self.make_text = self.make_text(), None

    def render(self) -> str:
        """Return title and text."""
        return f"{paint(self.title, 'strong')}\n{self.text}" if self.title else self.text

    @property
    def line_count(self) -> int:
        """Number of lines, with the empty line after them; the minimum without the text."""
        lines = self.text.count("\n") + 1 if self.make_text is None else self.min_lines
        return lines + 1 + bool(self.title)


def join_sections(sections: Sequence[Section], last: str, *, whole: bool) -> str:
    """Return the sections with text and the line `last`, and the names of those that do not fit.

    whole: print all sections, however long the output is.
    """
    sections = [section for section in sections if section.text or section.make_text]
    chosen = list(sections)
    left = MAX_LINES - (last.count("\n") + 1)
    if whole or sum(section.line_count for section in sections) <= left:
        for section in sections:
            section.compute_text()
    if not whole and sum(section.line_count for section in sections) > left:
        left -= 2  # for the names of the sections that do not fit
        left -= sum(section.line_count for section in sections if section.essential)
        chosen = []
        for section in sections:
            if not section.essential:
                if section.line_count <= left:
                    section.compute_text()
                if section.line_count > left:
                    continue
                left -= section.line_count
            chosen.append(section)
    parts = [section.render() for section in chosen]
    omitted = [section.title for section in sections if section not in chosen]
    names = [re.split("[,;]", title)[0] for title in omitted if title]
    if names:
        parts.append(wrap_paragraph(f"Not shown: {', '.join(names)}. --all shows them.", 0))
    return "\n\n".join([*parts, last])
