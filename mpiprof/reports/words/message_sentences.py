"""Sentences on the waiting for messages and on windows: at a call site, and by pairs of ranks."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from mpiprof.account.message_callsite_sums import are_waits_known, find_located_waits
from mpiprof.account.one_sided_waits import ONE_SIDED_STATES
from mpiprof.causes.finding import NEGLIGIBLE_SHARE, Finding, is_blamed
from mpiprof.facts.operations import ONE_SIDED_OPERATIONS
from mpiprof.interface.format_units import (
    capitalise,
    format_count,
    format_ranks,
    format_share,
    format_time,
)
from mpiprof.reports.site_labels import describe_site, routine_at
from mpiprof.reports.words.ranks_and_steps import name_ranks, takes_plural
from mpiprof.trace import Trace

MIN_SHARE = 0.1  # of the waiting for messages, from which a finding is the headline
Words = list[tuple[str, str]]  # text, and its style: "", "strong" or "late"
# What a rank waits for in a call on a window; {} is the awaited rank.
WINDOW_REASONS = {
    **dict.fromkeys(("win_start", "win_complete"), " until {} posts its window"),
    "win_wait": " until {} completes its epoch",
    **dict.fromkeys(("win_lock", "win_lock_all"), " until {} releases its lock"),
    **dict.fromkeys(("win_unlock", "win_unlock_all"), " until {} releases its lock"),
}
OTHER_WINDOW_REASON = " until {} lets it continue"


@dataclass(frozen=True)
class MessageCause:
    """The finding that causes most of the waiting for messages, and its share of it."""

    finding: Finding
    share: float


def find_message_cause(findings: Sequence[Finding], pairs: pd.DataFrame) -> MessageCause | None:
    """Return the finding that blames ranks for most waiting for messages, directly or not.

    pairs: of `list_waiting_pairs`, of the whole run. Returns None if no finding causes MIN_SHARE.
    """
    whole = float(pairs["wait_ns"].sum())
    causes = [
        MessageCause(finding, _message_wait(finding) / whole)
        for finding in findings
        if whole > 0 and is_blamed(finding)
    ]
    largest = max(causes, key=lambda cause: cause.share, default=None)
    return largest if largest is not None and largest.share >= MIN_SHARE else None


def _message_wait(finding: Finding) -> float:
    """Return the waiting for messages that a finding causes, at most its cost, in ns."""
    in_messages = sum(at.wait_ns for at in finding.waits_at if isinstance(at.callsite, tuple))
    return min(in_messages, float(finding.cost_ns))


def headline(trace: Trace, pairs: pd.DataFrame, cause: MessageCause | None = None) -> Words:
    """Return who causes the waiting for messages, as styled words.

    Without a cause, this is `describe_pair` of the first row of `list_waiting_pairs`. A rank that
    is waited for may wait itself, so it is not called late.
    """
    if not len(pairs):
        return [(absence_text(trace), "")]
    if cause is None:
        return describe_pair(trace, pairs.iloc[0])
    return [
        (capitalise(name_ranks(cause.finding)), "late"),
        (" cause " if takes_plural(cause.finding) else " causes ", ""),
        (format_share(cause.share), "strong"),
        (f" of the waiting {name_waits(trace)}.", ""),
    ]


def describe_pair(trace: Trace, row: Any) -> Words:
    """Return a row of `list_waiting_pairs` as a sentence of styled words."""
    calls, awaited = int(row["calls"]), (f"rank {row['awaited']}", "strong")
    reason = [(" for messages of ", ""), awaited, (", in ", "")]
    if 2 * row["send_wait_ns"] > row["wait_ns"]:
        reason = [(" until ", ""), awaited, (" receives its message, in ", "")]
    if (words := split_reason(str(row["operation"]))) is not None:
        reason = [(words[0], ""), awaited, (f"{words[1]}, in ", "")]
    return [
        (f"Rank {row['rank']}", "strong"),
        (" waits ", ""),
        (format_time(float(row["wait_ns"])), "strong"),
        *reason,
        (f"{format_count(calls)} call{'s' * (calls > 1)} of ", ""),
        (format_pair_site(trace, row), "strong"),
        (".", ""),
    ]


def headline_text(trace: Trace, pairs: pd.DataFrame, cause: MessageCause | None = None) -> str:
    """Return `headline` as text."""
    return _join(headline(trace, pairs, cause))


def _join(words: Words) -> str:
    return "".join(text for text, _ in words)


def further_sentences(
    trace: Trace, pairs: pd.DataFrame, cause: MessageCause | None = None
) -> list[str]:
    """Return how many ranks wait directly for the cause, and the pair that waits most.

    Without a cause, the first sentence is on the rank for which the others wait most.
    """
    whole = float(pairs["wait_ns"].sum())
    if not whole > 0:
        return []
    if cause is None:
        return [_most_awaited(trace, pairs, whole)]
    direct = pairs[pairs["awaited"].isin(cause.finding.ranks)]
    share = float(direct["wait_ns"].sum()) / whole
    them = format_ranks(cause.finding.ranks)
    sentence = f"{format_share(share)} is directly for {them}"
    if share < cause.share:
        sentence += "; the rest passes through ranks that wait themselves"
    return [f"{sentence}.", _join(describe_pair(trace, pairs.iloc[0]))]


def _most_awaited(trace: Trace, pairs: pd.DataFrame, whole: float) -> str:
    """Return the share of the rank for which the others wait most."""
    sums = pairs.groupby("awaited")["wait_ns"].sum().sort_values(ascending=False, kind="stable")
    rank = int(sums.index[0])
    waiting = sorted(set(pairs.loc[pairs["awaited"] == rank, "rank"].tolist()))
    one = len(waiting) == 1
    who = f"rank {waiting[0]} waits" if one else f"{format_count(len(waiting))} ranks wait"
    share = format_share(float(sums.iloc[0]) / whole)
    fact = f"{share} of all waiting {name_waits(trace)} is for rank {rank}; {who} for it."
    return f"{fact} No rank is known to cause it: an awaited rank may wait itself."


def absence_text(trace: Trace) -> str:
    """Return the reason why no pair of ranks waits."""
    if not len(trace.message_sums):
        return "This trace has no messages."
    if not are_waits_known(trace):
        return "The waiting in messages is unknown, because only sums of messages were recorded."
    return "No rank waits for a message."


def format_pair_site(trace: Trace, row: Any) -> str:
    """Return the operation and call site of a row as text: "waitall at halo.py:13 exchange"."""
    return f"{row['operation']} at {describe_site(trace, int(row['site_id']))}"


def longest_wait_sentence(trace: Trace, callsite: Mapping[Any, Any]) -> str:
    """Return the longest wait at a call site, or "" if nobody waits there."""
    waits = find_located_waits(trace)
    here = waits["operation"].astype(str) == callsite["operation"]
    waits = waits[here & (waits["site_id"] == callsite["site_id"])]
    if not len(waits):
        return ""
    row = waits.loc[waits["longest_ns" if "longest_ns" in waits else "wait_ns"].idxmax()]
    begin, until = int(row["begin_ns"]), int(row["until_ns"])
    return (
        f"The longest wait here is {format_time(until - begin)}: rank {row['rank']} for rank "
        f"{row['awaited']}, {format_time(begin - trace.calls_start_ns)} after the begin."
    )


def message_cost_sentence(row: Mapping[Any, Any]) -> str:
    """Return the cost of the waiting at a call site of messages, or "" if nobody waits."""
    if not row["total_wait_ns"] > 0:
        return ""
    cost = f"{routine_at(row)} costs {format_time(row['total_wait_ns'])} of waiting"
    share, rank = format_share(row["awaited_share"]), row["awaited_rank"]
    mostly = f"{share} of it is directly for rank {rank}"
    return f"{cost}, {format_share(row['wait_share'])} of all ranks' time; {mostly}."


def name_waits(trace: Trace, rank: int | None = None) -> str:
    """Return what all ranks, or one of them, wait for outside collectives."""
    waits = find_located_waits(trace)
    if rank is not None:
        waits = waits[waits["rank"] == rank]
    of_state = waits["wait_ns"].groupby(waits["state"], observed=True).sum()
    most = of_state[of_state >= NEGLIGIBLE_SHARE * of_state.sum()]
    return name_states({str(state) for state in most.index})


def name_states(states: Collection[str]) -> str:
    """Return what ranks wait for in some wait states."""
    on_windows = [state for state in states if state in ONE_SIDED_STATES]
    if not on_windows:
        return "for messages"
    return "on windows" if len(on_windows) == len(states) else "for messages and on windows"


def split_reason(operation: str) -> tuple[str, str] | None:
    """Return the words before and after the awaited rank, None in calls on messages."""
    if operation not in ONE_SIDED_OPERATIONS:
        return None
    before, _, after = WINDOW_REASONS.get(operation, OTHER_WINDOW_REASON).partition("{}")
    return before, after
