"""The report on one rank for a terminal: its longest waits, and the causes to which they lead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mpiprof.interface.format_units import UNKNOWN, format_share, format_time
from mpiprof.interface.shell_hints import format_command
from mpiprof.interface.terminal_colour import paint
from mpiprof.reports import text
from mpiprof.reports.table import Section, TableColumn, join_sections, render, wrap_paragraph
from mpiprof.reports.words import captions
from mpiprof.reports.words.message_sentences import name_waits
from mpiprof.trace import Trace
from mpiprof.trace.sites import locate_label

SHORT_ROWS = 10  # of the table, where 40 lines are shown
MIN_INSIDE_SHARE = 0.01  # of a wait, below which its cause is called outside of MPI calls
MAX_LINKS = 4  # of a chain in the table


@dataclass(frozen=True)
class WaitLink:
    """One wait of a chain, in ns: who waits for whom, since when after the begin, and where.

    tag: of the awaited message, -1 if the wait is for no message.
    """

    rank: int
    awaited: int
    begin_ns: int
    wait_ns: int
    operation: str
    site: str
    tag: int = -1

    def describe(self) -> str:
        """Return the wait as a sentence."""
        where = f"{self.operation} {locate_label(self.site)}"
        message = f" (tag {self.tag})" if self.tag >= 0 else ""
        return (
            f"Rank {self.rank} waits {format_time(self.wait_ns)} for rank {self.awaited} in "
            f"{where}{message}"
        )


@dataclass(frozen=True)
class WaitChain:
    """A wait of a rank, the waits to which it leads back, and the cause at their end.

    links: the wait itself first. inside_ns: time of the cause in MPI calls during the last link,
    mostly in `operation` at `site` ("" if it was in none).
    """

    links: tuple[WaitLink, ...]
    inside_ns: int = 0
    operation: str = ""
    site: str = ""

    @property
    def cause(self) -> int:
        """Return the rank at the end of the chain, -1 if unknown."""
        return self.links[-1].awaited

    def describe_cause(self) -> str:
        """Return where the cause was during the last wait, as a sentence."""
        span = self.links[-1].wait_ns
        if self.cause < 0:
            return "The awaited rank is unknown."
        outside = f"Rank {self.cause} waits for no other rank meanwhile"
        if self.inside_ns < MIN_INSIDE_SHARE * span:
            return f"{outside}: it is outside of MPI calls."
        share = f"{format_time(self.inside_ns)} of {format_time(span)}"
        where = f"{self.operation} {locate_label(self.site)}"
        return f"{outside}: it is inside MPI calls for {share}, mostly in {where}."


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
    """Return the waiting of a rank in collectives and for messages, as shares of the run."""
    title = paint(f"Rank {rank} of {trace.ranks}", "strong")
    rows = [row for row in text.rank_times_as_data(trace) if row["rank"] == rank]
    if not rows:
        return f"{title}: no call was recorded."
    others = name_waits(trace, rank)
    names = {"collective_wait_ns": "in collectives", "message_wait_ns": others}
    values = {where: rows[0][name] for name, where in names.items()}
    known = {where: float(ns) for where, ns in values.items() if ns is not None and ns == ns}
    if not known:
        return f"{title}: its waiting time is unknown."
    total, whole = sum(known.values()), float(trace.run_ns)
    parts = ", ".join(f"{format_time(ns)} {where}" for where, ns in known.items())
    share = format_share(total / whole) if whole > 0 else UNKNOWN
    waits = f" waits {format_time(total)} of {format_time(whole)} ({share}): {parts}."
    return wrap_paragraph(title + waits, 0)


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
