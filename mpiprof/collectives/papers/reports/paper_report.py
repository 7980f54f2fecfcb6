"""Makes the report of a paper: results of its runs, a section for each exhibit, and the files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import mpiprof
from mpiprof.collectives.papers.harness.figures import svg
from mpiprof.collectives.papers.harness.study import Row, make_html_table, make_page
from mpiprof.collectives.papers.reports import import_paper
from mpiprof.collectives.papers.reports.exhibits import (
    FAILS,
    HOLDS,
    IN_PART,
    NOT_REPRODUCED,
    STATES,
    ClaimVerdict,
    Content,
    Exhibit,
    Paper,
    PaperValue,
    Results,
    Statement,
    read_paper_values,
    read_statements,
)
from mpiprof.collectives.papers.reports.runs import (
    RESULTS,
    RunResult,
    load_result,
    make_key,
    obtain_result,
    result_path,
)
from mpiprof.errors import MpiprofError, UsageError
from mpiprof.interface.format_units import format_rough_time
from mpiprof.interface.output_files import write_text

CLUSTER_NOTE = "emulated cluster"  # beginning of a study's note about its place
CLAIM_COLUMNS = ("exhibit", "section", "claim", "verdict", "reason")
DOCUMENTED_COLUMNS = ("exhibit", "section", "claim", "command", "verdict", "reason")
STATEMENT_COLUMNS = ("section", "statement", "in mpiprof", "test")
VALUE_COLUMNS = ("row", "column", "value", "unit", "source", "line")
STYLE = (
    "table.claims td{text-align:left;vertical-align:top}h2{margin-top:2em}"
    "p{max-width:60em}.missing{color:#777}.method{color:#555;font-size:12px}"
    "b.yes{color:#00664c}b.part{color:#8a6100}b.no{color:#b34700}svg{max-width:100%;height:auto}"
    # For a PDF: a table wraps instead of leaving the page, and the paper's numbers are open.
    "@page{size:A4;margin:15mm}@media print{body{margin:0;font-size:11px}td,th{padding:.1em .3em;"
    "overflow-wrap:anywhere}table{font-size:8px}tr,svg{break-inside:avoid}h2,h3{break-after:avoid}"
    "details::details-content{content-visibility:visible}}"
)
MARKS = {HOLDS: "yes", IN_PART: "part", FAILS: "no"}


@dataclass(frozen=True)
class ExhibitSection:
    """One exhibit of a report; `missing` is why it is not reproduced, or ""."""

    exhibit: Exhibit
    content: Content
    verdicts: Sequence[ClaimVerdict]
    methods: Sequence[str]
    values: Sequence[PaperValue]
    missing: str

    @property
    def judged_claims(self) -> list[tuple[str, ClaimVerdict]]:
        """Return the texts of the claims with their verdicts."""
        texts = [claim.text for claim in self.exhibit.claims]
        return list(zip(texts, self.verdicts, strict=True))


@dataclass(frozen=True)
class PaperReport:
    """The report of a paper; `seconds` is the duration of its runs."""

    paper: Paper
    sections: Sequence[ExhibitSection]
    seconds: float
    quick: bool

    @property
    def counts(self) -> dict[str, int]:
        """Return the number of claims in each state."""
        states = [v.state for section in self.sections for v in section.verdicts]
        return {state: states.count(state) for state in STATES}

    @property
    def summary(self) -> str:
        """Return the counts in words."""
        several = sum(self.counts.values())
        counts = ", ".join(f"{state}: {number}" for state, number in self.counts.items() if number)
        drawn = sum(not section.missing for section in self.sections)
        return f"{drawn} of {len(self.sections)} exhibits; {several} claims ({counts})"


def compose_report(
    paper: Paper, exhibits: Sequence[Exhibit], results: Mapping[str, RunResult], quick: bool
) -> PaperReport:
    """Return the report on the results of the runs."""
    rows = {n: r.rows for n, r in results.items() if not r.failure}
    for name, result in results.items():
        rows |= {f"{name} {table}": several for table, several in result.tables.items()}
    # A study's note about an emulated cluster ends with its MPI library.
    clusters = [(n, note) for n, r in results.items() for note in r.notes[::-1]]
    places = {n: note.partition(", ")[0] for n, note in clusters if note.startswith(CLUSTER_NOTE)}
    obtained = Results(rows, read_paper_values(paper.name), places)
    sections = []
    for exhibit in exhibits:
        failures = [results[n].failure for n in exhibit.runs if n in results]
        missing = next(filter(None, failures), "")
        content = Content() if missing else exhibit.show(obtained)
        used = [n for n in exhibit.all_runs if n in results]
        methods = [_describe_run(paper, n, results[n], quick) for n in used]
        verdicts = [
            ClaimVerdict(NOT_REPRODUCED, missing) if missing else claim.check(obtained)
            for claim in exhibit.claims
        ]
        values = obtained.values.of_exhibit(exhibit.number)
        sections.append(ExhibitSection(exhibit, content, verdicts, methods, values, missing))
    seconds = sum(result.seconds for result in results.values())
    return PaperReport(paper, sections, seconds, quick)


def _describe_run(paper: Paper, name: str, result: RunResult, quick: bool) -> str:
    method = paper.runs[name].method(quick)
    if result.failure:
        return f"{name}: {method}; not obtained: {result.failure}."
    took = f"{name}: {method}; took {format_rough_time(result.seconds)}."
    return " ".join((took, *(note if note.endswith(".") else f"{note}." for note in result.notes)))


# ---- the page


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
    rows = [
        f'<tr><td><a href="#{_anchor(section)}">{escape(section.exhibit.number)}</a></td>'
        f"<td>{escape(section.exhibit.section)}</td><td>{escape(text)}</td>"
        f"<td>{_mark(verdict)}</td><td>{escape(verdict.reason)}</td></tr>"
        for section in report.sections
        for text, verdict in section.judged_claims
    ]
    head = "".join(f"<th>{name}</th>" for name in CLAIM_COLUMNS)
    return f'<table class="claims"><tr>{head}</tr>{"".join(rows)}</table>' if rows else ""


def _mark(verdict: ClaimVerdict) -> str:
    return f'<b class="{MARKS.get(verdict.state, "missing")}">{escape(verdict.state)}</b>'


def _anchor(section: ExhibitSection) -> str:
    return "".join(c if c.isalnum() else "-" for c in section.exhibit.number.lower())


def _make_section(section: ExhibitSection) -> str:
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
    for text, verdict in section.judged_claims:
        parts.append(f"<p>Claim: {escape(text)} {_mark(verdict)}: {escape(verdict.reason)}.</p>")
    if section.values:
        rows: list[Row] = [vars(value) for value in section.values]
        table_text = make_html_table(VALUE_COLUMNS, rows)
        parts.append(f"<details><summary>Numbers of the paper</summary>{table_text}</details>")
    parts += [f'<p class="method">{escape(method)}</p>' for method in section.methods]
    return "".join(parts)


# ---- Markdown


def make_claims_table(report: PaperReport, statements: Sequence[Statement] = ()) -> str:
    """Return a heading, a row for each statement, the counts of verdicts, and a row per claim."""
    lines = [f"## {report.paper.citation}", ""]
    if statements:
        text = "definitions, algorithms and formulas hold, each shown by a test:"
        rows = [(s.section, s.text, s.place, f"`{s.test}`") for s in statements]
        lines += [f"{len(statements)} {text}", "", *_make_rows(STATEMENT_COLUMNS, rows), ""]
    scope = "Quick run" if report.quick else "Full run"
    claims = []
    for section in report.sections:
        number = section.exhibit.number
        place = (number, section.exhibit.section.removeprefix("Section "))
        command = f'`bench paper {report.paper.name} --only "{number}"`'
        for text, verdict in section.judged_claims:
            claims.append((*place, text, command, verdict.state, verdict.reason))
    lines += [f"{scope}: {report.summary}.", "", *_make_rows(DOCUMENTED_COLUMNS, claims), ""]
    return "\n".join(lines)


def _make_rows(columns: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Return the lines of a table."""
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in (columns, *rows)]
    head, *lines = (f"| {' | '.join(row)} |" for row in escaped)
    return [head, "|" + "---|" * len(columns), *lines]


# ---- the command


def select_exhibits(paper: Paper, numbers: Sequence[str]) -> list[Exhibit]:
    """Return the exhibits of these numbers, in any case of letters, or all; raises UsageError."""
    exhibits = {exhibit.number.casefold(): exhibit for exhibit in paper.exhibits}
    for number in numbers:
        if number.casefold() not in exhibits:
            choices = ", ".join(exhibit.number for exhibit in paper.exhibits)
            raise UsageError(f"--only {number!r}: {paper.name} has {choices}")
    chosen = [exhibits[number] for number in dict.fromkeys(map(str.casefold, numbers))]
    return chosen or list(paper.exhibits)


def make_paper_report(name: str, folder: Path, numbers: Sequence[str], quick: bool) -> None:
    """Print the expected duration, make the report, and write it into a folder."""
    paper = import_paper(name)
    exhibits = select_exhibits(paper, numbers)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        fact = "is a file" if folder.is_file() else f"cannot be created: {error.strerror}"
        raise MpiprofError(f"-o {folder} {fact}: pass a folder for the report's files") from None
    if not os.access(folder, os.W_OK | os.X_OK):
        raise MpiprofError(f"-o {folder} is not writable: pass a folder for the report's files")
    results = obtain_results(paper, exhibits, folder, quick)
    report = compose_report(paper, exhibits, results, quick)
    files = [folder / f"{name}.{form}" for form in ("html", "md")]
    write_text(files[0], make_paper_page(report))
    write_text(files[1], make_claims_table(report, read_statements(name)))
    print(f"\n{report.summary}\nwritten: {', '.join(map(str, files))}")


def obtain_results(
    paper: Paper, exhibits: Sequence[Exhibit], folder: Path, quick: bool
) -> dict[str, RunResult]:
    """Return the results of all runs of these exhibits, from files where they exist."""
    names = list(dict.fromkeys(name for e in exhibits for name in e.all_runs))
    keys = {name: make_key(paper.runs[name], quick) for name in names}
    paths = {name: result_path(folder / RESULTS / paper.name, name, quick) for name in names}
    results = {name: load_result(paths[name], keys[name]) for name in names}
    missing = [name for name, result in results.items() if result is None]
    expected = {name: paper.runs[name].estimate_s(quick) for name in missing}
    done = f", {len(names) - len(missing)} of them done before" * (len(missing) < len(names))
    print(f"{paper.citation}: {len(exhibits)} exhibits, {len(names)} runs{done}.")
    print(f"This will take about {format_rough_time(sum(expected.values()))}.", flush=True)
    for number, name in enumerate(missing, 1):
        rough = format_rough_time(expected[name])
        print(f"[{number}/{len(missing)}] {name}: about {rough}", flush=True)
        results[name] = obtain_result(paper.runs[name], quick, paths[name], keys[name])
    return {name: result for name, result in results.items() if result is not None}
