"""Verdict on a comparison: which runs are slower, where, by how much, and how certainly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.diagnosis.compare import MEAN_COLUMNS, SIGNIFICANCE_LEVEL

MAIN_SHARE = 0.5  # minimum share of the change for it to count as waiting
NOTABLE_SHARE = 0.1  # minimum untested change, of the time in collectives, to prevent a verdict
COMPONENT_SHARE = 0.25  # minimum ratio of opposite effects for a mixed verdict


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
      was possible, or not for the largest difference).
    - effect_ns: sum of the significant effects. before_ns, after_ns: time of all ranks in
      collectives.
    - changed: call sites that differ, the largest effect first.
    - compared, tested, only: numbers of call sites in both, with enough instances, and in one
      alone.
    - certainty: 0 to 1, of the first of `changed`, over all tests of the table.
    - untested: row of a call site with too few calls, whose difference makes the rest irrelevant.
    """

    outcome: str
    effect_ns: float
    before_ns: float
    after_ns: float
    changed: tuple[ChangedCallsite, ...]
    compared: int
    tested: int
    only: int
    certainty: float
    untested: Mapping[str, Any] | None = None

    @property
    def worst(self) -> ChangedCallsite | None:
        """The call site with the largest slowdown, or None."""
        return next((one for one in self.changed if one.effect_ns > 0), None)

    @property
    def best(self) -> ChangedCallsite | None:
        """The call site with the largest speed-up, or None."""
        return next((one for one in self.changed if one.effect_ns < 0), None)


def judge_difference(table: pd.DataFrame) -> Difference:
    """Return the verdict on the rows of `compare.compare` for one other trace."""
    rows: list[dict[str, Any]] = [
        {str(name): value for name, value in row.items()} for row in table.to_dict("records")
    ]
    both = [row for row in rows if row["callsite"] >= 0 and row["other_callsite"] >= 0]
    p = np.array([[row[f"{name}_p"] for name in MEAN_COLUMNS] for row in both], np.float64)
    p = p.reshape(len(both), len(MEAN_COLUMNS))
    changed = sorted(
        (_make_changed(row) for row in both if row["significant"]),
        key=lambda one: -abs(one.effect_ns),
    )
    tests = int((~np.isnan(p)).sum())
    outcome = _judge_outcome([one.effect_ns for one in changed]) if changed or tests else "unknown"
    seldom = [row for row, of in zip(both, p, strict=True) if np.isnan(of).all()]
    untested = max(seldom, key=lambda row: abs(_added_time(row)), default=None)
    before = float(table["total_elapsed_ns"].sum())
    notable = untested is not None and abs(_added_time(untested)) >= NOTABLE_SHARE * before
    if outcome == "same" and notable:
        outcome = "unknown"
    else:
        untested = None
    least = min(changed[0].row[f"{name}_p"] for name in MEAN_COLUMNS) if changed else 1.0
    return Difference(
        outcome,
        sum(one.effect_ns for one in changed),
        before,
        float(table["other_total_elapsed_ns"].sum()),
        tuple(changed),
        len(both),
        int((~np.isnan(p)).any(1).sum()),
        len(rows) - len(both),
        max(1.0 - least * tests, 0.0) if changed else 0.0,
        untested,
    )


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
    differing = [name for name in MEAN_COLUMNS if row[f"{name}_p"] < SIGNIFICANCE_LEVEL]
    measure = differing[0] if differing else MEAN_COLUMNS[0]
    instances = float(row["total_instances"])
    each = row["total_elapsed_ns"] / instances
    added = row["other_total_elapsed_ns"] / float(row["other_total_instances"]) - each
    waits = row["other_wait_ns"] - row["wait_ns"]
    if measure == MEAN_COLUMNS[0]:
        return ChangedCallsite(
            row, measure, added * instances, bool(added and waits / added >= MAIN_SHARE)
        )
    return ChangedCallsite(row, measure, waits * instances if measure == "wait_ns" else 0.0, None)
