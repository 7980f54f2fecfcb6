"""Facts of the answer on a run: time lost, late ranks, place, reason, saving and advice."""

from __future__ import annotations

from dataclasses import dataclass

from mpiprof.causes.finding import MIN_CERTAINTY, Finding, HabitEvidence, is_blamed
from mpiprof.causes.findings import Verdict
from mpiprof.interface.format_units import format_ranks, format_share, format_time, shorten_text
from mpiprof.reports.site_labels import format_site, format_wait_site
from mpiprof.reports.words import conclusion, delay_sentences, finding_sentences, trace_sentences
from mpiprof.reports.words.finding_sentences import describe_saving
from mpiprof.reports.words.ranks_and_steps import describe_location, name_ranks
from mpiprof.reports.words.trace_sentences import waiting_verb
from mpiprof.trace import Trace
from mpiprof.trace.sites import locate_label

NO_GAIN = "Nothing to gain here."


@dataclass(frozen=True)
class Fact:
    """A fact below the sentence: its name, its text, a second line, and the name of an icon."""

    name: str
    text: str
    more: str = ""
    icon: str = ""
    is_late: bool = False


def describe_amount(trace: Trace, verdict: Verdict) -> str:
    """Return the waiting as a time of the run time."""
    run_ns = float(trace.run_ns)
    amount = f"{format_time(verdict.waiting * run_ns)} of {format_time(run_ns)}"
    return f" of this run {waiting_verb(trace)}: {amount}"


def list_facts(trace: Trace, finding: Finding) -> list[Fact]:
    """Return who, where, why and the saving, each with a second line."""
    icon, why, more = describe_reason(finding)
    facts = [
        _describe_ranks(trace, finding),
        _describe_place(trace, finding),
        Fact("Why", why, more, icon),
    ]
    if finding.saved_ns > 0 and finding.cause != "noise":
        saving = describe_saving(trace, finding)
        more = f"{saving.share} of the run" + (f": {saving.parts}" if saving.parts else "")
        run_ns = float(trace.run_ns)
        if finding.certainty >= MIN_CERTAINTY and not trace_sentences.state_sentence(trace):
            after = format_time(run_ns - finding.saved_ns)
            more = f"{format_time(run_ns)} → {after}, {more}"
        facts.append(Fact("Would save", saving.text, more, is_late=is_blamed(finding)))
    return facts


def _describe_ranks(trace: Trace, finding: Finding) -> Fact:
    if not finding.ranks or not is_blamed(finding):
        return Fact("Who", "no rank in particular")
    if len(finding.ranks) == 1:
        where = shorten_text(describe_location(trace, finding.ranks[0]))
        return Fact("Who", f"rank {finding.ranks[0]}", where)
    of_host = format_ranks(finding.ranks) if _find_host(finding) else ""
    return Fact("Who", name_blamed(finding), of_host)


def _describe_place(trace: Trace, finding: Finding) -> Fact:
    location = delay_sentences.main_location(finding)
    if location is None:
        main = finding.main_callsite
        place = "–" if main is None else format_wait_site(trace, main)
        operation, _, site = place.partition(" at ")
        return Fact("Where", site or operation, operation if site else "")
    before, after = location.before, location.after
    name = "Happens inside" if location.inside else "Begins after"
    first = format_site(before) if before.get("operation") else "the start of the run"
    more = ""
    if after.get("operation") and not location.inside:
        more = f"before {after['operation']} {locate_label(format_site(after))}"
    return Fact(name, first, more)


def describe_reason(finding: Finding) -> tuple[str, str, str]:
    """Return the icon, the reason and its share or source, as short texts."""
    if finding.fact is not None:
        return finding.fact.icon, finding.fact.reason or "unknown", ""
    if finding.cause == "algorithm":
        return "algorithm", "algorithm", str(finding.at_callsite.how)
    if finding.cause in ("barrier", "clock"):
        texts = {"barrier": "barrier", "clock": "clocks too far apart"}
        return finding.cause, texts[finding.cause], ""
    if not isinstance(finding.evidence, HabitEvidence):
        return "unknown", "no pattern", ""
    found = finding.evidence.reason
    if finding.cause == "inside":
        return "algorithm", "inside the call", ""
    if found is None:
        return "processor", "unknown", "no counters show why"
    if found.reason is None:
        return "processor", "unknown", "the counters do not show why"
    text = delay_sentences.REASONS[found.reason].partition(":")[0].partition(",")[0]
    icon = "processor" if "work" in text or "processor," in text else "paused"
    return icon, text, f"{format_share(found.shares[found.reason])} of the delay"


def name_blamed(finding: Finding) -> str:
    """Return the name of the blamed ranks: of their node if they are all of its ranks."""
    return _find_host(finding) or name_ranks(finding)


def _find_host(finding: Finding) -> str:
    is_habit = isinstance(finding.evidence, HabitEvidence)
    return (finding.habit.host or "") if is_habit else ""


def describe_advice(trace: Trace, finding: Finding) -> str:
    """Return the advice of the answer, which a command follows."""
    if finding.cause == "algorithm":
        return "Run it with this algorithm:"
    return f"{finding_sentences.advise(trace, finding)}{conclusion.load_sentence(finding)}"
