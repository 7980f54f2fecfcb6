"""Sentences on a call site: its cost, its arrivals, its late rank and the cause of its waiting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.account.columns import wait_limits
from mpiprof.account.instance_series import find_worst_instance
from mpiprof.account.rank_totals import read_instance_at
from mpiprof.account.variance_components import Estimate
from mpiprof.causes.arrival_statistics import ArrivalStatistics, LateRank
from mpiprof.causes.finding import MIN_CAUSE_SHARE, MIN_PARTIAL_SHARE, Finding, find_causes_at
from mpiprof.interface.format_units import (
    capitalise,
    format_count,
    format_estimate,
    format_factor,
    format_ordinal,
    format_runs,
    format_share,
    format_size,
    format_time,
    format_uncertain_time,
)
from mpiprof.interface.shell_hints import quote_word
from mpiprof.reports.site_labels import (
    exact_pattern,
    list_callsites,
    make_callsite_key,
    routine_at,
    site_arguments,
)
from mpiprof.reports.words.ranks_and_steps import MOVING_GROUP, name_ranks, takes_plural
from mpiprof.trace import Trace

WHOLE_SHARE = 0.995  # share of the instances that is called "every"
MAIN_SHARE = 0.5  # minimum share of the instances in which a rank is last
MAX_RUNS = 2  # of ranks in a cell
MAX_OTHERS = 4  # further call sites that match a pattern
REASONS = {
    "inherited": "it leaves the previous collective late",
    "outside": "it takes longer outside MPI",
    "point_to_point": "it takes longer in messages",
    None: "several stages add to it",
}
STAGES = {"inherited": "Previous exit", "outside": "Own time", "point_to_point": "Messages"}
Phrases = list[tuple[str, str]]  # text, and its style: "late", "good", "bold" or ""
NOTABLE = 0.005  # minimum share of a spread; a smaller share is reported as 0 %


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


def cost_sentence(row: dict[str, Any], total_ns: float) -> str:
    """Return the cost of the waiting at one call site, and the spread of its arrivals."""
    limits = wait_limits(row)
    bounds = f" ({limits})" if limits else ""
    text = f"{routine_at(row)} costs {format_time(row['total_wait_ns'])}{bounds} of waiting"
    if total_ns > 0:
        text += f", {format_share(row['total_wait_ns'] / total_ns)} of all ranks' time"
    return f"{text}. {_spread_clause(row)}".rstrip()


def instance_counts(row: Mapping[Any, Any]) -> dict[str, str]:
    """Return the instances of both compared call sites, as `count` and `other_count`."""
    return {
        f"{side}count": format_estimate(row[f"{side}total_instances"], row[f"{side}instances"])
        for side in ("", "other_")
    }


def _spread_clause(row: dict[str, Any]) -> str:
    spread, ratio = row["worst_imbalance_ns"], row["worst_factor"]
    if math.isnan(spread):
        return ""
    text = f"The last process comes {format_time(spread)} after the first"
    text += ", on average" if row["instances"] > 1 else ""
    if not math.isnan(ratio):
        message = row["message_bytes"]
        size = f"of {format_size(message)}" if message > 0 else "without data"
        text += f", the time of {format_factor(ratio)} messages {size}"
    return text + "."


def arrival_sentences(statistics: ArrivalStatistics) -> list[str]:
    """Return sentences about why the arrivals at a call site differ."""
    parts = []
    if not math.isnan(statistics.inherited.value):
        shares = (statistics.inherited, statistics.outside, statistics.point_to_point)
        before, outside, messages = map(_format_estimate, shares)
        parts.append(
            f"Of the spread of the arrivals (its variance) {before} came in with the exits from "
            f"the collective before; {outside} arose since then outside MPI collectives and "
            f"{messages} in point-to-point messages."
        )
    if statistics.compensated.value >= NOTABLE:
        share = _format_estimate(statistics.compensated)
        parts.append(f"Ranks make up for {share} of it before they arrive.")
    if not math.isnan(statistics.random.value):
        nodes = (
            f", {_format_estimate(statistics.by_node)} by node" if len(statistics.nodes) > 1 else ""
        )
        fixed = f"{_format_estimate(statistics.by_rank)} is systematic by rank{nodes}"
        changing = f"{_format_estimate(statistics.random)} changes from instance to instance"
        parts.append(f"{fixed}, {changing}.")
    if statistics.instances < statistics.complete_instances:
        instances, total = (
            format_count(statistics.instances),
            format_count(statistics.complete_instances),
        )
        parts.append(f"This is from {instances} of {total} instances.")
    return parts


def period_sentence(phases: pd.DataFrame) -> str:
    """Return which instances of a call site differ periodically, or "" if none do."""
    if not len(phases) or not phases["period"].iloc[0]:
        return ""
    period, offset = int(phases["period"].iloc[0]), int(phases["period_offset"].iloc[0])
    spread = format_time(float(phases["period_worst_imbalance_ns"].mean()))
    numbers = ", ".join(str(offset + i * period) for i in range(3))
    subject = f"Every {format_ordinal(period)} instance ({numbers}, ...)"
    return f"{subject} is different: it spreads over {spread}."


def _format_estimate(estimate: Estimate) -> str:
    """Return a share with its confidence interval, in percent."""
    value, low, high = (
        f"{100 * v + 0.0:.0f}".replace("-0", "0") if abs(100 * v) < 1 else f"{100 * v:.0f}"
        for v in (estimate.value, estimate.low, estimate.high)
    )
    return f"{value} %" if low in (high, "nan") else f"{value} % ({low} to {high})"


def worst_instance_sentence(trace: Trace, series: pd.DataFrame) -> str:
    """Return which rank is last in the instance with most waiting, and when, or "" if unknown.

    series: the instance series of the call site.
    """
    if len(series) < 2 or not series["worst_imbalance_ns"].max() > 0:
        return ""
    row = series.iloc[find_worst_instance(series)]
    begin = int(row["first_arrival_ns"])
    instance = read_instance_at(trace, begin, int(row["worst_imbalance_ns"]))
    if instance is None or len(instance.ranks) < 2:
        return ""
    last = int(np.argmax(instance.arrival))
    late_ns = float(instance.arrival[last] - np.median(np.delete(instance.arrival, last)))
    fact = (
        f"number {row['number']}, {format_time(begin - trace.calls_start_ns)} after the begin: "
        f"rank {instance.ranks[last]} arrives last, {format_time(late_ns)} after the median of the "
        f"other ranks and {format_time(float(row['worst_imbalance_ns']))} after the first."
    )
    if not row["wait_ns"] > 0:
        return f"The instance of largest imbalance is {fact}"
    waiting = format_time(float(row["wait_ns"]))
    return f"The instance with most waiting ({waiting} of all ranks together) is {fact}"


def match_note(trace: Trace, row: Mapping[Any, Any], others: Sequence[Mapping[Any, Any]]) -> str:
    """Return a note that a pattern matches further call sites and how to select one of them.

    row: the reported call site, the costliest of them. others: the others, the costliest first.
    """
    if not others:
        return ""
    everything = list_callsites(trace)
    options = [
        " ".join(map(quote_word, site_arguments(exact_pattern(other, everything))))
        for other in others[:MAX_OTHERS]
    ]
    more = f" and {len(others) - MAX_OTHERS} more" if len(others) > MAX_OTHERS else ""
    waits = "waits most" if row["total_wait_ns"] > 0 else "takes most time"
    fact = f"{len(others) + 1} call sites match; this one {waits}. The others"
    return f"({fact}: {', '.join(options)}{more})"
