"""A paper's report as PDF, drawn by matplotlib: pages of text, and a page for each figure."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

import mpiprof
from mpiprof.bench.harness.figures import FONTS, make_canvas
from mpiprof.bench.harness.study import format_cell
from mpiprof.bench.papers.exhibits import Table
from mpiprof.bench.papers.report_sections import PaperReport, Section
from mpiprof.interface.format_units import format_rough_time
from mpiprof.interface.output_files import write_atomically

PAGE_SIZE = (8.27, 11.69)  # inches, A4
LINES_PER_PAGE, WIDTH = 78, 100  # of text at 7 points


def write_pdf(report: PaperReport, path: Path) -> None:
    """Write the report."""
    import matplotlib
    from matplotlib.backends.backend_pdf import PdfPages
    from matplotlib.figure import Figure as Canvas

    def write_lines(lines: Iterable[str]) -> None:
        for page in paginate(lines):
            canvas = Canvas(figsize=PAGE_SIZE)
            canvas.text(0.07, 0.96, "\n".join(page), va="top", family="monospace", size=7)
            pages.savefig(canvas)

    with (
        write_atomically(path) as unfinished,
        matplotlib.rc_context(FONTS),
        PdfPages(unfinished) as pages,
    ):
        write_lines(_list_head(report))
        for section in report.sections:
            write_lines(_list_section(section))
            for figure in section.content.figures:
                pages.savefig(make_canvas(figure))


def paginate(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield the lines of each page; long lines are wrapped."""
    wrapped = [part for line in lines for part in textwrap.wrap(line, WIDTH) or [""]]
    for first in range(0, len(wrapped), LINES_PER_PAGE):
        yield wrapped[first : first + LINES_PER_PAGE]


def _list_head(report: PaperReport) -> Iterator[str]:
    yield f"{report.paper.citation}: reproduction"
    yield report.paper.link
    scope = "quick run" if report.quick else "full run"
    time = format_rough_time(report.seconds)
    yield f"mpiprof {mpiprof.__version__}, {scope}, runs took {time}. {report.summary}."
    for section in report.sections:
        for claim, verdict in zip(section.exhibit.claims, section.verdicts, strict=True):
            yield ""
            yield f"{section.exhibit.number} ({section.exhibit.section}): {claim.text}"
            yield f"    {verdict.state}: {verdict.reason}"


def _list_section(section: Section) -> Iterator[str]:
    yield f"{section.exhibit.number} ({section.exhibit.section})"
    yield section.exhibit.shows
    if section.missing:
        yield f"Not reproduced: {section.missing}."
    for table in section.content.tables:
        yield ""
        yield table.title
        yield from _list_table(table)
    yield from section.content.notes
    if section.values:
        yield ""
        yield "Numbers of the paper:"
    for v in section.values:
        yield f"  {v.row}, {v.column}: {format_cell(v.value)} {v.unit} ({v.source})"
    yield from section.methods


def _list_table(table: Table) -> Iterator[str]:
    cells = [list(table.columns)]
    cells += [[format_cell(row.get(column, "")) for column in table.columns] for row in table.rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for row in cells:
        padded = (text.rjust(width) for text, width in zip(row, widths, strict=True))
        yield "  ".join(padded)
