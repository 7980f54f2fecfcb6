"""The scaling of a program over numbers of ranks, as text and as JSON data."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from mpiprof.account.efficiencies import Scaling
from mpiprof.interface.format_units import capitalise, format_count, format_percent, format_time
from mpiprof.reports import json
from mpiprof.reports.efficiency_table import COLUMNS, efficiency_columns
from mpiprof.reports.table import TableColumn, render, wrap_paragraph
from mpiprof.reports.words import captions
from mpiprof.trace import Trace

COMPUTATION_LEGEND = (
    "Speed-up and computation are relative to the smallest run; computation: its useful time of "
    "all ranks, over that of this run"
)


def scaling_sentences(scaling: Scaling) -> str:
    """Return the speed-up of the largest run, and the factor that loses most."""
    first, last = scaling.table.iloc[0], scaling.table.iloc[-1]
    ranks = f"From {int(first['ranks'])} to {int(last['ranks'])} ranks"
    speedup, ideal = (_format_multiple(last[name]) for name in ("speedup", "ideal_speedup"))
    if scaling.is_weak:
        text = f"{ranks} the work grows, and is done {speedup} times as fast"
    else:
        text = f"{ranks} the run is {speedup} times as fast"
    text += f" (perfect scaling: {ideal} times)."
    if math.isnan(last["parallel"] + first["parallel"]):
        return f"{text} The efficiencies of a run are not known, so the cause is not known."
    if not scaling.factor:
        return f"{text} No factor loses 2 % or more."
    names = {**COLUMNS, "communication": "communication", "computation": "computation"}
    before, after = format_percent(scaling.before), format_percent(scaling.after)
    name = capitalise(names[scaling.factor])
    return f"{text} {name} loses most: {after} instead of {before}."


def scaling_text(scaling: Scaling) -> str:
    """Return the sentences, the table by number of ranks, and its legend."""
    rows: list[dict[Any, Any]] = scaling.table.to_dict("records")
    columns = [
        TableColumn("ranks", [format_count(row["ranks"]) for row in rows]),
        TableColumn("run time", [format_time(row["run_ns"]) for row in rows]),
        TableColumn("speed-up", [_format_multiple(row["speedup"]) for row in rows]),
        TableColumn("perfect", [_format_multiple(row["ideal_speedup"]) for row in rows], drop=1),
        *efficiency_columns(rows),
        TableColumn("computation", [format_percent(row["computation"]) for row in rows]),
    ]
    if any(row["runs"] > 1 for row in rows):
        columns.insert(1, TableColumn("runs", [format_count(row["runs"]) for row in rows]))
    work = ", for as much work per rank." if scaling.is_weak else "."
    legend = f"{captions.EFFICIENCY_LEGEND} {COMPUTATION_LEGEND}{work}"
    parts = [wrap_paragraph(scaling_sentences(scaling), 0), render(*columns)]
    return "\n\n".join([*parts, wrap_paragraph(legend)])


def scaling_data(scaling: Scaling, traces: Sequence[Trace]) -> dict[str, Any]:
    """Return the scaling as data."""
    return {
        "version": json.VERSION,
        "text": scaling_sentences(scaling),
        "scaling": "weak" if scaling.is_weak else "strong",
        "factor": scaling.factor or None,
        "before": json.plain_number(scaling.before),
        "after": json.plain_number(scaling.after),
        "rows": json.table_as_data(scaling.table),
        "traces": [json.run_as_data(trace) for trace in traces],
    }


def _format_multiple(value: float) -> str:
    return f"{value:.3g}"
