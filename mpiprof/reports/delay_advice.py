"""Advice for findings from delays: where to look, or how to record more."""

from __future__ import annotations

from mpiprof.causes.place import format_call
from mpiprof.diagnosis.delay_reasons import BLOCKED, PREEMPTED, SLOWER_PROCESSOR, THROTTLED
from mpiprof.diagnosis.evidence import RestEvidence, WorkLocation
from mpiprof.diagnosis.finding import Finding
from mpiprof.interface.format_units import format_ranks, format_share
from mpiprof.reports.blamed_ranks import name_ranks, takes_plural
from mpiprof.reports.delay_sentences import main_location, main_reason
from mpiprof.reports.delay_steps import rises
from mpiprof.trace.sites import label_site

# By the records that would show more causes.
REMEDIES = {
    "messages": "Record events, with --messages auto.",
    "instances": "Record a larger part of the calls (--sample).",
}
# By the reason of a delay that is not the work of the program.
PROCESSOR_ADVICE = {
    PREEMPTED: "Check for other processes on the processors of {ranks}, and give each rank a "
    "processor of its own.",
    THROTTLED: "Raise the processor quota of the control group of {ranks}, or start fewer ranks "
    "in it.",
    SLOWER_PROCESSOR: "Check the clock frequency of the processors of {ranks}, and for other load "
    "on these nodes.",
}


def delay_advice(finding: Finding) -> str:
    """Return where to look for the reason of a delay. Its clause has named the calls."""
    if isinstance(finding.evidence, RestEvidence):
        return _rest_advice(finding.evidence)
    if finding.cause == "early":
        return f"Give {format_ranks(finding.ranks)} more of the work, or the other ranks less."
    who = name_ranks(finding) if finding.ranks else "the late ranks"
    if advice := PROCESSOR_ADVICE.get(main_reason(finding) or ""):
        return advice.format(ranks=who)
    do = "do" if takes_plural(finding) or not finding.ranks else "does"
    location = main_location(finding)
    if location is None:
        return f"Look at what {who} {do} outside MPI."
    if location.inside:
        before = format_call(location.before)
        return f"Look at the algorithm and the sizes of {before}, and at who else comes late to it."
    grows = finding.habit.grows
    more = " Look for what grows there." if grows and rises(grows) else ""
    if finding.habit.spared and main_reason(finding) == BLOCKED:
        return f"Look for a file or a lock that {who} wait for between these calls."
    code = _code_sentence(finding, location)
    return f"Look at what {who} {do} between these calls.{code}{more}"


def _rest_advice(rest: RestEvidence) -> str:
    """Return how to learn the cause of waiting that has no sure one."""
    if rest.missing is not None:
        return REMEDIES[rest.missing]
    if rest.omitted:
        return "Record a part of the run, as with MPI_Pcontrol or --record ring."
    if rest.instances == 1:
        return "Record another run to tell."
    if rest.inside is not None:
        inside = format_call(rest.inside)
        look = "look at its algorithm, its sizes, and whether each rank has a processor"
        return f"Most of it arises inside {inside}, which keeps different ranks longer: {look}."
    if rest.blocked is not None:
        return "Look for a file or a lock that the ranks share there."
    if rest.common_last is not None:
        return "Record a longer run."
    return "Check for other processes on these nodes, and for work that varies between steps."


def _code_sentence(finding: Finding, location: WorkLocation) -> str:
    """Return the code that was sampled between two calls, or "" without samples."""
    code = location.code
    if code is None:
        return ""
    subject = "it" if len(finding.ranks) == 1 else f"rank {location.rank}"
    place = label_site(code)
    return f" {format_share(code['share'])} of that time {subject} is in {place} (sampled)."
