"""Candidates and choices of `--switch auto` and `robust` for each key, as data and as text."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from mpiprof.facts.operations import ROBUST
from mpiprof.interface.format_units import format_count, format_size, format_time
from mpiprof.interface.shell_hints import format_command
from mpiprof.reports.json import plain_number
from mpiprof.reports.table import TableColumn, render, wrap_paragraph
from mpiprof.reports.words import captions
from mpiprof.trace import Trace, selector_log

Rows = list[dict[str, Any]]
NATIVE = "native"


def list_keys(trace: Trace) -> Rows:
    """Return the keys (groups of instances that share a choice), most time saved first.

    Columns: key, operation, communicator (identity), bytes, root, size, mode, sites (texts),
    algorithm (the final choice), instances, probes, saved_ns, phases. `saved_ns` is per rank,
    against the library's algorithm, by the selector's estimate. Each phase has: phase, instance
    (its first, counted from 1), why, imbalance_ns, score_ns, and its trials, omitted algorithms
    and choices as in trace/selector_log.py. Unknown values are None.
    """
    tables = trace.selection
    of = {kind: _group_by_key(table) for kind, table in tables.items()}
    keys: Rows = []
    for key, lines in of["key"].items():
        known = {kind: rows.get(key, []) for kind, rows in of.items()}
        choices, ends = known["choice"], known["end"]
        end = ends[-1] if ends else {}
        last = end or (choices[-1] if choices else {})
        row = {"key": key, **lines[0], "algorithm": last.get("algorithm", NATIVE)}
        row |= {name: end.get(name) for name in ("instances", "probes", "saved_ns")}
        row["phases"] = _make_phases(known)
        keys.append(row)
    return sorted(keys, key=lambda row: -(row["saved_ns"] or 0))


def _group_by_key(table: pd.DataFrame) -> dict[str, Rows]:
    """Return the rows of each key without the key column; unknown values are None."""
    rows_by_key: dict[str, Rows] = {}
    for line in table.to_dict("records"):
        row = {str(n): v if isinstance(v, str | list) else plain_number(v) for n, v in line.items()}
        rows_by_key.setdefault(str(row.pop("key")), []).append(row)
    return rows_by_key


def _make_phases(known: dict[str, Rows]) -> Rows:
    row_by_phase = {row["phase"]: row for row in known["phase"]}
    empty = dict.fromkeys(("instance", "why", "imbalance_ns", "score_ns"))
    parts = {"trials": known["trial"], "omitted": known["omitted"], "choices": known["choice"]}
    numbers = sorted({row["phase"] for rows in (known["phase"], *parts.values()) for row in rows})
    return [
        {"phase": number}
        | (row_by_phase.get(number) or empty)
        | {name: _rows_of_phase(rows, number) for name, rows in parts.items()}
        for number in numbers
    ]


def _rows_of_phase(rows: Rows, phase: int) -> Rows:
    return [{n: v for n, v in row.items() if n != "phase"} for row in rows if row["phase"] == phase]


def section(trace: Trace, top: int, trace_name: Sequence[Path]) -> str:
    """Return the candidates and choices of the first `top` keys, or "" without a selector."""
    keys = list_keys(trace)
    if not keys:
        return wrap_paragraph(NOTHING, 2) if selector_log.exists(trace.path) else ""
    parts = [_key_text(number, row) for number, row in enumerate(keys[:top], 1)]
    if len(keys) > top:
        parts.append(f"  and {len(keys) - top} more (see --json)")
    robust = any(row["mode"] == ROBUST for row in keys)
    parts.append(
        wrap_paragraph(captions.ROBUST_SELECTOR_LEGEND if robust else captions.SELECTOR_LEGEND)
    )
    if any(row["algorithm"] != NATIVE for row in keys):
        line = format_command("tune", *trace_name, "--found", "-o", "plan.json")
        parts.append(f"  as a plan: {line}")
    return "\n".join(parts)


def _key_text(number: int, row: dict[str, Any]) -> str:
    location = ", ".join(row["sites"][:2]) or "an unknown place"
    location += f" (+{len(row['sites']) - 2})" if len(row["sites"]) > 2 else ""
    of = f" of {format_size(row['bytes'])}" if row["bytes"] else ""
    on = f" on {row['size']} ranks" if row["size"] else ""
    head = f"{number}. {row['operation']}{of} at {location}{on}: {row['algorithm']}."
    if row["instances"] is not None:
        instances, probes = format_count(row["instances"]), format_count(row["probes"] or 0)
        head += f" {instances} instances, {probes} of them probes"
        if row["saved_ns"]:
            saved = "saved" if row["saved_ns"] > 0 else "lost"
            head += f"; {saved} {format_time(abs(row['saved_ns']))} a rank against native"
            head += ", by its own estimate"
        head += "."
    lines = [wrap_paragraph(head, 2, 5)]
    lines += [wrap_paragraph(line, 5, 7) for phase in row["phases"] for line in _phase_text(phase)]
    if omitted := _omitted_text(row["phases"]):
        lines.append(wrap_paragraph(omitted, 5, 7))
    table = _trial_table(row["phases"])
    return "\n".join([*lines, table] if table else lines)


def _phase_text(phase: dict[str, Any]) -> Iterable[str]:
    head = f"phase {phase['phase']}"
    if phase["instance"] is not None:
        head += f" from instance {phase['instance']}"
        head += "" if phase["why"] == "start" else f", as the {phase['why']} changed"
        if phase["imbalance_ns"]:
            spread = format_time(phase["imbalance_ns"])
            head += f" (the last process comes {spread} after the first)"
    for choice in phase["choices"]:
        yield f"{head}; {choice['algorithm']} from instance {choice['instance']}: {choice['why']}"
    if not phase["choices"]:
        yield f"{head}; nothing was chosen before the end"


def _omitted_text(phases: Rows) -> str:
    """Return the algorithms that did not run in the last phase, with the reasons, or ""."""
    omitted: Rows = phases[-1]["omitted"] if phases else []
    by_reason: dict[str, list[str]] = {}
    for row in omitted:
        why = row["why"]
        if row["excess"]:
            why += f": half of its prediction is {row['excess']:.3g} times the best time"
        by_reason.setdefault(why, []).append(row["algorithm"])
    texts = [f"{', '.join(names)} ({why})" for why, names in by_reason.items()]
    return f"not tried: {'; '.join(texts)}" if texts else ""


def _trial_table(phases: Rows) -> str:
    rows = [(phase["phase"], trial) for phase in phases for trial in phase["trials"]]
    if not rows:
        return ""

    def times(name: str) -> list[str]:
        return [format_time(trial[name] or math.nan) for _, trial in rows]

    return render(
        TableColumn("phase", [str(phase) for phase, _ in rows]),
        TableColumn("tried", [trial["algorithm"] for _, trial in rows], left=True, shrink=True),
        TableColumn("instances", [format_count(trial["instances"]) for _, trial in rows]),
        TableColumn("score", times("score_ns")),
        TableColumn("±", times("error_ns")),
        TableColumn("predicted", times("predicted_ns"), drop=1),
        indent="       ",
    )


def choices_line(trace: Trace) -> str:
    """Return the current choice of the first keys in one line, or "" without a selector."""
    keys = list_keys(trace)[:MAX_CHOICES]
    choices = []
    for row in keys:
        location = row["sites"][0] if row["sites"] else "an unknown place"
        decided = any(phase["choices"] for phase in row["phases"])
        state = row["algorithm"] if decided else "not yet chosen"
        choices.append(f"{row['operation']} at {location}: {state}")
    return f"Chosen by --switch {keys[0]['mode']}: {'; '.join(choices)}." if keys else ""


MAX_CHOICES = 3
NOTHING = "Nothing was worth probing: too few calls, or too little time in them."
