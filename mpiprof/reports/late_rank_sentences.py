"""The late rank of a call site as a sentence, and the stages of its lateness as text."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from mpiprof.diagnosis.late_rank import LateRank
from mpiprof.interface.format_units import format_count, format_share, format_time

WHOLE_SHARE = 0.995  # share of the instances that is called "every"
MAIN_SHARE = 0.5  # minimum share of the instances in which a rank is last
REASONS = {
    "inherited": "it leaves the previous collective late",
    "outside": "it takes longer outside MPI",
    "point_to_point": "it takes longer in messages",
    None: "several stages add to it",
}
STAGES = {"inherited": "Previous exit", "outside": "Own time", "point_to_point": "Messages"}
Phrases = list[tuple[str, str]]  # text, and its style: "late", "good", "bold" or ""


def callsite_headline(row: Mapping[str, Any], late: LateRank | None, clock_ns: float) -> Phrases:
    """Return who is late at a call site, by how much and at which stage, as styled phrases.

    row: of the call sites. clock_ns: error of the clocks.
    """
    spread = float(row["worst_imbalance_ns"])
    if row["size"] == 1:
        return [("Only one rank takes part, so none waits.", "good")]
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
        return [(who, "bold"), (f" is last in {share} of the instances, but not by much.", "")]
    if math.isnan(spread):
        return [("No rank is late consistently.", "")]
    return [
        ("No rank is late consistently: arrivals are spread over ", ""),
        (format_time(spread), "bold"),
        (".", ""),
    ]


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
        (format_time(late.late_ns), "bold"),
        (" after the median", ""),
    ]
    if late.similar:
        plural = "s are" if late.similar > 1 else " is"
        phrases.append((f"; {format_count(late.similar)} more rank{plural} late, too", ""))
    if late.knows_stages:
        phrases += [(": ", ""), (REASONS[late.main_stage], "bold")]
    return [*phrases, (".", "")]


def join_phrases(phrases: Phrases) -> str:
    """Return phrases as plain text."""
    return "".join(text for text, _ in phrases)


def signed_time(ns: float) -> str:
    """Return a time with its sign: +1.20 ms, −300 ns."""
    return f"{'+' if ns >= 0 else '−'}{format_time(abs(ns))}"
