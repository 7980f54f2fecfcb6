"""The verdict on a comparison: which runs are slower, where, by how much, and how sure that is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from mpiprof.analysis.changes import LEVEL, MEANS

MOSTLY = 0.5  # of what was added or saved: then it is waiting, or it is not
MUCH = 0.1  # of the time in collectives: who could not be tested may differ by less
BESIDE = 0.25  # of the larger effect: what is smaller and the other way is not worth a word


@dataclass(frozen=True)
class Changed:
    """A call site that differs by more than chance.

    row: of the table, by column; measure: of MEANS, the first that differs; effect_ns: what is
    added (negative: saved) for all ranks together over as many instances as the first has, 0 where
    only the spread of the arrivals differs; waiting: whether most of it is waiting, None where the
    time in the call does not differ.
    """

    row: Mapping[str, Any]
    measure: str
    effect_ns: float
    waiting: bool | None


@dataclass(frozen=True)
class Difference:
    """What changed between a trace and another one, or between some runs and others.

    outcome: "slower", "faster", "mixed", "same" (times differ by no more than chance), "unknown"
    (nothing could be tested, or not what differs most); effect_ns: the sum over what differs;
    before_ns and after_ns: time of all ranks in collectives; changed: the largest effect first;
    compared, tested, only: call sites in both, those of them with enough instances, and those in
    one alone; certainty: 0 to 1, of the first of `changed`, over all tests of the table; untested:
    the row of what differs so much that the rest says nothing, and was called too seldom.
    """

    outcome: str
    effect_ns: float
    before_ns: float
    after_ns: float
    changed: tuple[Changed, ...]
    compared: int
    tested: int
    only: int
    certainty: float
    untested: Mapping[str, Any] | None = None

    @property
    def worst(self) -> Changed | None:
        """What became slower most."""
        return next((one for one in self.changed if one.effect_ns > 0), None)

    @property
    def best(self) -> Changed | None:
        """What became faster most."""
        return next((one for one in self.changed if one.effect_ns < 0), None)


def difference(table: pd.DataFrame) -> Difference:
    """Conclude from the rows of `changes.compare` that belong to one other trace."""
    rows: list[dict[str, Any]] = [
        {str(name): value for name, value in row.items()} for row in table.to_dict("records")
    ]
    both = [row for row in rows if row["callsite"] >= 0 and row["other_callsite"] >= 0]
    p = np.array([[row[f"{name}_p"] for name in MEANS] for row in both], np.float64)
    p = p.reshape(len(both), len(MEANS))
    changed = sorted(
        (_changed(row) for row in both if row["significant"]), key=lambda one: -abs(one.effect_ns)
    )
    tests = int((~np.isnan(p)).sum())
    outcome = _outcome([one.effect_ns for one in changed]) if changed or tests else "unknown"
    seldom = [row for row, of in zip(both, p, strict=True) if np.isnan(of).all()]
    untested = max(seldom, key=lambda row: abs(_added(row)), default=None)
    before = float(table["total_elapsed_ns"].sum())
    little = outcome != "same" or untested is None or abs(_added(untested)) < MUCH * before
    if not little:
        outcome = "unknown"
    least = min((changed[0].row[f"{name}_p"] for name in MEANS), default=1.0) if changed else 1.0
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
        None if little else untested,
    )


def _added(row: Mapping[str, Any]) -> float:
    return float(row["other_total_elapsed_ns"] - row["total_elapsed_ns"])


def _outcome(effects: list[float]) -> str:
    slower = sum(effect for effect in effects if effect > 0)
    faster = -sum(effect for effect in effects if effect < 0)
    if not slower and not faster:
        return "same"
    if min(slower, faster) >= BESIDE * max(slower, faster):
        return "mixed"
    return "slower" if slower > faster else "faster"


def _changed(row: Mapping[str, Any]) -> Changed:
    differing = [name for name in MEANS if row[f"{name}_p"] < LEVEL]
    measure = differing[0] if differing else MEANS[0]
    instances = float(row["total_instances"])
    each = row["total_elapsed_ns"] / instances
    added = row["other_total_elapsed_ns"] / float(row["other_total_instances"]) - each
    waits = row["other_wait_ns"] - row["wait_ns"]
    if measure == MEANS[0]:
        return Changed(row, measure, added * instances, bool(added and waits / added >= MOSTLY))
    return Changed(row, measure, waits * instances if measure == "wait_ns" else 0.0, None)
