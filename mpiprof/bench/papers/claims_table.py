"""Claims of a paper's report as a table in Markdown, for the documentation."""

from __future__ import annotations

from collections.abc import Iterator

from mpiprof.bench.papers.report_sections import PaperReport

COLUMNS = ("exhibit", "section", "claim", "command", "verdict", "reason")


def make_claims_table(report: PaperReport) -> str:
    """Return a heading, the counts of verdicts, and a row for each claim."""
    scope = "Quick run" if report.quick else "Full run"
    head = [f"## {report.paper.citation}", "", f"{scope}: {report.summary}.", ""]
    return "\n".join([*head, *_list_rows(report), ""])


def _list_rows(report: PaperReport) -> Iterator[str]:
    yield _make_row(COLUMNS)
    yield "|" + "---|" * len(COLUMNS)
    for section in report.sections:
        exhibit = section.exhibit
        command = f'`bench paper {report.paper.name} --only "{exhibit.number}"`'
        for claim, verdict in zip(exhibit.claims, section.verdicts, strict=True):
            place = (exhibit.number, exhibit.section.removeprefix("Section "))
            yield _make_row((*place, claim.text, command, verdict.state, verdict.reason))


def _make_row(cells: tuple[str, ...]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
