"""Findings as text: the problem, the evidence and the advice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from mpiprof.diagnosis.delay_chain import START
from mpiprof.interface.format_units import (
    capitalise,
    format_count,
    format_ordinal,
    format_ranks,
    format_share,
    format_time,
)
from mpiprof.reports.advice import action, by_messages, elsewhere, parted
from mpiprof.reports.evidence import MOST_SPANS, of_instances, why
from mpiprof.reports.site_labels import where

if TYPE_CHECKING:
    from mpiprof.diagnosis.findings import Finding
    from mpiprof.trace import Trace


# Heading for each cause, which names the required action.
TITLES = {
    "rank": "Rebalance {who} before {where}",
    "early": "Give more work to {who} before {where}",
    "periodic": "{who} late again and again at {where}",
    "moving": "Lateness moves from rank to rank at {where}",
    "gradient": "Lateness grows along the ranks at {where}",
    "outlier": "Single instances of {where} cost most",
    "inside": "Lateness is made inside {origin}",
    "node": "Node {who} is slower than the others",
    "noise": "Arrivals scatter at {where}",
    "algorithm": "Try {who} for {where}",
    "barrier": "Remove the {where}",
    "clock": "The clocks can't tell who is late at {where}",
}


def title(trace: Trace, found: Finding) -> str:
    """Return the heading of a finding, one short line."""
    ranks, _ = parted(found)
    who = found.algorithm or found.evidence.get("host") or format_ranks(ranks) or "Ranks"
    if found.cause == "periodic":
        who = capitalise(who)
    if found.evidence.get("each"):
        who = "the ranks"
    if "let_go_early" in found.evidence:
        return f"Look at whom the others wait for before {where(trace, found.callsites[0])}"
    if by_messages(found) and found.cause != "moving":
        return f"Look at the messages before {where(trace, found.callsites[0])}"
    here = where(trace, found.callsites[0])
    origin = where(trace, found.callsites[-1])
    return TITLES[found.cause].format(who=who, where=here, origin=origin)


def finding(trace: Trace, found: Finding) -> str:
    """Return the problem, the evidence and the advice."""
    return f"{text(trace, found)} {action(trace, found)}"


def text(trace: Trace, found: Finding) -> str:
    """Return the problem with its cost, and the evidence."""
    return " ".join(part for part in (what(trace, found), why(trace, found)) if part)


def what(trace: Trace, found: Finding) -> str:
    """Return the problem and its cost in one sentence."""
    return f"{claim(trace, found)}: {cost(found)}{_once(found)}."


def _once(found: Finding) -> str:
    """Return what must be repaired before a finding's waiting vanishes, or "" if nothing."""
    once = found.evidence.get("once")
    if once is None:
        return ""
    if not once["ranks"]:
        return ", once no other finding hides it"
    s = "" if len(once["ranks"]) > 1 else "s"
    return f", once {format_ranks(once['ranks'])} come{s} with the others"


def claim(trace: Trace, found: Finding) -> str:
    """Return the problem without its cost, as a clause."""
    return _WHAT[found.cause](trace, found)


def cost(found: Finding) -> str:
    """Return the cost of a finding."""
    if found.cause in ("algorithm", "barrier"):
        return (
            f"{format_time(float(found.cost_ns))} of all ranks' time, {format_share(found.share)}"
        )
    waiting = f"{format_time(float(found.cost_ns))} of waiting"
    return (
        f"{waiting}, {format_share(found.share)} of all ranks' time" if found.share > 0 else waiting
    )


def _who(found: Finding) -> tuple[str, str]:
    """Return the ranks of a finding as a subject, and the ending of its verb."""
    return capitalise(format_ranks(found.ranks)), "" if len(found.ranks) > 1 else "s"


def when(found: Finding) -> str:
    """Return the instances that a finding covers, as the end of a clause; "" if it covers all."""
    spans = found.evidence.get("spans") or []
    if not spans:
        return ""
    begin, end = found.evidence["recorded"]  # a ring log has lost earlier instances
    if len(spans) > MOST_SPANS:
        late, taken = found.evidence["late_instances"], found.evidence["taken_instances"]
        return f" in {format_count(late)} of its {format_count(taken)} instances"
    if len(spans) == 1:
        first, final = spans[0]
        return of_instances(first, final, begin, end)
    return " in instances " + " and ".join(f"{first} to {final}" for first, final in spans)


# The problem


def _rank(trace: Trace, found: Finding) -> str:
    known, here = found.evidence, where(trace, found.callsites[0])
    who, s = _who(found)
    late = format_time(known["late_ns"])
    changing = (*known.get("grows", ()), *(by for *_, by in known.get("levels", ())))
    if (len(found.ranks) > 1 or changing) and found.cause == "rank":
        late = f"up to {format_time(max(changing, default=known['late_ns']))}"
    how, place = known.get("origin_how", "unknown"), known.get("origin_callsite", START)
    if known.get("each"):
        late = f"{format_ranks(found.ranks)} {late} after the median of the others"
        return f"Each rank comes at its own time to {here}{when(found)}, {late}"
    if how not in ("outside", "point_to_point"):
        return f"{who} come{s} {late} later than the others to {here}{when(found)}"
    workers, talkers = parted(found)
    if talkers:
        it = "they do" if len(workers) > 1 else "it does"
        its = "their" if len(talkers) > 1 else "its"
        return (
            f"{who} come{s} {late} later than the others to {here}{when(found)}, {format_ranks(workers)} "
            f"for what {it} before and {format_ranks(talkers)} for {its} messages"
        )
    verb = f"take{s} {late} longer than the others"
    if how == "point_to_point":
        verb = f"spend{s} {late} more than the others in point-to-point messages"
    verb += f" {_before(trace, place, known)}"
    if place == found.callsites[0]:
        return f"{who} {verb}{when(found)}"
    return f"{who} {verb}, and that delays {here}{when(found)}"


def _before(trace: Trace, place: int, known: Mapping[str, Any]) -> str:
    """Return where ranks become late: before a call, or gradually over many instances of it."""
    collected = known.get("collected")
    if collected is None:
        return f"before {where(trace, place)}"
    return f"over {format_count(collected['usual_instances'])} instances of {where(trace, place)}"


def _early(trace: Trace, found: Finding) -> str:
    who, _ = _who(found)
    have = "have" if len(found.ranks) > 1 else "has"
    late = format_time(found.evidence["late_ns"])
    wait = "wait" if len(found.ranks) > 1 else "waits"
    here = where(trace, found.callsites[0])
    if "let_go_early" in found.evidence:
        s = "" if len(found.ranks) > 1 else "s"
        return (
            f"{who} come{s} {late} before the others to {here}{when(found)}, and {wait}, as the "
            "call before kept the others longer"
        )
    if by_messages(found):
        s = "" if len(found.ranks) > 1 else "s"
        return (
            f"{who} come{s} {late} before the others to {here}{when(found)}, and {wait}: most of "
            "that the others spend in point-to-point messages"
        )
    return f"{who} {have} {late} less to do than the others before {here}{when(found)}, and {wait}"


def _periodic(trace: Trace, found: Finding) -> str:
    who, s = _who(found)
    late, here = format_time(found.evidence["late_ns"]), where(trace, found.callsites[0])
    if "grows" in found.evidence:
        late = f"up to {format_time(max(found.evidence['grows']))}"
    claim = f"{format_ranks(found.ranks)} come{s} {late} later than the others"
    place = elsewhere(found)
    if place is not None:
        before = f"before {where(trace, place)}, and others wait for that"
        verb = f"take{s} {late} longer than the others"
        if by_messages(found):
            verb = f"spend{s} {late} more than the others in point-to-point messages"
        claim = f"{format_ranks(found.ranks)} {verb} {before}"
    elif not who:
        claim = f"the ranks usually come {late} apart"
    elif by_messages(found):
        claim += ", most of that in point-to-point messages"
    return f"{_turn(found)} of {here}, {claim}"


def _turn(found: Finding) -> str:
    """Return which instances recur in the pattern: "In every 3rd instance (1, ...)"."""
    every, offsets = int(found.period or 1), found.evidence["offsets"]
    first = found.first_instance or 0
    if len(offsets) == 1:
        numbers = ", ".join(str(first + i * every) for i in range(3))
        return f"In every {format_ordinal(every)} instance ({numbers}, ...)"
    return f"In {len(offsets)} of every {every} instances"


def _moving(trace: Trace, found: Finding) -> str:
    late, here = format_time(found.evidence["late_ns"]), where(trace, found.callsites[0])
    which = format_ranks(found.ranks)
    if found.period and len(found.ranks) <= MOST_SPANS:
        return f"{capitalise(which)} come {late} late to {here} in turn"
    again = f", and again after {found.period} instances" if found.period else ""
    if found.evidence["step"]:
        again = f", {found.evidence['step']} further each time"
    return f"Lateness of {late} goes from rank to rank at {here} ({which}{again})"


def _gradient(trace: Trace, found: Finding) -> str:
    late, here = format_time(found.evidence["late_ns"]), where(trace, found.callsites[0])
    top = found.ranks[0]
    most = ", most of that in point-to-point messages" if by_messages(found) else ""
    return (
        f"Lateness grows along the ranks at {here}{when(found)}, up to {late} at rank {top}{most}"
    )


def _outlier(trace: Trace, found: Finding) -> str:
    known, here = found.evidence, where(trace, found.callsites[0])
    late = format_time(known["late_ns"])
    if known["late_instances"] > 1:
        late = f"up to {late}"
    who = (
        f"{format_ranks(found.ranks)} came {late} late"
        if found.ranks
        else f"ranks came {late} apart"
    )
    if known["instances"] == 1:
        return f"In {_only(trace)} of {here}, {who}"
    if known["late_instances"] == 1:
        return f"In one instance of {here}, number {found.first_instance}, {who}"
    few, all_ = format_count(known["late_instances"]), format_count(known["instances"])
    return f"In {few} of the {all_} instances of {here}, {who}"


def _only(trace: Trace) -> str:
    return "the only instance" if trace.sample == 1 else "the only recorded instance"


def _inside(trace: Trace, found: Finding) -> str:
    known, here = found.evidence, where(trace, found.callsites[0])
    late = format_time(known.get("late_ns") or known["worst_imbalance_ns"])
    source, kept = where(trace, known["origin_callsite"]), known["origin_rank"]
    then = f"rank {kept} then comes" if kept in found.ranks else "others then come"
    if known["origin_callsite"] == found.callsites[0]:
        here = "its next call"
    if "collected" in known:
        source = f"{source}, in {format_count(known['collected']['usual_instances'])} instances together,"
    kept_longer = f"{capitalise(source)} keeps rank {kept} {late} longer than the others"
    return f"{kept_longer}, and {then} late to {here}{when(found)}"


def _node(trace: Trace, found: Finding) -> str:
    known = found.evidence
    host = known.get("host")
    on = f"The ranks on {host}" if host else capitalise(format_ranks(found.ranks))
    late, here = format_time(known["late_ns"]), where(trace, found.callsites[0])
    return f"{on} come {late} later than those on other nodes to {here}{when(found)}"


def _noise(trace: Trace, found: Finding) -> str:
    known, here = found.evidence, where(trace, found.callsites[0])
    spread = known["worst_imbalance_ns"]
    if known["instances"] == 1:
        if known.get("ahead"):
            who, early = capitalise(format_ranks(known["ahead"])), format_time(spread)
            s = "" if len(known["ahead"]) > 1 else "s"
            return f"{who} come{s} up to {early} before the others to {_only(trace)} of {here}"
        return f"The ranks come {format_time(spread)} apart to {_only(trace)} of {here}"
    if known["besides"]:
        whole: Any = trace.callsites.loc[found.callsites[0], "total_wait_ns"]
        part = "Most" if found.cost_ns > whole / 2 else "Some"
        return f"{part} of the waiting at {here} has no pattern, {_no_rank(known)}"
    return f"Arrivals at {here} scatter by {format_time(spread)}, {_no_rank(known)}"


def _no_rank(known: Mapping[str, Any]) -> str:
    """Return why no rank is blamed for waiting without a pattern."""
    if known["mostly_last"] is None:
        return "with other ranks late each time" if known["besides"] else "and no rank stands out"
    rank, part = known["mostly_last"]
    link = "though" if known["besides"] else "and"
    return f"{link} rank {rank} comes last in {format_share(part)} of its instances"


def _algorithm(trace: Trace, found: Finding) -> str:
    known = found.evidence
    return (
        f"{found.algorithm} would be faster than {known['ran']} for "
        f"{where(trace, found.callsites[0])}"
    )


def _barrier(trace: Trace, found: Finding) -> str:
    here, *after = [where(trace, callsite) for callsite in found.callsites]
    return f"Ranks wait at {here} longer than {' or '.join(after)} right after it would make them"


def _clock(trace: Trace, found: Finding) -> str:
    here = where(trace, found.callsites[0])
    return f"Who is late at {here} can't be told from the clocks of the nodes"


_WHAT: dict[str, Callable[[Trace, Finding], str]] = {
    "rank": _rank,
    "early": _early,
    "periodic": _periodic,
    "moving": _moving,
    "gradient": _gradient,
    "outlier": _outlier,
    "inside": _inside,
    "node": _node,
    "noise": _noise,
    "algorithm": _algorithm,
    "barrier": _barrier,
    "clock": _clock,
}
