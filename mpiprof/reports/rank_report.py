"""The report on one rank for a terminal: its longest waits, and the causes to which they lead."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mpiprof.interface.format_units import UNKNOWN, format_time
from mpiprof.interface.shell_hints import format_command
from mpiprof.interface.terminal_colour import paint
from mpiprof.reports import text
from mpiprof.reports.table import Section, TableColumn, join_sections, render, wrap_paragraph
from mpiprof.reports.words import captions
from mpiprof.reports.words.message_sentences import name_waits
from mpiprof.reports.words.rank_sentences import WaitChain, rank_sentence
from mpiprof.trace import Trace
from mpiprof.trace.sites import locate_label

SHORT_ROWS = 10  # of the table, where 40 lines are shown
MAX_LINKS = 4  # of a chain in the table


def report_rank(
    trace: Trace,
    rank: int,
    chains: Sequence[WaitChain],
    named: Sequence[Path],
    above: Sequence[str] = (),
    *,
    whole: bool,
) -> str:
    """Return the longest waits of a rank with their causes.

    chains: the longest wait first. named: the trace as the user named it. above: paragraphs before
    the report. whole: print all sections, however long the output is.
    """
    sections = [Section("", paragraph, essential=True) for paragraph in above]
    sections.append(Section("", _describe_rank(trace, rank), essential=True))
    if chains:
        table = f"{_make_table(chains)}\n{wrap_paragraph(captions.RANK_WAITS_LEGEND)}"
        title = f"Its longest waits, in collectives and {name_waits(trace, rank)}"
        sections.append(Section(title, table, essential=True))
        sections.append(Section("The longest wait, back to its cause", _list_links(chains[0])))
    cause = chains[0].cause if chains else -1
    last = f"next: {format_command('report', *named)}   (all ranks)"
    if cause not in (-1, rank):
        what = format_command("report", *named, "--rank", str(cause))
        last = f"next: {what}   (the rank to which the longest wait leads back)"
    return join_sections(sections, last, whole=whole)


def _describe_rank(trace: Trace, rank: int) -> str:
    rows = [row for row in text.rank_times_as_data(trace) if row["rank"] == rank]
    title = f"Rank {rank} of {trace.ranks}"
    sentence = rank_sentence(trace, rank, rows[0] if rows else None)
    return wrap_paragraph(sentence.replace(title, paint(title, "strong"), 1), 0)


def _make_table(chains: Sequence[WaitChain]) -> str:
    waits = [chain.links[0] for chain in chains]
    places = [f"{one.operation} {locate_label(one.site)}" for one in waits]
    tags = [_name(one.tag) for one in waits]
    inside = [format_time(chain.inside_ns) if chain.cause >= 0 else UNKNOWN for chain in chains]
    return render(
        TableColumn("wait", [format_time(one.wait_ns) for one in waits]),
        TableColumn("at", [format_time(one.begin_ns) for one in waits]),
        TableColumn("in", places, left=True, shrink=True),
        TableColumn("for rank", [_name(one.awaited) for one in waits]),
        *([TableColumn("tag", tags)] if any(one.tag >= 0 for one in waits) else []),
        TableColumn("back to", [_list_ranks(chain) for chain in chains], left=True),
        TableColumn("inside MPI", inside),
    )


def _name(number: int) -> str:
    return str(number) if number >= 0 else UNKNOWN


def _list_ranks(chain: WaitChain) -> str:
    """Return the ranks after the awaited one, the cause last; "itself" if the awaited one is it."""
    ranks = [link.awaited for link in chain.links]
    if chain.cause < 0:
        return UNKNOWN
    if len(ranks) == 1:
        return "itself"
    shown = [str(rank) for rank in ranks[1:]]
    if len(shown) > MAX_LINKS:
        shown = [*shown[: MAX_LINKS - 1], "…", shown[-1]]
    return " ← ".join(shown)


def _list_links(chain: WaitChain) -> str:
    lines = [f"{link.describe()}." for link in chain.links if link.awaited >= 0]
    if len(lines) > MAX_LINKS + 1:
        left = len(lines) - MAX_LINKS
        lines = [*lines[: MAX_LINKS - 1], f"{left} more waits follow.", lines[-1]]
    return "\n".join(wrap_paragraph(line) for line in [*lines, chain.describe_cause()])
