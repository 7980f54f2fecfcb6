"""The late rank of a call site as a sentence, and the stages of its lateness as text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from mpiprof.diagnosis.arrival_statistics import LateRank
from mpiprof.diagnosis.finding import MIN_CAUSE_SHARE, MIN_PARTIAL_SHARE, Finding, find_causes_at
from mpiprof.interface.format_units import (
    capitalise,
    format_count,
    format_runs,
    format_share,
    format_time,
    format_uncertain_time,
)
from mpiprof.reports.blamed_ranks import MOVING_GROUP, name_ranks, takes_plural
from mpiprof.reports.site_labels import make_callsite_key

WHOLE_SHARE = 0.995  # share of the instances that is called "every"
MAIN_SHARE = 0.5  # minimum share of the instances in which a rank is last
MAX_RUNS = 2  # of ranks in a cell
REASONS = {
    "inherited": "it leaves the previous collective late",
    "outside": "it takes longer outside MPI",
    "point_to_point": "it takes longer in messages",
    None: "several stages add to it",
}
STAGES = {"inherited": "Previous exit", "outside": "Own time", "point_to_point": "Messages"}
Phrases = list[tuple[str, str]]  # text, and its style: "late", "good", "bold" or ""


def callsite_headline(
    row: Mapping[str, Any], late: LateRank | None, clock_ns: float, causes: Sequence[Finding] = ()
) -> Phrases:
    """Return who is late at a call site, by how much and at which stage, as styled phrases.

    A rank that waits elsewhere for the cause of the waiting may be the last one here, so the cause
    comes first. row: of the call sites. clock_ns: error of the clocks. causes: find_causes_at.
    """
    spread = float(row["worst_imbalance_ns"])
    if row["size"] == 1:
        return [("Only one rank takes part, so none waits.", "good")]
    if causes and (late is None or late.rank not in causes[0].ranks):
        return _cause_phrases(causes[0], int(row["callsite"]), _last_clause(row, late, causes[0]))
    if late is not None:
        return _late_phrases(late)
    if not row["complete_instances"]:
        return [("No instance is complete, so its waiting time is unknown.", "")]
    if not row["total_wait_ns"] > 0:
        return [("No rank waits here.", "good")]
    if clock_ns > 0 and spread <= clock_ns:
        text = "The clocks cannot tell who is late: arrivals differ by less than their error, "
        return [(text, ""), (f"±{format_time(clock_ns)}", "bold"), (".", "")]
    if pd.notna(row["latest_rank"]) and row["latest_share"] >= MAIN_SHARE:
        share = format_share(float(row["latest_share"]))
        who = f"Rank {row['latest_rank']}"
        often = f" is last in {share} of the instances"
        if row["instances"] == 1:
            return [(who, "bold"), (" is last in the only instance, which shows no pattern.", "")]
        return [(who, "bold"), (f"{often}, but not late consistently.", "")]
    if math.isnan(spread):
        return [("No rank is late consistently.", "")]
    return [
        ("No rank is late consistently: arrivals are spread over ", ""),
        (format_time(spread), "bold"),
        (".", ""),
    ]


def format_cause(finding: Finding, callsite: int | tuple[str, int]) -> str:
    """Return the ranks of a finding and their share of the waiting at a call site, for a cell.

    Ranks that are late in turn are not named, because the cell would blame all of them at once.
    """
    ranks, share = format_runs(list(finding.ranks), MAX_RUNS), finding.share_at(callsite)
    turn = name_ranks(finding).endswith("in turn")
    if turn or name_ranks(finding) == MOVING_GROUP:
        return f"{'in turn' if turn else 'moving'}: {format_share(share)}"
    return f"{ranks} in {format_share(share)}"


def name_causes(findings: Sequence[Finding]) -> dict[int | str, str]:
    """Return the ranks that cause most waiting at a call site and their share, by its key."""
    sites = dict.fromkeys(at.callsite for finding in findings for at in finding.waits_at)
    causes = {site: find_causes_at(findings, site) for site in sites}
    return {
        make_callsite_key(site): format_cause(of[0], site)
        for site, of in causes.items()
        if of and of[0].share_at(site) >= MIN_CAUSE_SHARE
    }


def message_headline(
    row: Mapping[str, Any], causes: Sequence[Finding], findings: Sequence[Finding] = ()
) -> Phrases:
    """Return who causes the waiting at a call site of messages, as styled phrases.

    row: of the call sites of messages. causes: find_causes_at. findings: all of the trace, of
    which one that causes a smaller share of the waiting is named if there are no causes.
    """
    if not row["total_wait_ns"] > 0:
        return [("No rank waits here.", "good")]
    share, rank = format_share(float(row["awaited_share"])), row["awaited_rank"]
    if not causes:
        awaited = [
            (f"Rank {rank}", "bold"),
            (f" is waited for most, in {share} of the waiting.", ""),
        ]
        site = str(row["operation"]), int(row["site_id"])
        partial = find_causes_at(findings, site, MIN_PARTIAL_SHARE)[:1]
        if not partial or rank in partial[0].ranks:
            return awaited
        return [*awaited, (" ", ""), *_cause_phrases(partial[0], site, "")]
    direct = f"though most waits are for rank {rank} ({share}), which waits itself"
    if rank in causes[0].ranks:
        direct = f"{share} in waits for rank {rank} itself, the rest in waits for its victims"
        if float(row["awaited_share"]) >= WHOLE_SHARE:
            direct = f"all in waits for rank {rank} itself"
    return _cause_phrases(causes[0], (str(row["operation"]), int(row["site_id"])), direct)


def _cause_phrases(finding: Finding, callsite: int | tuple[str, int], more: str) -> Phrases:
    """Return the ranks that cause waiting at a call site and their share of it."""
    ranks = capitalise(name_ranks(finding))
    share = finding.share_at(callsite)
    amount = [(format_share(share), "bold"), (" of the waiting here", "")]
    if finding.cause == "early":
        verb = " have" if len(finding.ranks) > 1 else " has"
        less = ", because they have less to do" if len(finding.ranks) > 1 else ""
        less = less or ", because it has less to do"
        return [(ranks, "late"), (verb + " ", ""), *amount, (f"{less}.", "")]
    verb = " cause " if takes_plural(finding) else " causes "
    return [(ranks, "late"), (verb, ""), *amount, (f", {more}." if more else ".", "")]


def _last_clause(row: Mapping[str, Any], late: LateRank | None, cause: Finding) -> str:
    """Return which rank arrives last most often, "" if unknown."""
    if late is not None:
        rank, share = late.rank, late.last_share
    elif pd.notna(row["latest_rank"]):
        rank, share = int(row["latest_rank"]), float(row["latest_share"])
    else:
        return ""
    often = f"in {format_share(share)} of the instances"
    if cause.ranks == (rank,):
        return f"and arrives last {often}"
    if rank in cause.ranks:
        return f"and rank {rank} arrives last {often}"
    return f"though rank {rank} arrives last most often, {often}"


def _late_phrases(late: LateRank) -> Phrases:
    often = f"is last in {format_share(late.last_share)} of the instances"
    if late.instances == 1:
        often = "is last in the only instance"
    elif late.last_share >= WHOLE_SHARE:
        often = "is last in every instance"
    elif late.last_share < MAIN_SHARE:
        often = "is late on average"
    phrases = [
        (f"Rank {late.rank}", "late"),
        (f" {often}, ", ""),
        (format_uncertain_time(late.late_ns, late.error_ns), "bold"),
        (" after the median", ""),
    ]
    if late.knows_stages:
        phrases += [(": ", ""), (REASONS[late.main_stage], "bold")]
    phrases.append((".", ""))
    if late.similar:
        plural = "s are" if late.similar > 1 else " is"
        phrases.append((f" {format_count(late.similar)} more rank{plural} late, too.", ""))
    return phrases


def join_phrases(phrases: Phrases) -> str:
    """Return phrases as plain text."""
    return "".join(text for text, _ in phrases)


def signed_time(ns: float) -> str:
    """Return a time with its sign: +1.20 ms, −300 ns."""
    return f"{'+' if ns >= 0 else '−'}{format_time(abs(ns))}"
