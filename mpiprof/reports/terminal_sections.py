"""Sections of the output for a terminal: the first ones that fit on a screen, or all of them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from mpiprof.interface.terminal_colour import paint
from mpiprof.reports.table import wrap_paragraph

MAX_LINES = 40  # of an output, unless --all is given


@dataclass(frozen=True)
class Section:
    """A title and its text; an essential section is always printed."""

    title: str
    text: str
    essential: bool = False

    def render(self) -> str:
        """Return title and text."""
        return f"{paint(self.title, 'strong')}\n{self.text}" if self.title else self.text

    @property
    def line_count(self) -> int:
        """Number of lines, with the empty line after them."""
        return self.text.count("\n") + 2 + bool(self.title)


def join_sections(sections: Sequence[Section], last: str, *, whole: bool) -> str:
    """Return the sections with text and the line `last`, and the names of those that do not fit.

    whole: print all sections, however long the output is.
    """
    sections = [section for section in sections if section.text]
    chosen = list(sections)
    reserved = last.count("\n") + 1
    if not whole and sum(section.line_count for section in sections) + reserved > MAX_LINES:
        left = MAX_LINES - reserved - 2  # for the names of the sections that do not fit
        left -= sum(section.line_count for section in sections if section.essential)
        chosen = []
        for section in sections:
            if not section.essential:
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
