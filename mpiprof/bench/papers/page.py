"""A paper's report as one self-contained HTML page."""

from __future__ import annotations

from html import escape

import mpiprof
from mpiprof.bench.harness.figures import svg
from mpiprof.bench.harness.study import Row, make_html_table, make_page
from mpiprof.bench.papers.exhibits import FAILS, HOLDS, IN_PART, Claim, Verdict
from mpiprof.bench.papers.report_sections import PaperReport, Section
from mpiprof.interface.format_units import format_rough_time

CLAIM_COLUMNS = ("exhibit", "section", "claim", "verdict", "reason")
VALUE_COLUMNS = ("row", "column", "value", "unit", "source", "line")
STYLE = (
    "table.claims td{text-align:left;vertical-align:top}h2{margin-top:2em}"
    "p{max-width:60em}.missing{color:#777}.method{color:#555;font-size:12px}"
    "b.yes{color:#00664c}b.part{color:#8a6100}b.no{color:#b34700}svg{max-width:100%;height:auto}"
)
MARKS = {HOLDS: "yes", IN_PART: "part", FAILS: "no"}


def make_paper_page(report: PaperReport) -> str:
    """Return the page."""
    paper = report.paper
    scope = "quick run" if report.quick else "full run"
    body = [
        f'<p>{escape(paper.citation)}, <a href="{paper.link}">{paper.link}</a>.</p>',
        f"<p>mpiprof {mpiprof.__version__}, {scope}, runs took "
        f"{format_rough_time(report.seconds)}. {escape(report.summary)}.</p>",
        _make_claims(report),
        *map(_make_section, report.sections),
    ]
    return make_page(f"{paper.citation}: reproduction", "".join(body), STYLE)


def _make_claims(report: PaperReport) -> str:
    rows = []
    for section in report.sections:
        for claim, verdict in zip(section.exhibit.claims, section.verdicts, strict=True):
            cells = (
                f'<a href="#{_anchor(section)}">{escape(section.exhibit.number)}</a>',
                escape(section.exhibit.section),
                escape(claim.text),
                _mark(verdict),
                escape(verdict.reason),
            )
            rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    head = "".join(f"<th>{name}</th>" for name in CLAIM_COLUMNS)
    return f'<table class="claims"><tr>{head}</tr>{"".join(rows)}</table>' if rows else ""


def _mark(verdict: Verdict) -> str:
    return f'<b class="{MARKS.get(verdict.state, "missing")}">{escape(verdict.state)}</b>'


def _anchor(section: Section) -> str:
    return "".join(c if c.isalnum() else "-" for c in section.exhibit.number.lower())


def _make_section(section: Section) -> str:
    exhibit = section.exhibit
    parts = [
        f'<h2 id="{_anchor(section)}">{escape(exhibit.number)}</h2>',
        f"<p>{escape(exhibit.shows)} ({escape(exhibit.section)})</p>",
    ]
    if section.missing:
        parts.append(f'<p class="missing">Not reproduced: {escape(section.missing)}.</p>')
    parts += map(svg, section.content.figures)
    for table in section.content.tables:
        parts.append(f"<h3>{escape(table.title)}</h3>{make_html_table(table.columns, table.rows)}")
    parts += [f"<p>{escape(note)}</p>" for note in section.content.notes]
    claims = zip(exhibit.claims, section.verdicts, strict=True)
    parts += [_make_claim(claim, verdict) for claim, verdict in claims]
    if section.values:
        rows: list[Row] = [vars(value) for value in section.values]
        table_text = make_html_table(VALUE_COLUMNS, rows)
        parts.append(f"<details><summary>Numbers of the paper</summary>{table_text}</details>")
    parts += [f'<p class="method">{escape(method)}</p>' for method in section.methods]
    return "".join(parts)


def _make_claim(claim: Claim, verdict: Verdict) -> str:
    return f"<p>Claim: {escape(claim.text)} {_mark(verdict)}: {escape(verdict.reason)}.</p>"
