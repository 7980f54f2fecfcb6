"""Advice for a finding: where to look, what to change, which command to run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mpiprof.diagnosis.delay_chain import START
from mpiprof.diagnosis.finding import Finding
from mpiprof.interface.format_units import capitalise, format_ranks, format_share
from mpiprof.interface.shell_hints import quote_word, switch_value
from mpiprof.operations import OPERATIONS, base_operation
from mpiprof.reports.delay_sentences import delay_advice, is_delay
from mpiprof.reports.site_labels import format_callsite, site_pattern
from mpiprof.trace import Trace
from mpiprof.trace.sites import label_site

MAIN_SHARE = 0.5  # minimum share of the instances
MESSAGE_SHARE = "point_to_point"  # origin of lateness in messages
LOAD_CAUSES = ("rank", "early", "gradient", "periodic", "moving")  # no algorithm removes these
FIXED_ADVICE = {
    "moving": "Look for work that is handed from rank to rank, such as a token or output in turn.",
    "node": "Look there for a slower processor, other jobs, or a network that is shared.",
    "barrier": "Remove the barrier if nothing depends on it, such as files or one-sided access.",
    "clock": "Record longer, to MPI_Finalize, with synchronising collectives over all nodes.",
}


def advise(trace: Trace, finding: Finding) -> str:
    """Return the advice for a finding."""
    if is_delay(finding):
        return delay_advice(finding)
    return FIXED_ADVICE.get(finding.cause) or _ADVICE[finding.cause](trace, finding)


def _where_to_look(trace: Trace, evidence: Mapping[str, Any], members: Sequence[int]) -> str:
    """Return where to look for the cause of the lateness, and what was observed there."""
    looked = _calls_between(trace, evidence, members)
    doing = evidence.get("doing")
    if doing is None or evidence["origin_rank"] not in members:
        return looked
    subject = "it" if len(members) == 1 else f"rank {evidence['origin_rank']}"
    share = format_share(doing["share"])
    return f"{looked} {share} of that time {subject} is in {label_site(doing)} (sampled)."


def _calls_between(trace: Trace, evidence: Mapping[str, Any], members: Sequence[int]) -> str:
    """Return the two calls between which to look."""
    if evidence.get("origin_how", "unknown") == "unknown":
        return f"Look at what {format_ranks(members)} does before this call."
    origin, after = format_callsite(trace, evidence["origin_callsite"]), evidence["origin_after"]
    rank = members[0] if len(members) == 1 else evidence["origin_rank"]
    does, end = "does", ""
    if evidence["origin_how"] == MESSAGE_SHARE:
        does, end = "exchanges", ", and for who sends late to it"
    if after == evidence["origin_callsite"]:
        return f"Look at what rank {rank} {does} between two calls of {origin}{end}."
    if after not in trace.callsites.index and after != START:
        return f"Look at what rank {rank} {does} before {origin}{end}."
    return f"Look at what rank {rank} {does} from {format_callsite(trace, after)} to {origin}{end}."


def _do_ranks(trace: Trace, finding: Finding) -> str:
    evidence, (workers, talkers) = finding.evidence, split_ranks(finding)
    if not talkers:
        remark = ""
        if evidence.get("each"):
            remark = " All that waiting ends only where all ranks come together."
        elif "grows" in evidence and evidence["grows"][1] > evidence["grows"][0]:
            remark = " Something grows there, such as a list, a file or memory that is kept."
        return _where_to_look(trace, evidence, finding.ranks) + remark
    evidence = {**evidence, "origin_how": "outside"}
    if evidence["origin_rank"] not in workers:
        evidence |= {"origin_rank": workers[0], "doing": None}
    subject = capitalise(format_ranks(talkers))
    return f"{_where_to_look(trace, evidence, workers)} {subject} may only wait for a message."


def split_ranks(finding: Finding) -> tuple[Sequence[int], Sequence[int]]:
    """Split a finding's ranks into ranks that work longer and ranks that wait for messages.

    Sending and receiving count as waiting for messages. If all ranks do the same, the first list
    has all ranks and the second is empty.
    """
    talkers = finding.evidence.get("in_messages", [])
    workers = [rank for rank in finding.ranks if rank not in talkers]
    return (workers, talkers) if workers and talkers else (finding.ranks, [])


def is_by_messages(finding: Finding) -> bool:
    """Return whether messages make the finding's ranks late, or the other ranks early."""
    evidence = finding.evidence
    if is_delay(finding):
        return False
    if finding.cause == "early":
        return "point_to_point" in evidence
    if finding.cause not in LOAD_CAUSES or evidence.get("origin_how") != MESSAGE_SHARE:
        return False
    sure = finding.cause == "rank" or evidence.get("origin_share", 0.0) >= MAIN_SHARE
    return sure and not split_ranks(finding)[1]


def _do_early(trace: Trace, finding: Finding) -> str:
    if is_by_messages(finding):
        site = format_callsite(trace, finding.callsites[0])
        return f"Look at who sends late to the others before {site}."
    if "let_go_early" in finding.evidence:
        return "Look at whom the others wait for: that keeps them, and these wait for them in turn."
    pronoun = "them" if len(finding.ranks) > 1 else "it"
    ranks = format_ranks(finding.ranks)
    return f"Give {ranks} more of the work, or the others less: nobody waits for {pronoun}."


def _do_periodic(trace: Trace, finding: Finding) -> str:
    place = find_other_callsite(finding)
    if is_by_messages(finding):
        before = format_callsite(trace, finding.callsites[0] if place is None else place)
        return f"Look for who sends late to {format_ranks(finding.ranks)} before {before}."
    if place is not None:
        return _where_to_look(trace, finding.evidence, finding.ranks)
    subject = format_ranks(finding.ranks) or "the program"
    work = f"what {subject} {'do' if len(finding.ranks) > 1 else 'does'}"
    before = "before these instances and not before others"
    return f"Look at {work} {before}, such as output or a check."


def find_other_callsite(finding: Finding) -> int | None:
    """Return the other call site before which most of a finding's lateness arose, or None.

    Ranks compute longer or wait for messages there, and few or no ranks wait for them at that call
    site.
    """
    evidence = finding.evidence
    origin, how = evidence.get("origin_callsite"), evidence.get("origin_how")
    mostly = evidence.get("origin_share", 0.0) >= MAIN_SHARE and how in ("outside", MESSAGE_SHARE)
    return origin if finding.ranks and mostly and origin != finding.callsites[0] else None


def _do_gradient(trace: Trace, finding: Finding) -> str:
    if is_by_messages(finding):
        messages = f"the messages before {format_callsite(trace, finding.callsites[0])}"
        return f"Look at {messages}: a rank may wait for a message of the one before."
    return "Look at what grows with the rank: its share of the work, or the order of being served."


def _do_outlier(trace: Trace, finding: Finding) -> str:
    evidence, callsite = finding.evidence, finding.callsites[0]
    began, origin = "", evidence.get("origin_callsite", callsite)
    is_elsewhere = origin != callsite and evidence["origin_how"] != "unknown"
    if is_elsewhere and evidence["origin_share"] >= MAIN_SHARE:
        began = f"Most of that arose before {format_callsite(trace, origin)}. "
    possible_causes = "other jobs, files, a first use"
    if trace.callsites["operation"][callsite] == "finalize":
        possible_causes = "what the program does at its end, files, other jobs"
    return f"{began}{_look_when(trace, finding)}: {possible_causes}."


def _look_when(trace: Trace, finding: Finding) -> str:
    """Return where to look for an event at a given time."""
    pattern = _site_pattern(trace, finding)
    does = "shows it" if finding.evidence["instances"] == 1 else "lists its instances"
    site = f" (`report --site {quote_word(pattern)}` {does})" if pattern else ""
    return f"Look at that time in the timeline{site}"


def _do_inside(trace: Trace, finding: Finding) -> str:
    source = format_callsite(trace, finding.evidence["origin_callsite"])
    if finding.evidence["instances"] == 1:
        return f"{_look_when(trace, finding)}: other jobs, or how {source} ran then."
    operation = trace.callsites["operation"][finding.evidence["origin_callsite"]]
    properties = OPERATIONS.get(base_operation(operation))
    if properties is not None and properties.synchronises:
        return f"Look at the algorithm and the sizes of {source}, not at the load of its ranks."
    return (
        f"Look at the algorithm and the sizes of {source}, and at who else comes late to it: data "
        "may go through other ranks, and how the library sends it is not known."
    )


def _do_noise(trace: Trace, finding: Finding) -> str:
    evidence = finding.evidence
    place = evidence.get("origin_callsite", finding.callsites[0])
    if evidence["instances"] == 1:
        return "Record another run to tell."
    if "inside" in evidence:
        source = format_callsite(trace, evidence["inside"]["callsite"])
        return (
            f"Most of it is made inside {source}, which keeps now this rank longer and now that: "
            "look at its algorithm, its sizes, and whether each rank has a processor."
        )
    often = evidence.get("origin_share", 0.0) >= MAIN_SHARE and place != finding.callsites[0]
    if often and evidence["origin_how"] != "unknown":
        return f"It mostly begins before {format_callsite(trace, place)}: look there."
    if evidence["mostly_last"] is not None:
        head = f"Look at rank {evidence['mostly_last'][0]} first: how late it comes varies too much"
        if evidence["besides"]:
            return f"{head} for a pattern."
        return f"{head} to be sure. Another run would tell whether it is this rank again."
    return "Look for other work on the nodes, or for work whose amount changes at random."


def _do_algorithm(trace: Trace, finding: Finding) -> str:
    rule = switch_value(_site_pattern(trace, finding), finding.algorithm)
    return f"Try: run --switch {quote_word(rule)}"


def _site_pattern(trace: Trace, finding: Finding) -> str:
    row: Any = trace.callsites.loc[finding.callsites[0]]
    return site_pattern(row["sites"])


_ADVICE: dict[str, Callable[[Trace, Finding], str]] = {
    "rank": _do_ranks,
    "early": _do_early,
    "periodic": _do_periodic,
    "gradient": _do_gradient,
    "outlier": _do_outlier,
    "inside": _do_inside,
    "noise": _do_noise,
    "algorithm": _do_algorithm,
}
