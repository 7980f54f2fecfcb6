"""Results of tuning as rows of plain values, for tables and JSON, and as entries of a plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from mpiprof.collectives.catalogue import load_catalogue
from mpiprof.collectives.tune import plan_entries
from mpiprof.collectives.tune.plan_entries import Entry
from mpiprof.collectives.tune.result import DOUBTFUL, MODEL, YES, TuningVerdict, weighted_mean
from mpiprof.collectives.tune.rules import NATIVE
from mpiprof.trace.trace import Trace

Row = dict[str, Any]


def make_row(verdict: TuningVerdict) -> Row:
    """Return one work as plain values; times are ns, NaN if unknown."""
    v, work, result = verdict, verdict.result.work, verdict.result
    means = {t.name: weighted_mean(t.scores, result.weights) for t in result.trials}
    return {
        "callsite": work.callsite,
        "operation": work.operation,
        "place": work.label,
        "call_sites": list(work.sites),
        "size": work.members,
        "bytes": None if work.bytes is None else list(work.bytes),
        "instances": work.instances,
        "elapsed_ns": work.elapsed_ns,
        "recorded": work.algorithm,
        "how": result.method,
        "patterns": int((~np.isnan(result.base_scores)).sum()),
        # Scores of the present and of the best algorithm, and gains per instance.
        "base_ns": v.base_ns,
        "best": v.best,
        "best_ns": v.best_ns,
        "gain_ns": v.gain_ns,
        "gain_low_ns": v.low_ns,
        "gain_high_ns": v.high_ns,
        "saved_ns": v.total_saving(v.gain_ns),  # over all ranks and instances
        "doubt": result.doubt,
        "worth": v.worth,
        "reason": v.reason,
        "note": result.note,
        "candidates": [
            {"name": name, "score_ns": value}
            for name, value in sorted(means.items(), key=lambda pair: (np.isnan(pair[1]), pair[1]))
        ],
    }


def summarise_operations(trace: Trace, verdicts: Sequence[TuningVerdict]) -> list[Row]:
    """Return the time and gain of each operation, most time first (Rabenseifner, Figure 1).

    operation, calls (instances), elapsed_ns and total_wait_ns (over all ranks), saved_ns (expected
    and certain), perhaps_ns (expected but uncertain), candidates (True if there are any).
    """
    operations = {a.operation for a in load_catalogue()}
    rows: dict[str, Row] = {}
    for callsite in trace.callsites.to_dict("records"):
        name = str(callsite["operation"])
        if name not in rows:
            sums = dict.fromkeys(("elapsed_ns", "total_wait_ns", "saved_ns", "perhaps_ns"), 0.0)
            candidates = name in operations and not callsite["started"]
            rows[name] = {"operation": name, "calls": 0, **sums, "candidates": candidates}
        rows[name]["calls"] += int(callsite["instances"])
        rows[name]["elapsed_ns"] += float(callsite["total_elapsed_ns"])
        rows[name]["total_wait_ns"] += float(np.nan_to_num(callsite["total_wait_ns"]))
    for v in verdicts:
        column = {YES: "saved_ns", DOUBTFUL: "perhaps_ns"}.get(v.worth)
        if column is not None:
            rows[v.result.work.operation][column] += v.total_saving(v.gain_ns)
    return sorted(rows.values(), key=lambda r: -r["elapsed_ns"])


def make_plan_entries(
    verdicts: Sequence[TuningVerdict], measured: Mapping[str, Any]
) -> list[Entry]:
    """Return the entries of a plan: worthwhile choices, the largest saving first."""
    chosen = []
    for v in verdicts:
        work, recorded = v.result.work, v.result.work.algorithm
        if v.worth == YES and v.best != NATIVE:
            saving, choice, text = v.total_saving(v.gain_ns), v.best, format_reason(v)
        # A recorded choice other than the library's stays if nothing better is certain.
        elif v.worth != YES and recorded != NATIVE and "+" not in recorded:
            saving, choice = 0.0, recorded
            text = "recorded on it, and nothing certain to be better"
        else:
            continue
        calls = (work.operation, work.members, work.bytes, work.sites)
        chosen.append((saving, plan_entries.make_entry(*calls, choice, text, measured)))
    chosen.sort(key=lambda pair: -pair[0])
    return plan_entries.drop_overlaps([entry for _, entry in chosen])


def format_reason(v: TuningVerdict) -> str:
    """Return the numbers in favour of the best candidate."""
    model = v.result.method == MODEL
    word = "predicted" if model else "measured"
    patterns = int((~np.isnan(v.result.base_scores)).sum())
    text = (
        f"score {word} {_as_us(v.best_ns)} in place of {_as_us(v.base_ns)}: {_as_us(v.gain_ns)} "
        f"saved ({_as_us(v.low_ns)} to {_as_us(v.high_ns)}) an instance, of "
        f"{v.result.work.instances}, over {patterns} recorded arrival patterns"
    )
    if model:
        text += f"; the model is off by a factor of {v.result.doubt:.2g}"
    return text + (f"; {v.result.note}" if v.result.note and not model else "")


def _as_us(ns: float) -> str:
    return f"{ns / 1e3:.4g} us"
