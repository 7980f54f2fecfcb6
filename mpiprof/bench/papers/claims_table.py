"""Statements and claims of a paper as tables in Markdown, for the documentation."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mpiprof.bench.papers.report_sections import PaperReport
from mpiprof.bench.papers.statements import Statement

CLAIM_COLUMNS = ("exhibit", "section", "claim", "command", "verdict", "reason")
STATEMENT_COLUMNS = ("section", "statement", "in mpiprof", "test")


def make_claims_table(report: PaperReport, statements: Sequence[Statement] = ()) -> str:
    """Return a heading, a row for each statement, the counts of verdicts, and a row per claim."""
    lines = [f"## {report.paper.citation}", ""]
    if statements:
        text = "definitions, algorithms and formulas hold, each shown by a test:"
        lines += [f"{len(statements)} {text}", "", *_list_statements(statements), ""]
    scope = "Quick run" if report.quick else "Full run"
    lines += [f"{scope}: {report.summary}.", "", *_list_claims(report), ""]
    return "\n".join(lines)


def _list_statements(statements: Sequence[Statement]) -> Iterator[str]:
    yield from _make_head(STATEMENT_COLUMNS)
    for one in statements:
        yield _make_row((one.section, one.text, one.place, f"`{one.test}`"))


def _list_claims(report: PaperReport) -> Iterator[str]:
    yield from _make_head(CLAIM_COLUMNS)
    for section in report.sections:
        exhibit = section.exhibit
        command = f'`bench paper {report.paper.name} --only "{exhibit.number}"`'
        for claim, verdict in zip(exhibit.claims, section.verdicts, strict=True):
            place = (exhibit.number, exhibit.section.removeprefix("Section "))
            yield _make_row((*place, claim.text, command, verdict.state, verdict.reason))


def _make_head(columns: tuple[str, ...]) -> Iterator[str]:
    yield _make_row(columns)
    yield "|" + "---|" * len(columns)


def _make_row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
