"""The verdict on a job that hangs, died or has a fault but continues, as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mpiprof.hang.job_verdict import observe_job
from mpiprof.hang.rank_state import Pending, Positions
from mpiprof.hang.verdict import HangVerdict
from mpiprof.hang.wait_graph import has_left, is_started_only, is_waiting_in, open_calls
from mpiprof.hang.words import end_text, wait_text
from mpiprof.hang.words.wait_text import local_call_sentences
from mpiprof.interface.format_units import capitalise, format_ranks, format_time, lower_first
from mpiprof.reports.site_labels import communicator_name, describe_site, site_as_data
from mpiprof.trace import Trace
from mpiprof.trace.sites import locate_label

MAX_FURTHER = 3
MAX_LOCATIONS = 4
# Heading of each verdict, and the state of a job that still runs with it.
TITLES = {
    "operation": "DIFFERENT OPERATIONS",
    "root": "DIFFERENT ROOTS",
    "count": "DIFFERENT SIZES",
    "type": "DIFFERENT DATATYPES",
    "reduction": "DIFFERENT REDUCTIONS",
    "calls": "DIFFERENT NUMBERS OF CALLS",
    "order": "CIRCULAR WAIT",
    "missing": "MISSING RANK",
    "dead": "DEAD RANK",
    "point_to_point": "BLOCKED IN POINT-TO-POINT",
    "blocked": "BLOCKED IN MPI",
    "stalled": "STALLED",
    "undecided": "UNDECIDED",
}
STATES = {"stalled": "stalled", "dead": "dying", "undecided": "stalled"}
INSPECTED_KINDS = ("missing", "stalled", "point_to_point", "blocked")
CALL_CLASSES = {"point_to_point": "a point-to-point call", "completion": "MPI_Wait or MPI_Test"}


def trace_verdict(trace: Trace) -> tuple[HangVerdict, str]:
    """Return the verdict on a trace's job and its text, "" without a fault."""
    verdict, positions, _ = observe_job(trace)
    return verdict, format_verdict(trace, positions, verdict) if verdict.is_bad else ""


def fault_line(trace: Trace) -> str:
    """Return the heading and text of the fault of a trace's job, or "" if there is none."""
    return describe_fault(trace, *observe_job(trace)[:2])


def describe_fault(trace: Trace, verdict: HangVerdict, positions: Positions) -> str:
    """Return the heading and text of a verdict, or "" without a fault."""
    if not verdict.is_bad:
        return ""
    return f"{verdict_title(verdict)}: {format_verdict(trace, positions, verdict)}"


def verdict_title(verdict: HangVerdict) -> str:
    """Return the heading of a verdict; a job may have ended without a rank known to have died."""
    return "JOB ENDED" if verdict.kind == "dead" and not verdict.odd_ranks else TITLES[verdict.kind]


def as_json(trace: Trace, verdict: HangVerdict, text: str) -> dict[str, Any]:
    """Return the verdict in the schema of `status --json`."""
    from mpiprof.reports.json import locations_of  # slow, and the agent does not need it

    sites = [site_as_data(trace, site) for site in verdict.sites]
    return {
        "class": verdict.kind,
        "odd_ranks": list(verdict.odd_ranks),
        "sites": locations_of([site for site in sites if site["file"]]),
        "text": text,
        "also": [{"class": o.kind, "odd_ranks": list(o.odd_ranks)} for o in verdict.further],
    }


def format_verdict(
    trace: Trace, positions: Positions, verdict: HangVerdict, now: int | None = None
) -> str:
    """Return the fault, its location and the advice in a few sentences."""
    if not verdict.is_bad:
        return "Nothing is wrong that can be told."
    raised = end_text.raised_sentences(trace, positions, verdict.processes)
    sentences = f"{raised} {_fault_sentences(trace, positions, verdict, now)}".lstrip()
    if verdict.all_finished:
        return f"{sentences} The job went on to its end all the same: check its results."
    further_text = "".join(
        f" Besides, {lower_first(_fault_sentences(trace, positions, further, now))}"
        f"{_advice_sentence(trace, further)}"
        for further in verdict.further[:MAX_FURTHER]
    )
    omitted = len(verdict.further) - MAX_FURTHER
    if omitted > 0:
        further_text += f" And {omitted} more operations lack other ranks."
    if verdict.ended:
        doubt = end_text.doubt_sentence(trace, positions, verdict)
        return f"{sentences}{further_text}{doubt} No process of the job is left."
    return f"{sentences}{_advice_sentence(trace, verdict)}{further_text}"


def _fault_sentences(
    trace: Trace, positions: Positions, verdict: HangVerdict, now: int | None
) -> str:
    if verdict.disagreement is not None:
        return wait_text.disagreement_sentences(trace, verdict.disagreement)
    if verdict.divergence is not None:
        return wait_text.divergence_sentences(trace, verdict.divergence)
    if verdict.kind == "dead":
        return _dead_sentences(trace, positions, verdict, now)
    if verdict.cycle:
        return wait_text.circle_sentences(trace, verdict.cycle, verdict.ended)
    if verdict.chain:
        return _chain_sentences(trace, positions, verdict, now)
    if verdict.kind == "point_to_point" and verdict.pending is None:
        last = _last_seen(trace, positions, verdict.odd_ranks)
        advice = f"Compare who sends with who receives{last}."
        return f"{_stuck_clause(verdict)}: a message is missing. {advice}"
    if verdict.kind == "blocked":
        waits = _waiting_sentence(trace, positions, verdict, now) if verdict.pending else ""
        outside = wait_text.list_outside(positions, verdict.odd_ranks)
        last = _last_seen(trace, positions, outside)
        return f"{waits} {local_call_sentences(trace, positions, verdict, now, last)}".lstrip()
    if verdict.reason == "unwritten":
        lost = format_ranks(sorted(trace.unwritten_ranks))
        why = f"records of {lost} could not be written, as on a full disk"
        return f"It is not known how the job ended: {why}, and so perhaps their ends."
    if verdict.pending is None:
        return "Nothing that is known tells what is wrong."
    waits, missing = _waiting_sentence(trace, positions, verdict, now), verdict.pending.missing
    absent = f"{_ranks_have(verdict, missing)} not arrived"
    if verdict.reason == "unlogged":
        return (
            f"{waits} {absent}. Those that are waited for {'were' if verdict.ended else 'are'} in "
            "collectives that are not in the log (--sample, or MPI_Pcontrol), and may wait there "
            "for others: nothing tells for whom. Record all calls to see it."
        )
    last = _last_seen(trace, positions, missing, verdict.pending) or " before any collective"
    if verdict.may_still_arrive:
        return f"{waits} {absent}, last seen{last}. {_open_cycle_sentences(verdict)}"
    if verdict.kind == "undecided" and verdict.ended:
        died = f"{'they' if len(missing) > 1 else 'it'} died, or all were ended"
        return f"{waits} {absent}, last seen{last}: nothing tells whether {died}."
    if verdict.kind == "undecided":
        equal = "nothing that is known of their arguments differs"
        advice = "Compare counts, datatypes and reduction by hand."
        return f"{waits[:-1]}, all its ranks have arrived, and {equal}. {advice}"
    if verdict.reason == "finished":
        finished = [r for r in (*missing, *verdict.pending.arrived) if has_left(positions[r])]
        who, plural = _name_ranks(finished), len(finished) > 1
        never = wait_text.finalized_sentence(who, "come", plural, verdict.ended)
        why = "A collective is missing there, or is one too many here."
        also = _other_waits(trace, verdict, now, _waiting_ranks(positions, verdict.pending))
        return (
            f"{waits} {never} {why}{also}{end_text.exception_sentence(trace, positions, finished)}"
        )
    return f"{waits} {_missing_sentences(trace, positions, verdict, now)}"


def _chain_sentences(
    trace: Trace, positions: Positions, verdict: HangVerdict, now: int | None
) -> str:
    """Return sentences on a rank that waits for a message, and the ranks it finally waits for."""
    waits = wait_text.chain_sentence(trace, verdict.chain, now, verdict.ended)
    if verdict.reason != "finished":
        return f"{waits} {_missing_sentences(trace, positions, verdict, now)}"
    who, plural = _name_ranks(verdict.odd_ranks), len(verdict.odd_ranks) > 1
    never = wait_text.never_sentences(verdict.chain, who, plural, verdict.ended)
    also = _other_waits(trace, verdict, now, [link.rank for link in verdict.chain])
    return (
        f"{waits} {never}{also}{end_text.exception_sentence(trace, positions, verdict.odd_ranks)}"
    )


def _other_waits(trace: Trace, verdict: HangVerdict, now: int | None, named: Sequence[int]) -> str:
    """Return a sentence on the waiting ranks that are not named yet, "" if there are none."""
    others = [link for link in verdict.waits if link.rank not in named]
    return f" {wait_text.waiting_sentence(trace, others, now, verdict.ended)}" if others else ""


def _name_ranks(chosen: Sequence[int]) -> str:
    return capitalise(format_ranks(chosen))


def _last_seen(
    trace: Trace, positions: Positions, chosen: Sequence[int], lacks: Pending | None = None
) -> str:
    """Return where ranks were last seen (" after barrier at app.py:3 main"), or "" if never."""
    # If locations differ, each location has its ranks in brackets. If a rank has several threads,
    # the thread that called on the communicator of `lacks` counts.
    ranks_by_location: dict[str, list[int]] = {}
    for rank in chosen:
        on = lacks.communicator if lacks is not None and rank in lacks.missing else None
        call = None if positions[rank].state == "unknown" else positions[rank].last_seen(on)
        at = ""
        if call is not None:
            how = "after" if call.exit_ns else "in"
            at = f"{how} {call.operation} {locate_label(describe_site(trace, call.site))}"
        ranks_by_location.setdefault(at, []).append(rank)
    if len(ranks_by_location) < 2:
        return "".join(f" {at}" for at in ranks_by_location if at)
    locations = ranks_by_location.items()
    texts = [f"{at or 'before any collective'} ({format_ranks(who)})" for at, who in locations]
    more = len(texts) - MAX_LOCATIONS
    return f" {', '.join(texts[:MAX_LOCATIONS])}{f' and at {more} more places' if more > 0 else ''}"


def _ranks_have(verdict: HangVerdict, ranks: Sequence[int]) -> str:
    """Return ranks as a subject with the verb: "Rank 3 has", "Ranks 3, 5 have"."""
    return f"{_name_ranks(ranks)} {'had' if verdict.ended else 'have' if len(ranks) > 1 else 'has'}"


def _open_cycle_sentences(verdict: HangVerdict) -> str:
    """Return sentences about a wait cycle and the ranks with a thread that may still arrive."""
    plural = len(verdict.may_still_arrive) > 1
    have, be = ("had", "was") if verdict.ended else ("have" if plural else "has", "is")
    still = " None of these threads computes." if verdict.reason == "resting" else ""
    blame = ("which of them" if plural else "whether it") + (" kept" if verdict.ended else " keeps")
    look = "" if verdict.ended else ": look at all threads there"
    return (
        f"All that are waited for wait{'ed' * verdict.ended} in a collective themselves, but "
        f"{format_ranks(verdict.may_still_arrive)} {have} another thread, which {be} in none."
        f"{still} Nothing tells {blame} the others{look}."
    )


def _missing_sentences(
    trace: Trace, positions: Positions, verdict: HangVerdict, now: int | None
) -> str:
    """Return sentences about the ranks that have not arrived and their current activity."""
    plural = len(verdict.odd_ranks) > 1
    pronoun, s = ("they", "") if plural else ("it", "s")
    have = _ranks_have(verdict, verdict.odd_ranks)
    who = f"{have} not {wait_text.missing_deed(verdict.chain)}"
    last = _last_seen(trace, positions, verdict.odd_ranks, verdict.pending)
    if verdict.kind == "point_to_point":
        wait = "waited" if verdict.ended else f"wait{s}"
        in_call = all(positions[rank].waits for rank in verdict.odd_ranks)
        call = last.removeprefix(" in ") if in_call else f"{CALL_CLASSES[verdict.reason]}{last}"
        return f"{who}, but {wait} in {call}. Look for the message that {pronoun} {wait} for."
    be, they = "are" if plural else "is", pronoun.capitalize()
    if verdict.reason == "files":
        last_calls = [positions[rank].current for rank in verdict.odd_ranks]
        ends = [call.exit_ns or call.enter_ns for call in last_calls if call is not None]
        lasting = f" for {format_time(float(now - max(ends)))}" if now and ends else ""
        have_been = "have been" if plural else "has been"
        return f"{who}: {pronoun} {have_been} reading or writing files{lasting}{last}."
    if verdict.kind == "stalled":
        compute = f"{pronoun} compute{s}{last}, and use{s} {'a' if plural else 'its'} processor"
        return f"{who}: {compute}. {they} {be} slow, or in a loop without end."
    sentence = f"{who}, last seen{last or ' before any collective'}."
    if verdict.pending is not None and not verdict.pending.missing:
        out = ("were" if plural else "was") if verdict.ended else be
        progress = f"MPI may go on with it only while {pronoun} call{s} MPI"
        sentence = f"{have} started it, too, and {out} outside MPI, last seen{last}: {progress}."
    if verdict.reason == "still":
        return f"{sentence} {they} use{s} no processor: {pronoun} sleep{s}, or wait{s} outside MPI."
    if verdict.reason == "stopped":
        stopped = f"{they} {be} stopped, by a debugger or a signal"
        return f"{sentence} {stopped}: `kill -CONT` lets a process go on."
    return sentence


def _stuck_clause(verdict: HangVerdict) -> str:
    """Return a clause saying that ranks wait for messages; no other ranks are left."""
    plural, call = len(verdict.odd_ranks) > 1, CALL_CLASSES[verdict.reason]
    waits = "waited" if verdict.ended else "wait" if plural else "waits"
    moves = "none of them moves" if plural else "does not move"
    end = "" if verdict.ended else f", and {moves}"
    return f"{_name_ranks(verdict.odd_ranks)}{' all' * plural} {waits} in {call}{end}"


def _advice_sentence(trace: Trace, verdict: HangVerdict) -> str:
    """Return a sentence on where to look at a missing rank, or "" if no rank is named."""
    ranks = verdict.may_still_arrive or verdict.odd_ranks
    process = trace.tables.processes.get(ranks[0]) if ranks else None
    inspected = verdict.kind in INSPECTED_KINDS and verdict.reason != "finished"
    useful = not verdict.ended and (inspected or verdict.may_still_arrive)
    if not useful or process is None or not process["pid"]:
        return ""
    pid, host = process["pid"], process["host"]
    stack = f"the stack of rank {ranks[0]}" if len(ranks) > 1 else "its stack"
    return f" See {stack}: process {pid} on {host} (`gdb -p {pid}`, `py-spy dump -p {pid}`)."


def _waiting_ranks(positions: Positions, instance: Pending) -> list[int]:
    """Return the ranks that wait in an instance, or that have arrived in it if none waits."""
    waiting = [rank for rank in instance.arrived if is_waiting_in(positions[rank], instance)]
    calling = [rank for rank in waiting if open_calls(positions[rank], instance)]
    return calling or waiting or instance.arrived


def _waiting_sentence(
    trace: Trace, positions: Positions, verdict: HangVerdict, now: int | None
) -> str:
    """Return a sentence on which ranks wait in which call and where."""
    instance = verdict.pending
    assert instance is not None
    inside = _waiting_ranks(positions, instance)
    calls = open_calls(positions[inside[0]], instance) if inside else []
    operation = calls[0].operation if calls else instance.operations[0]
    site = calls[0].site if calls else next(iter(instance.sites), -1)
    plural, on = len(inside) > 1, communicator_name(trace, instance.communicator)
    where = locate_label(describe_site(trace, site))
    wait = "waited" if verdict.ended else "wait" if plural else "waits"
    is_any_waiting = any(is_waiting_in(positions[rank], instance) for rank in inside)
    if is_any_waiting and is_started_only(instance, positions):  # the start is unknown
        wait = f"{wait} in {CALL_CLASSES['completion']} for {operation}"
        return f"{_name_ranks(inside)} {wait} {where} on {on}."
    if now is not None and not verdict.ended:
        lasting = format_time(float(now - instance.since_ns))
        wait = f"{'have' if plural else 'has'} waited for {lasting}"
    return f"{_name_ranks(inside)} {wait} in {operation} {where} on {on}."


def _dead_sentences(
    trace: Trace, positions: Positions, verdict: HangVerdict, now: int | None
) -> str:
    if not verdict.odd_ranks:
        waits, lacking = "", verdict.pending
        if lacking is not None and lacking.missing:
            last = _last_seen(trace, positions, lacking.missing, lacking)
            waits = _waiting_sentence(trace, positions, verdict, now)
            have = _ranks_have(verdict, lacking.missing)
            waits += f" {have} not arrived, last seen{last or ' before any collective'}."
        return end_text.ended_sentences(trace, verdict, waits)
    who = _name_ranks(verdict.odd_ranks)
    last = _last_seen(trace, positions, verdict.odd_ranks, verdict.pending)
    if verdict.reason == "abort":
        sentences = f"{who} called MPI_Abort{last}."
        sentences += end_text.exception_sentence(trace, positions, verdict.odd_ranks)
    else:
        signal = f" of {verdict.reason}" if verdict.reason else ""
        sentences = f"{who} died{signal} before MPI_Finalize{last}."
        if verdict.ended and not verdict.reason:
            sentences += end_text.leaving_sentence(trace, verdict.odd_ranks, "")
        if not verdict.reason:
            sentences += end_text.exception_sentence(trace, positions, verdict.odd_ranks)
    if verdict.waits:
        return f"{sentences} {wait_text.waiting_sentence(trace, verdict.waits, now, verdict.ended)}"
    if verdict.pending is None:
        return sentences
    return f"{sentences} {_waiting_sentence(trace, positions, verdict, now)}"
