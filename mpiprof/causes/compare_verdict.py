"""Verdict on a comparison of recordings: which is slower, by how much, and how certain this is.

The times of each call site are means of a run, with 95 % intervals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.causes.compare import MEAN_COLUMNS, totals_by_run
from mpiprof.causes.run_variation import UNUSUAL, count_repetitions, mean_interval, usual_quantile
from mpiprof.trace import Trace
from mpiprof.trace.types import Float

INCOMPARABLE = "incomparable"  # outcome for runs of different programs or numbers of ranks
DIFFERENT = 0.05  # p-value of a metric of a call site that differs
MAIN_SHARE = 0.5  # minimum share of the change for it to count as waiting
NOTABLE_SHARE = 0.1  # minimum untested change, of the time in collectives, to prevent a verdict
COMPONENT_SHARE = 0.25  # minimum ratio of opposite effects for a mixed verdict
SOUGHT_CHANGE = 0.05  # share of the time in collectives for which repetitions are recommended
# Totals over all ranks and instances, and the mean whose interval the comparison has.
WAITING = ("total_wait_ns", "wait_ns")
TIME = ("total_elapsed_ns", "mean_elapsed_ns")
ABSENT, UNKNOWN = (
    np.zeros(1),
    np.zeros(0),
)  # times of a call site that a run lacks, or does not know


@dataclass(frozen=True)
class ChangedCallsite:
    """A call site that differs significantly.

    row: row of the table, by column. measure: first of MEAN_COLUMNS that differs. effect_ns: time
    added (negative if saved) for all ranks over the instances of the first trace. It is 0 if only
    the spread of arrivals differs. waiting: True if most of the effect is waiting, None if the time
    in the call does not differ.
    """

    row: Mapping[str, Any]
    measure: str
    effect_ns: float
    waiting: bool | None


@dataclass(frozen=True)
class Difference:
    """Difference between a trace and another, or between two groups of runs.

    - outcome: "slower", "faster", "mixed", "same" (no significant difference), "unknown" (no test
      was possible, or not for the largest difference), INCOMPARABLE.
    - effect_ns: sum of the significant effects. before_ns, after_ns: time of all ranks in
      collectives.
    - changed: call sites that differ, the largest effect first.
    - compared, tested, only: numbers of call sites in both, with enough instances, and in one
      alone. shared: number of call sites in both without that of MPI_Finalize.
    - certainty: 0 to 1, of the first of `changed`, over all tests of the table.
    - tested_ns, added_ns, usual_ns: sums over the tested call sites, over as many instances as the
      first trace has: time before, time added, and the addition that is usual between runs of an
      unchanged program.
    - untested: row of a call site with too few calls; its difference makes the rest irrelevant.
    """

    outcome: str
    effect_ns: float
    before_ns: float
    after_ns: float
    changed: tuple[ChangedCallsite, ...]
    compared: int
    tested: int
    only: int
    shared: int
    certainty: float
    tested_ns: float
    added_ns: float
    usual_ns: float
    untested: Mapping[str, Any] | None = None

    @property
    def worst(self) -> ChangedCallsite | None:
        """The call site with the largest slowdown, or None."""
        return next((callsite for callsite in self.changed if callsite.effect_ns > 0), None)

    @property
    def best(self) -> ChangedCallsite | None:
        """The call site with the largest speed-up, or None."""
        return next((callsite for callsite in self.changed if callsite.effect_ns < 0), None)


def judge_difference(table: pd.DataFrame) -> Difference:
    """Return the verdict on the rows of `compare.compare` for one other trace."""
    rows: list[Any] = table.to_dict("records")
    both = [row for row in rows if row["callsite"] >= 0 and row["other_callsite"] >= 0]
    p = np.array([[row[f"{name}_p"] for name in MEAN_COLUMNS] for row in both], np.float64)
    p = p.reshape(len(both), len(MEAN_COLUMNS))
    tests = int((~np.isnan(p)).sum())
    sums = _sum_tested(both)
    unusual = abs(sums[1]) > sums[2]
    changed = sorted(
        map(_make_changed, _changed_rows(both, sums[1] if unusual else 0.0)),
        key=lambda callsite: -abs(callsite.effect_ns),
    )
    outcome = (
        _judge_outcome([callsite.effect_ns for callsite in changed])
        if changed or tests
        else "unknown"
    )
    seldom = [row for row, p_of_row in zip(both, p, strict=True) if np.isnan(p_of_row).all()]
    untested = max(seldom, key=lambda row: abs(_added_time(row)), default=None)
    before = float(table["total_elapsed_ns"].sum())
    notable = untested is not None and abs(_added_time(untested)) >= NOTABLE_SHARE * before
    if outcome == "same" and notable:
        outcome = "unknown"
    else:
        untested = None
    certainty = 0.0
    if changed:
        smallest_p = min(changed[0].row[f"{name}_p"] for name in MEAN_COLUMNS)
        certainty = max(1.0 - smallest_p * tests, 1.0 - UNUSUAL if unusual else 0.0, 0.0)
    return Difference(
        outcome,
        sum(callsite.effect_ns for callsite in changed),
        before,
        float(table["other_total_elapsed_ns"].sum()),
        tuple(changed),
        len(both),
        int((~np.isnan(p)).any(1).sum()),
        len(rows) - len(both),
        sum(row["operation"] != "finalize" for row in both),
        certainty,
        *sums,
        untested,
    )


def recommend_repetitions(
    difference: Difference, runs: int, other_runs: int
) -> tuple[float, int] | None:
    """Return a change (share of the time before) and the runs of each side that detect it.

    The change is the observed one, if it is notable but not significant, otherwise SOUGHT_CHANGE.
    Returns None if the variation between runs is unknown.
    """
    if not difference.tested_ns > 0 or not difference.usual_ns > 0:
        return None
    change = SOUGHT_CHANGE
    if difference.outcome == "same":
        change = max(change, abs(difference.added_ns) / difference.tested_ns)
    freedom = runs + other_runs - 2 or math.inf
    error = difference.usual_ns / difference.tested_ns / usual_quantile(freedom)
    deviation = error / math.sqrt(1 / runs + 1 / other_runs)
    return change, count_repetitions(deviation, change)


def _sum_tested(rows: Sequence[Mapping[str, Any]]) -> tuple[float, float, float]:
    """Return the time before, added and usually added at all tested call sites.

    Usual differences are added up, because the whole run may be faster or slower.
    """
    before = added = usual = 0.0
    for row in rows:
        if not math.isnan(row["mean_elapsed_ns_usual"]) and row["mean_elapsed_ns"] > 0:
            before += row["total_elapsed_ns"]
            added += _effect(row)
            calls = row["total_elapsed_ns"] / row["mean_elapsed_ns"]
            usual += row["mean_elapsed_ns_usual"] * calls
    return before, added, usual


def _changed_rows(rows: Sequence[Mapping[str, Any]], added: float) -> list[Mapping[str, Any]]:
    """Return the rows that differ; added: time added in all if it is unusual, otherwise 0.

    If only the sum of many differences is unusual, these are the rows that differ most.
    """
    changed = [row for row in rows if row["significant"]]
    if not added or any(_effect(row) * added > 0 for row in changed):
        return changed
    tested = [row for row in rows if _effect(row) * added > 0 and row["mean_elapsed_ns_p"] <= 1]
    differing = [row for row in tested if row["mean_elapsed_ns_p"] < DIFFERENT]
    return changed + (differing or sorted(tested, key=lambda row: -abs(_effect(row)))[:1])


def _effect(row: Mapping[str, Any]) -> float:
    """Return the time added at a call site, over as many instances as the first trace has."""
    instances = float(row["total_instances"])
    other_mean_ns = row["other_total_elapsed_ns"] / float(row["other_total_instances"])
    return float(other_mean_ns * instances - row["total_elapsed_ns"])


def _added_time(row: Mapping[str, Any]) -> float:
    return float(row["other_total_elapsed_ns"] - row["total_elapsed_ns"])


def _judge_outcome(effects: list[float]) -> str:
    slower = sum(effect for effect in effects if effect > 0)
    faster = -sum(effect for effect in effects if effect < 0)
    if not slower and not faster:
        return "same"
    if min(slower, faster) >= COMPONENT_SHARE * max(slower, faster):
        return "mixed"
    return "slower" if slower > faster else "faster"


def _make_changed(row: Mapping[str, Any]) -> ChangedCallsite:
    differing = [name for name in MEAN_COLUMNS if row[f"{name}_p"] < DIFFERENT]
    measure = differing[0] if differing else MEAN_COLUMNS[0]
    added, waits = _effect(row), row["other_wait_ns"] - row["wait_ns"]
    waits *= float(row["total_instances"])
    if measure == MEAN_COLUMNS[0]:
        return ChangedCallsite(row, measure, added, bool(added and waits / added >= MAIN_SHARE))
    return ChangedCallsite(row, measure, waits if measure == "wait_ns" else 0.0, None)


@dataclass(frozen=True)
class SiteChange:
    """Time of a call site in a run, mean of the ranks and runs, before and after; in ns.

    before_half_ns, after_half_ns: half the width of the 95 % interval of the mean over runs, NaN
    for a single run. interval_ns: the same of the change. outcome: "changed" (by more than chance,
    as in the verdict), "chance", "untested", or "before" or "after" for a call site of one side.
    """

    row: Mapping[str, Any]
    before_ns: float
    before_half_ns: float
    after_ns: float
    after_half_ns: float
    interval_ns: float
    outcome: str

    @property
    def change_ns(self) -> float:
        """Time added, negative if saved."""
        return self.after_ns - self.before_ns


def measure_site_changes(
    table: pd.DataFrame,
    before: Sequence[Trace],
    after: Sequence[Trace],
    columns: tuple[str, str] = WAITING,
) -> list[SiteChange]:
    """Return the call sites of `compare.compare` for one other group, largest change first.

    columns: WAITING or TIME. Times are shares of a rank: totals over the ranks, divided by them.
    """
    total, mean = columns
    values = [
        (_rank_shares(totals_by_run(runs, total), runs), column)
        for runs, column in ((before, "callsite"), (after, "other_callsite"))
    ]
    changed = {id_of(c.row) for c in judge_difference(table).changed}
    changes = []
    rows: list[Any] = table.to_dict("records")
    for row in rows:
        # A total without a known mean, such as the waiting of a summary, is unknown.
        first, other_times = (
            times_of_site.get(int(row[column]), ABSENT)
            if row[column] < 0 or row[name] >= 0
            else UNKNOWN
            for (times_of_site, column), name in zip(values, (mean, f"other_{mean}"), strict=True)
        )
        scale = _instances(row, total, mean) / max(before[0].ranks, 1)
        is_tested = not math.isnan(row[f"{mean}_p"])
        outcome = "chance" if is_tested else "untested"
        if row["callsite"] < 0 or row["other_callsite"] < 0:
            outcome = "after" if row["callsite"] < 0 else "before"
        elif id_of(row) in changed:
            outcome = "changed"
        changes.append(
            SiteChange(
                row,
                _mean(first), mean_interval(first),
                _mean(other_times), mean_interval(other_times),
                float(row[f"{mean}_interval"]) * scale,
                outcome,
            )
        )  # fmt: skip
    return sorted(changes, key=lambda change: -abs(np.nan_to_num(change.change_ns)))


def id_of(row: Mapping[str, Any]) -> tuple[int, int]:
    """Return the numbers of a call site in both traces."""
    return int(row["callsite"]), int(row["other_callsite"])


def _rank_shares(totals: Mapping[int, Float], runs: Sequence[Trace]) -> dict[int, Float]:
    # The totals of a call site lack the runs in which it is absent.
    ranks = float(np.mean([run.ranks for run in runs]))
    return {callsite: values / max(ranks, 1.0) for callsite, values in totals.items()}


def _instances(row: Mapping[str, Any], total: str, mean: str) -> float:
    """Return the factor between the mean of an instance or call, and the total of a run."""
    return float(row[total]) / float(row[mean]) if row[mean] > 0 else math.nan


def _mean(values: Float) -> float:
    """Return the mean over runs, NaN if the values of all runs are unknown, as in a summary."""
    return float(values.mean()) if len(values) else math.nan
