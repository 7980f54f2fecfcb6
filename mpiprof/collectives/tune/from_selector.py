"""Converts the selector's log of a trace (selection.jsonl) to the entries of a plan.

trace/selector_log.py describes the lines: a key, its phases, the trials of each phase, omitted
algorithms, the choices, and the final totals.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from mpiprof.account.problem_size import class_span, size_classes
from mpiprof.collectives.catalogue import find_all
from mpiprof.collectives.tune import plan_entries
from mpiprof.collectives.tune.plan_entries import Entry
from mpiprof.collectives.tune.rules import NATIVE
from mpiprof.errors import TraceError
from mpiprof.facts.operations import OPERATIONS
from mpiprof.trace import selector_log

Line = Mapping[str, Any]


@dataclass
class SelectorRun:
    """All lines about one key."""

    key: Line
    trials: list[Line] = field(default_factory=list)
    choices: list[Line] = field(default_factory=list)
    end: Line | None = None

    @property
    def algorithm(self) -> str:
        """The final algorithm, as far as it is known."""
        if self.end is not None:
            return str(self.end["algorithm"])
        return str(self.choices[-1]["algorithm"]) if self.choices else NATIVE


def read(folder: Path) -> list[SelectorRun]:
    """Return the lines by key; raises TraceError if the trace has no selector log."""
    if not selector_log.exists(folder):
        remedy = "record it with --switch auto, or tune without --found"
        raise TraceError(f"{folder}: its program did not choose for itself: {remedy}")
    runs: dict[str, SelectorRun] = {}
    for line in selector_log.read(folder):
        with suppress(ValueError, KeyError):
            _add(runs, line)  # skip a line without a number or a known key
    return list(runs.values())


def _add(runs: dict[str, SelectorRun], line: Line) -> None:
    kind, key = line["kind"], line["key"]
    if kind == "key":
        numbers = {name: int(line[name]) for name in ("bytes", "size")}
        runs.setdefault(key, SelectorRun({**line, **numbers}))
    elif kind == "trial":
        runs[key].trials.append(line)
    elif kind == "choice":
        runs[key].choices.append(line)
    elif kind == "end":
        totals = ("instances", "probes", "saved_ns")
        runs[key].end = {**line, **{n: int(np.nan_to_num(line[n])) for n in totals}}


def make_entries(runs: list[SelectorRun], measured: Mapping[str, Any]) -> list[Entry]:
    """Return entries for keys that ended on another algorithm than native, best saving first."""
    chosen = [f for f in runs if f.algorithm != NATIVE]
    chosen.sort(key=lambda f: -(f.end or {}).get("saved_ns", 0))
    entries = []
    for f in chosen:
        sites = f.key["places"] if all(f.key["places"]) else ()
        calls = (f.key["operation"], f.key["size"], _key_span(f), sites)
        entries.append(plan_entries.make_entry(*calls, f.algorithm, format_reason(f), measured))
    return plan_entries.drop_overlaps(entries)


def _key_span(f: SelectorRun) -> tuple[int, int] | None:
    operation, name = f.key["operation"], f.algorithm.partition(":")[0]
    between = name in {a.name for a in find_all(operation, intercommunicator=True)}
    # For two groups a plan counts the bytes of both, but the log has only the own group's.
    if not OPERATIONS[operation].sized or between:
        return None
    return class_span(int(size_classes(np.array([f.key["bytes"]], np.int64))[0]))


def _trial_score(trial: Line, unit: str = "") -> str:
    noise = "" if math.isnan(trial["error_ns"]) else f"± {trial['error_ns'] / 1e3:.2g}, "
    return f"{trial['score_ns'] / 1e3:.4g} us ({noise}{trial['instances']:.0f}{unit})"


def format_reason(f: SelectorRun) -> str:
    """Return the numbers in favour of a choice."""
    last = max((int(t["phase"]) for t in f.trials), default=0)
    scores = {str(t["algorithm"]): t for t in f.trials if int(t["phase"]) == last}
    parts = []
    if f.algorithm in scores and NATIVE in scores:
        score = _trial_score(scores[f.algorithm], " instances")
        native = _trial_score(scores[NATIVE])
        parts.append(f"score {score} against {native} of the library's own")
    if f.end is not None:
        parts.append(
            f"{f.end['probes']} of {f.end['instances']} instances probed, "
            f"{f.end['saved_ns'] / 1e6:.3g} ms saved by its own estimate"
        )
    return "; ".join(parts) or "chosen while it ran"
