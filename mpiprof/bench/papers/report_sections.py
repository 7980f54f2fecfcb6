"""Sections of a paper's report: content, verdicts and methods of its exhibits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mpiprof.bench.papers.exhibits import (
    NOT_REPRODUCED,
    STATES,
    Content,
    Exhibit,
    Paper,
    Results,
    Verdict,
)
from mpiprof.bench.papers.paper_values import PaperValue, read_paper_values
from mpiprof.bench.papers.result_files import RunResult
from mpiprof.interface.format_units import format_rough_time

CLUSTER_NOTE = "emulated cluster"  # beginning of a study's note about its place


@dataclass(frozen=True)
class Section:
    """One exhibit of a report; `missing` is why it is not reproduced, or ""."""

    exhibit: Exhibit
    content: Content
    verdicts: Sequence[Verdict]
    methods: Sequence[str]
    values: Sequence[PaperValue]
    missing: str


@dataclass(frozen=True)
class PaperReport:
    """The report of a paper; `seconds` is the duration of its runs."""

    paper: Paper
    sections: Sequence[Section]
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
    places = {name: place for name, r in results.items() if (place := _find_cluster(r.notes))}
    known = Results(rows, read_paper_values(paper.name), places)
    sections = []
    for exhibit in exhibits:
        failures = [results[n].failure for n in exhibit.runs if n in results]
        missing = exhibit.missing or next(filter(None, failures), "")
        content = Content() if missing else exhibit.show(known)
        used = [n for n in exhibit.all_runs if n in results]
        methods = [_describe_run(paper, n, results[n], quick) for n in used]
        verdicts = [
            Verdict(NOT_REPRODUCED, missing) if missing else claim.check(known)
            for claim in exhibit.claims
        ]
        values = known.values.of_exhibit(exhibit.number)
        sections.append(Section(exhibit, content, verdicts, methods, values, missing))
    seconds = sum(result.seconds for result in results.values())
    return PaperReport(paper, sections, seconds, quick)


def _find_cluster(notes: Sequence[str]) -> str:
    """Return the emulated cluster on which a study ran, without its MPI library; "" if none."""
    named = (note.partition(", ")[0] for note in notes if note.startswith(CLUSTER_NOTE))
    return next(named, "")


def _describe_run(paper: Paper, name: str, result: RunResult, quick: bool) -> str:
    method = paper.runs[name].method(quick)
    if result.failure:
        return f"{name}: {method}; not obtained: {result.failure}."
    took = f"{name}: {method}; took {format_rough_time(result.seconds)}."
    return " ".join((took, *(note if note.endswith(".") else f"{note}." for note in result.notes)))
