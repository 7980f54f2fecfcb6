"""A text table that fits a terminal: columns as wide as needed, one that may shrink."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from mpiprof.units import UNKNOWN

NO_BREAK = "\xa0"
BEFORE_UNIT = re.compile(r"(?<=\d) (?=([nµm]?s|[KMGT]?B|%)\b|%)")


@dataclass(frozen=True)
class Column:
    """A heading, its cells as text, and how it behaves where space is short.

    `shrink` columns are cut at their front; of the others the one with the highest `drop` above 0
    is left out first.
    """

    head: str
    cells: Sequence[str]
    left: bool = False
    shrink: bool = False
    drop: int = 0

    @property
    def width(self) -> int:
        """Characters that the widest cell needs."""
        return max(len(self.head), *(len(cell) for cell in self.cells), 1)


def terminal_width() -> int:
    """Return the width to write for: that of the terminal, between 80 and 120."""
    return min(120, max(80, shutil.get_terminal_size((120, 24)).columns))


def render(columns: Sequence[Column], width: int | None = None, *, indent: str = "  ") -> str:
    """Return the table as lines with a heading."""
    width = terminal_width() if width is None else width
    # Nothing is known in it: of a trace without a machine table, or one recorded as summary.
    kept = [c for c in columns if not c.cells or any(cell != UNKNOWN for cell in c.cells)]
    room = 0
    while True:
        needed = sum(column.width for column in kept if not column.shrink)
        gaps = 2 * (len(kept) - 1) + len(indent)
        shrinking = [column for column in kept if column.shrink]
        room = (width - needed - gaps) // max(1, len(shrinking))
        droppable = [column for column in kept if column.drop]
        if not droppable or (not shrinking and width >= needed + gaps):
            break
        if room >= min(24, max((column.width for column in shrinking), default=0)):
            break
        kept.remove(max(droppable, key=lambda column: column.drop))
    room = max(room, 16)
    lines = []
    for row in range(-1, len(kept[0].cells)):
        cells = []
        for column in kept:
            cell = column.head if row < 0 else column.cells[row]
            space = min(room, column.width) if column.shrink else column.width
            if len(cell) > space:
                cell = "…" + cell[1 - space :]
            cells.append(cell.ljust(space) if column.left else cell.rjust(space))
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def paragraph(text: str, indent: int = 2, hanging: int | None = None) -> str:
    """Return text broken for the terminal; lines after the first are indented by `hanging`."""
    filled = textwrap.fill(
        BEFORE_UNIT.sub(NO_BREAK, text),
        terminal_width(),
        initial_indent=" " * indent,
        subsequent_indent=" " * (indent if hanging is None else hanging),
    )
    return filled.replace(NO_BREAK, " ")


def bar(share: float, width: int = 20) -> str:
    """Return a bar for a share between 0 and 1."""
    return "#" * round(width * max(0.0, min(1.0, share)))
