"""A paper's report as PDF, made by fpdf2: claims, then each exhibit with its figures and tables."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import mpiprof
from mpiprof.bench.harness.figures import DOTS_PER_INCH, Figure, draw
from mpiprof.bench.harness.study import format_cell
from mpiprof.bench.papers.report_sections import PaperReport, Section
from mpiprof.interface.format_units import format_rough_time
from mpiprof.interface.output_files import write_atomically

if TYPE_CHECKING:
    from fpdf import FPDF

FONT = "DejaVu"
TITLE_SIZE, HEADING_SIZE, TEXT_SIZE, TABLE_SIZE = 15, 11, 8.5, 7  # points
MM_PER_INCH = 25.4
COLOURS = 64  # of a figure: a palette takes a fifth of the bytes
GAP = 1.5  # mm, between paragraphs
TEXT_WIDTH, MOST_HEIGHT = 174, 230  # mm; a heading stands above the highest figure
TABLE_CHARACTERS = 110  # that fit into a line of a table with TABLE_SIZE
PADDING = 2  # characters beside those of a cell
HEADING_HEIGHT = 25  # mm, with the first lines below it
CLAIM_COLUMNS = {"exhibit": 2, "claim": 5, "verdict": 2, "reason": 7}  # relative widths
VALUE_COLUMNS = ("row", "column", "value", "unit", "source", "line")


def write_pdf(report: PaperReport, path: Path) -> None:
    """Write the report."""
    document = _make_document()
    _add_head(document, report)
    for section in report.sections:
        _add_section(document, section)
    with write_atomically(path) as unfinished:
        document.output(str(unfinished))


def _make_document() -> FPDF:
    import matplotlib
    from fpdf import FPDF

    document = FPDF(format="A4")
    fonts = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    document.add_font(FONT, "", fonts / "DejaVuSans.ttf")
    document.add_font(FONT, "B", fonts / "DejaVuSans-Bold.ttf")
    document.set_margins(18, 15)
    document.set_auto_page_break(True, 15)
    document.add_page()
    return document


def _add_head(document: FPDF, report: PaperReport) -> None:
    document.set_font(FONT, "B", TITLE_SIZE)
    document.multi_cell(0, text=f"{report.paper.citation}: reproduction", new_x="LMARGIN")
    document.ln(GAP)
    scope = "quick run" if report.quick else "full run"
    time = format_rough_time(report.seconds)
    _add_text(document, report.paper.link)
    _add_text(document, f"mpiprof {mpiprof.__version__}, {scope}, runs took {time}.")
    _add_text(document, f"{report.summary}.")
    rows = [
        (section.exhibit.number, claim.text, verdict.state, verdict.reason)
        for section in report.sections
        for claim, verdict in zip(section.exhibit.claims, section.verdicts, strict=True)
    ]
    if rows:
        _add_table(document, list(CLAIM_COLUMNS), rows, list(CLAIM_COLUMNS.values()))


def _add_section(document: FPDF, section: Section) -> None:
    exhibit = section.exhibit
    images = [_draw_image(figure) for figure in section.content.figures]
    if document.will_page_break(HEADING_HEIGHT + sum(image.height for image in images[:1])):
        document.add_page()
    document.ln(4)
    document.set_font(FONT, "B", HEADING_SIZE)
    document.start_section(exhibit.number)
    document.multi_cell(0, text=exhibit.number, new_x="LMARGIN")
    document.ln(1)
    _add_text(document, f"{exhibit.shows} ({exhibit.section})")
    if section.missing:
        _add_text(document, f"Not reproduced: {section.missing}.")
    for image in images:
        document.image(image.file, w=image.width)
    for table in section.content.tables:
        _add_text(document, table.title)
        rows = [[format_cell(row.get(c, "")) for c in table.columns] for row in table.rows]
        _add_table(document, table.columns, rows)
    for note in section.content.notes:
        _add_text(document, note)
    for claim, verdict in zip(exhibit.claims, section.verdicts, strict=True):
        _add_text(document, f"Claim: {claim.text} {verdict.state}: {verdict.reason}.")
    if section.values:
        _add_text(document, "Numbers of the paper:")
        values = [[format_cell(getattr(v, c)) for c in VALUE_COLUMNS] for v in section.values]
        _add_table(document, VALUE_COLUMNS, values)
    for method in section.methods:
        _add_text(document, method)


@dataclass(frozen=True)
class _Image:
    """A figure as PNG, with its size in mm."""

    file: io.BytesIO
    width: float
    height: float


def _draw_image(figure: Figure) -> _Image:
    """Return a drawn figure that fits the text's width and height."""
    from PIL import Image

    drawn, reduced = io.BytesIO(), io.BytesIO()
    draw(figure, drawn, "png")
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(COLOURS).save(reduced, "png")
        least = max(image.width / TEXT_WIDTH, image.height / MOST_HEIGHT)
        dots_per_mm = max(DOTS_PER_INCH / MM_PER_INCH, least)
        return _Image(reduced, image.width / dots_per_mm, image.height / dots_per_mm)


def _add_text(document: FPDF, text: str) -> None:
    document.set_font(FONT, "", TEXT_SIZE)
    document.multi_cell(0, text=text, new_x="LMARGIN", align="L")
    document.ln(GAP)


def _add_table(
    document: FPDF,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    widths: Sequence[int] | None = None,
) -> None:
    """Add a table; without widths a column is as wide as its longest cell requires.

    A table that is wider than the page has smaller letters.
    """
    from fpdf.enums import TableBordersLayout

    rows, size = list(rows), float(TABLE_SIZE)
    if widths is None:
        cells = zip(columns, *rows, strict=True)
        widths = [PADDING + min(max(4, *map(len, column)), 40) for column in cells]
        size *= min(1.0, TABLE_CHARACTERS / sum(widths))
    document.set_font(FONT, "", size)
    document.set_line_width(0.1)
    with document.table(
        col_widths=tuple(widths),
        borders_layout=TableBordersLayout.HORIZONTAL_LINES,
        text_align="LEFT",
        line_height=document.font_size * 1.4,
    ) as table:
        for cells_of_row in (columns, *rows):
            table.row(cells_of_row)
    document.ln(GAP)
