"""Sentences on the state of a job, on its ranks that have ended, and on pending collectives."""

from __future__ import annotations

from collections.abc import Iterator

from mpiprof.hang.rank_state import Instances, Pending, Position, Positions
from mpiprof.hang.verdict import HangVerdict
from mpiprof.hang.wait_graph import started_and_outside, took_part
from mpiprof.hang.words import verdict_text
from mpiprof.interface.format_units import format_count, format_ranks, format_runs, format_time
from mpiprof.reports.site_labels import communicator_name, describe_site
from mpiprof.trace import Trace
from mpiprof.trace.pack import FILE_NAME as PACK
from mpiprof.trace.sites import locate_label


def pending_facts(trace: Trace, positions: Positions, pending: Instances) -> Iterator[str]:
    """Yield that records are lost, and that no collective is pending or that this is unknown."""
    unwritten = trace.unwritten_ranks
    lost = [p.rank for p in positions if p.state == "unknown" and p.rank in unwritten]
    if lost:
        ranks = format_ranks(lost)
        yield f"Records of {ranks} could not be written: their later calls are unknown."
    if trace.record == "summary" and not pending and not all(p.finished for p in positions):
        yield "Pending collectives are unknown, because calls are not logged."
    elif not pending and not any(p.state == "unknown" for p in positions):
        yield "No collective is pending."


def describe_snapshot(trace: Trace) -> str:
    """Return as of when the trace describes a job that is not on this machine."""
    if not any(process["pid"] for process in trace.tables.processes.values()):
        content = "it shows the ranks at the end of the archive, but not their processes"
        return f"The trace was converted from an OTF2 archive: {content}."
    if (trace.path / PACK).exists():
        return "The trace was packed: it shows the ranks at that time."
    limitation = "data of the last half minute may not be visible here yet"
    return f"The job runs on other machines: {limitation}."


def describe_state(
    trace: Trace, positions: Positions, living: dict[int, bool], verdict: HangVerdict
) -> str:
    """Return the state of a job in a few words; living: whether the process of each rank exists."""
    ended = verdict.processes.ended if verdict.processes is not None else ()
    unfinished = [p.rank for p in positions if not p.finished and p.rank not in ended]
    if not unfinished:
        return "ended"
    aborted = [r for r, end in trace.tables.ends.items() if end["reason"] == "abort"]
    if aborted:
        return f"aborted by rank {format_runs(aborted)}"
    terminated = [rank for rank in unfinished if living.get(rank) is False]
    if verdict.reason == "unwritten":
        return "no process is left"
    if terminated:
        died = _first_dead(verdict, terminated)
        how = "died" if died else "ended"
        those = died or terminated
        return f"rank{'s' * (len(those) > 1)} {format_runs(those)} {how} before MPI_Finalize"
    if living and verdict.is_bad:
        return state_word(verdict)
    if any(living.get(rank) for rank in unfinished):
        return "running"
    plural = len(unfinished) > 1
    who = f"{format_count(len(unfinished))} rank{'s' * plural} {'have' if plural else 'has'}"
    return f"{who} not reached MPI_Finalize"


def _first_dead(verdict: HangVerdict, terminated: list[int]) -> list[int]:
    """Return the ranks in `gone` that died first; the launcher terminates the other ranks."""
    return [rank for rank in terminated if verdict.kind == "dead" and rank in verdict.odd_ranks]


def describe_end(verdict: HangVerdict, position: Position) -> str:
    """Return how a rank without a process ended, and in which call."""
    if verdict.reason == "unwritten":
        return "unknown"
    how = "died" if _first_dead(verdict, [position.rank]) else "ended"
    return how if position.state == "unknown" else f"{how} {position.state}"


def format_since(trace: Trace, since: list[int | None], now: int | None) -> str:
    """Return the earliest of some times, after the start of the run or before now, or ""."""
    times_ns = [value for value in since if value is not None]
    if not times_ns:
        return ""
    if now is not None:
        return f"{format_time(now - int(trace.run_start_ns) - min(times_ns))} ago"
    return f"{format_time(min(times_ns))} after start"


def state_word(verdict: HangVerdict) -> str:
    """Return one word for the state of a job that runs with a fault."""
    return verdict_text.STATES.get(verdict.kind, "hung")


def arrived_state(verdict: HangVerdict) -> str:
    """Return the state of an instance that lacks no rank, consistent with the verdict."""
    if verdict.ended:
        return "all had arrived when the job ended"
    if verdict.is_bad:
        return "all have arrived"
    return "all ranks have arrived, and the operation is running"


def pending_sentence(
    trace: Trace, instance: Pending, positions: Positions, now: int | None, verdict: HangVerdict
) -> str:
    """Return a pending collective and the ranks that have not arrived in it, in several lines."""
    locations = ", ".join(describe_site(trace, site) for site in instance.sites) or "unknown place"
    communicator = communicator_name(trace, instance.communicator)
    entered = format_since(trace, [instance.since_ns - int(trace.run_start_ns)], now)
    head = (
        f"pending: {instance.operations[0]}, sequence {instance.sequence} on {communicator} "
        f"{locate_label(locations)}, "
        f"first entered {entered}\n  arrived: {format_runs(instance.arrived)}"
    )
    leaving = [rank for rank in instance.arrived if not took_part(positions[rank], instance)]
    if leaving and instance.operations != ["finalize"]:
        verb = "has" if len(leaving) == 1 else "have"
        return f"{head}\n  of these {format_ranks(leaving)} {verb} called MPI_Finalize instead"
    if len(instance.operations) > 1:
        head += f"\n  ranks call different operations here: {', '.join(instance.operations)}"
    alone = started_and_outside(instance, positions)
    if not instance.missing and alone:
        return f"{head}\n  of these outside MPI: {format_runs(alone)}"
    if not instance.missing:
        return f"{head}\n  {arrived_state(verdict)}"
    lines = [head, f"  NOT ARRIVED: {format_runs(instance.missing)}"]
    for rank in instance.missing[:8]:
        position = positions[rank]
        call = position.last_seen(instance.communicator)
        if call is None:
            lines.append(f"    rank {rank} has called no collective yet")
        elif position.finished:
            lines.append(f"    rank {rank} has finished")
        else:
            inside = "was in" if verdict.ended else "is in"
            doing = "last left" if call.exit_ns else inside
            if position.state == "inside" and not position.is_in_recorded_call:
                doing = f"{inside} a collective that is not logged, and was last seen leaving"
            since = (call.exit_ns or call.enter_ns) - int(trace.run_start_ns)
            when = f"{'' if call.exit_ns else 'entered '}{format_since(trace, [since], now)}"
            where = locate_label(describe_site(trace, call.site))
            lines.append(f"    rank {rank} {doing} {call.operation} {where}, {when}")
    return "\n".join(lines)
