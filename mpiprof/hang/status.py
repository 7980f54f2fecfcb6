"""State of every rank, and the ranks that have not arrived, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from mpiprof.account.summary_tables import sum_by_callsite
from mpiprof.hang.processes import find_alive, trace_now_ns
from mpiprof.hang.rank_state import Instances, Position, Positions
from mpiprof.hang.verdict import HangVerdict
from mpiprof.hang.words import job_state, verdict_text
from mpiprof.interface.format_units import format_count, format_runs
from mpiprof.interface.terminal_colour import paint
from mpiprof.reports.callsite_table import metric_columns
from mpiprof.reports.json import locations_of, plain_number
from mpiprof.reports.site_labels import communicator_name, describe_site, site_as_data
from mpiprof.reports.table import Section, TableColumn, join_sections, render, wrap_paragraph
from mpiprof.trace import Trace

MAX_SITES = 8
MAX_GROUPS = 10  # rows of the table of ranks, unless all are requested
MAX_PENDING, SHORT_PENDING = 20, 3


def as_json(
    trace: Trace, positions: Positions, pending: Instances, verdict: HangVerdict
) -> dict[str, Any]:
    """Return verdict, positions and pending instances in the schema of the JSON output."""
    now = trace_now_ns(trace) if is_running(trace, positions, verdict) else None
    waiting = verdict_text.format_verdict(trace, positions, verdict, now)
    return {
        "verdict": verdict_text.as_json(trace, verdict, waiting),
        "ranks": [
            {
                "rank": position.rank,
                "state": position.state,
                "operation": position.current.operation if position.current else None,
                "site": _site_json(trace, position.current.site) if position.current else None,
                # From the start of the run: entry of the open call, else exit of the last call.
                "since_ns": _call_since(trace, position),
            }
            for position in positions
        ],
        "pending": [
            {
                "operation": instance.operations[0],
                "communicator": communicator_name(trace, instance.communicator),
                "sequence": instance.sequence,
                "arrived": instance.arrived,
                "missing": instance.missing,
                "sites": [_site_json(trace, site) for site in instance.sites],
            }
            for instance in pending
        ],
        "callsites": [_sums_so_far(trace, row) for row in _current_waits(trace)],
    }


def _current_waits(trace: Trace) -> list[dict[Any, Any]]:
    """Return the recorder's current sums, the call site with most waiting first."""
    return sum_by_callsite(trace.statistics).to_dict("records")


def _sums_so_far(trace: Trace, row: dict[Any, Any]) -> dict[str, Any]:
    names = {"operation": row["operation"], "site": _site_json(trace, row["site_id"])}
    return names | {n: plain_number(v) for n, v in row.items() if n not in ("operation", "site_id")}


def _call_since(trace: Trace, position: Position) -> int | None:
    call = position.current
    return None if call is None else (call.exit_ns or call.enter_ns) - int(trace.run_start_ns)


def _site_json(trace: Trace, site: int) -> dict[str, Any] | None:
    site_data = site_as_data(trace, site)
    return None if site_data["file"] is None else locations_of([site_data])[0]


def is_running(trace: Trace, positions: Positions, verdict: HangVerdict) -> bool:
    """Return whether a process of the job was alive on this machine at the time of the verdict."""
    living = _list_living(trace, verdict)
    return any(living.get(p.rank) for p in positions if not p.finished)


def _list_living(trace: Trace, verdict: HangVerdict) -> dict[int, bool]:
    """Return whether each rank's process existed when the verdict was derived."""
    # A job can end after its verdict. Header, table and verdict must describe one moment.
    return find_alive(trace) if verdict.processes is None else verdict.processes.alive


def status_text(
    trace: Trace,
    positions: Positions,
    pending: Instances,
    verdict: HangVerdict,
    notes: Sequence[str] = (),
    last: str = "",
    *,
    whole: bool = False,
) -> str:
    """Return the verdict, the state of the job, a table of its ranks, and the pending instances.

    notes: further paragraphs. last: the last line. whole: print everything, however long.
    """
    living = _list_living(trace, verdict)
    now = trace_now_ns(trace) if is_running(trace, positions, verdict) else None
    state = job_state.describe_state(trace, positions, living, verdict)
    lines = [paint(f"{trace.program} · {trace.ranks} ranks · {state}", "strong")]
    if verdict.is_bad:
        sentences = verdict_text.format_verdict(trace, positions, verdict, now)
        title = verdict_text.verdict_title(verdict)
        lines += ["", paint(wrap_paragraph(f"{title}: {sentences}"), "late")]
    if trace.tables.processes and not living and not all(p.finished for p in positions):
        lines.append(f"  {job_state.describe_snapshot(trace)}")
    most = MAX_PENDING if whole else SHORT_PENDING
    sections = [
        Section("", "\n".join(lines), essential=True),
        _rank_section(trace, positions, living, now, verdict, whole=whole),
    ]
    for number, instance in enumerate(pending[:most]):
        sentence = job_state.pending_sentence(trace, instance, positions, now, verdict)
        sections.append(Section("", sentence, essential=number == 0))
    if len(pending) > most:
        remedy = "--json lists them" if whole else "--all shows them"
        more = f"and {len(pending) - most} more pending operations ({remedy})"
        sections.append(Section("", more, essential=True))
    facts = [*job_state.pending_facts(trace, positions, pending)]
    facts += [wrap_paragraph(note, 0) for note in notes if note]
    sections += [Section("", fact, essential=True) for fact in facts]
    if waits := _current_waits(trace):
        title = "Waiting so far, in the instances that were observed"
        sections.append(Section(title, _wait_table(trace, waits)))
    return join_sections(sections, last, whole=whole)


def _wait_table(trace: Trace, waits: list[dict[Any, Any]]) -> str:
    rows = [{**row, "sites": [site_as_data(trace, row["site_id"])]} for row in waits[:MAX_SITES]]
    elapsed = metric_columns(rows, "mean_elapsed_ns")[0]
    return render(
        *metric_columns(rows, "operation", "sites"),
        TableColumn("observed", [format_count(row["instances"]) for row in rows]),
        replace(elapsed, drop=1),
        *metric_columns(rows, "worst_imbalance_ns", "total_wait_ns", "latest_rank"),
    )


def _rank_section(
    trace: Trace,
    positions: Positions,
    living: dict[int, bool],
    now: int | None,
    verdict: HangVerdict,
    *,
    whole: bool,
) -> Section:
    """Return the table of ranks; ranks with the same state share a row."""
    groups: dict[tuple[str, str, str], list[tuple[int, int | None]]] = {}
    for position in positions:
        call = position.current
        state = position.state
        if state != "finished" and living.get(position.rank) is False:
            state = job_state.describe_end(verdict, position)
        if position.poll is not None and state == "outside":
            state = "polling"
        doing = "" if call is None else f"{'after ' * bool(call.exit_ns)}{call.operation}"
        if position.state == "inside" and not position.is_in_recorded_call:
            doing = f"not logged, {doing}" if doing else "not logged"
        # The last call of a finished rank is MPI_Finalize.
        unseen = "no readable call" if state == "finished" else "no collective yet"
        if trace.record == "summary" or state == "unknown":
            unseen = "not logged"
        where = "" if call is None else describe_site(trace, call.site)
        members = groups.setdefault((state, doing or unseen, where), [])
        members.append((position.rank, _call_since(trace, position)))
    # Small groups differ from the others, so they come first if not all are shown.
    count = len(groups)
    if not whole and count > MAX_GROUPS:
        smallest = sorted(groups, key=lambda key: len(groups[key]))[:MAX_GROUPS]
        groups = {key: groups[key] for key in groups if key in smallest}
    states, calls, sites = zip(*groups, strict=True)
    since = [job_state.format_since(trace, [s for _, s in group], now) for group in groups.values()]
    table = render(
        TableColumn(
            "rank", [format_runs([r for r, _ in g], 4) for g in groups.values()], left=True
        ),
        TableColumn("state", states, left=True),
        TableColumn("call", calls, left=True),
        TableColumn("place", sites, left=True, shrink=True),
        TableColumn("since", since, drop=1),
    )
    if count > len(groups):
        table += f"\n  and {count - len(groups)} larger groups of ranks (--all shows them)"
    return Section("", table, essential=True)
