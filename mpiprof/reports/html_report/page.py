"""The page: the answer with its picture, then time, findings, arrivals, call sites and messages.

The page has a bounded size for any trace: pictures have a limited number of rows and columns, and
only the costliest call sites are listed. All text from a trace is escaped.
"""

from __future__ import annotations

from pathlib import Path

from mpiprof import __version__
from mpiprof.causes.findings import make_verdict
from mpiprof.interface import tokens
from mpiprof.interface.svg import DataPicture
from mpiprof.reports import overview
from mpiprof.reports.html_report import sections
from mpiprof.reports.html_report.sections import format_text, make_paragraph
from mpiprof.reports.overview.answer import make_answer
from mpiprof.reports.overview.proof import find_proof
from mpiprof.reports.pictures.icons import draw_brand
from mpiprof.reports.words import trace_sentences
from mpiprof.trace import Trace


def make_page(
    trace: Trace, fault: str = "", drawn: DataPicture | None = None, predicted: str = ""
) -> str:
    """Return the page.

    fault: line about a job that hangs or has died, "" for any other job. drawn: picture of the
    fault. predicted: text about predicted run times.
    """
    findings = trace.findings()
    verdict = make_verdict(trace, findings)
    proof = None
    if trace.record != "summary":
        proof = find_proof(trace, verdict.worst, trace.instances)
    parts = [
        _make_head(trace),
        '<main class="overview">',
        *(
            make_paragraph(line, "warning")
            for line in (fault, trace_sentences.state_sentence(trace))
        ),
        "" if drawn is None else sections.make_fault(drawn),
        make_paragraph(predicted),
        sections.make_answer(make_answer(trace, verdict, trace.path), proof),
        sections.make_time(trace, verdict.worst),
        sections.make_findings(trace, findings),
        sections.make_pattern(trace, findings),
        sections.make_functions(trace),
        sections.make_callsites(trace, findings),
        sections.make_messages(trace, findings),
        sections.make_numbers(trace),
        sections.make_efficiencies(trace),
        sections.make_facts(trace),
        "</main>",
        f"<footer>Made by mpiprof {format_text(__version__)}.</footer>",
    ]
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{format_text(trace.program)} · mpiprof</title><style>{_read_style()}</style>"
        "</head>\n<body>" + "\n".join(filter(None, parts)) + "</body></html>\n"
    )


def _make_head(trace: Trace) -> str:
    """Return the brand and the facts of the run in one line."""
    brand = f'<span class="brand">{draw_brand()}mpiprof</span>'
    facts = "".join(
        f"<span>{format_text(fact)}</span>" for fact in trace_sentences.list_facts(trace)
    )
    program = f"<h1>{format_text(trace.program)}</h1>"
    return f'<header>{brand}<div class="run-facts">{program}{facts}</div></header>'


def _read_style() -> str:
    page = Path(__file__).with_name("style.css").read_text(encoding="utf-8")
    return tokens.make_stylesheet() + overview.read_style() + page
