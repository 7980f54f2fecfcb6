"""Results of tuning as text: call sites, summary by operation, and the exported settings."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mpiprof.account.run_times import lacks_complete_instances
from mpiprof.interface.format_units import (
    format_count,
    format_runs,
    format_share,
    format_size,
    format_time,
)
from mpiprof.interface.shell_hints import format_command
from mpiprof.reports.table import TableColumn, render, wrap_paragraph
from mpiprof.trace import Trace

Rows = Sequence[Mapping[str, Any]]
MARKS = {"yes": "use it", "doubtful": "measure it"}
WIDTH = 30


def closing_text(
    trace: Trace,
    command: Sequence[str],
    output: Path | None,
    plan: Sequence[Mapping[str, Any]],
    *,
    measure: bool,
) -> str:
    """Return the plan that was written, and the next useful command.

    command: verb, trace and options of this run. measure: measuring the prediction comes next.
    """
    lines = []
    if output is not None:
        count_text = "1 entry" if len(plan) == 1 else f"{len(plan)} entries"
        reason = "" if plan else ", because no change is certain to gain"
        lines.append(f"{output}: {count_text}{reason}")
    if any("reduce" in entry["operation"] for entry in plan):
        lines.append("Floating-point reductions may round differently.")
    verb, name, *options = command
    again = [verb, Path(name), *options]
    if output is not None and plan:
        program = trace.program if trace.program != "?" else "app.py"
        line = format_command("run", "--switch", output, Path(program), ranks=trace.ranks)
    elif measure:
        line = format_command(*again, "--replay", "-o", "plan.json", ranks=trace.ranks)
        line += "   (measure the prediction)"
    elif plan:
        line = format_command(*again, "-o", "plan.json")
    else:
        line = format_command("report", Path(name)) + "   (which ranks are late)"
    return "\n".join([*lines, f"next: {line}"])


def works_table(rows: Rows, top: int) -> str:
    """Return the table of the first `top` tuning tasks, with the meaning of its words."""
    listed = rows[:top]
    sizes = [format_size(r["bytes"][1]) if r["bytes"] else "–" for r in listed]
    table = render(
        TableColumn("operation", [r["operation"] for r in listed], left=True),
        TableColumn("call site", [r["place"] for r in listed], left=True, shrink=True),
        TableColumn("instances", [format_count(r["instances"]) for r in listed], drop=2),
        TableColumn("ranks", [str(r["size"]) for r in listed], drop=3),
        TableColumn("bytes", sizes, drop=1),
        TableColumn("now", [format_time(r["base_ns"]) for r in listed], drop=-1),
        TableColumn("best", [r["best"] or "–" for r in listed], left=True, drop=-3),
        TableColumn("then", [format_time(r["best_ns"]) for r in listed]),
        TableColumn("saves", [_format_range(r) for r in listed], left=True, drop=-2),
        TableColumn("", [MARKS.get(r["worth"], "leave it") for r in listed], left=True, drop=-4),
    )
    limit_note = f", the first {top} of {len(rows)}" if len(rows) > top else ""
    how = {r["how"] for r in rows}
    head = "measured" if how == {"replay"} else "predicted"
    text = f"Call sites by time{limit_note}: what another algorithm is {head} to save\n{table}\n"
    text += wrap_paragraph(
        "now, then: mean time of a rank in the operation beyond what waiting for late ranks "
        "takes. saves: an instance, 95 % interval."
    )
    reasons = [r for r in listed if r["worth"] != "yes" and r["reason"]]
    lines = [f"  {r['operation']} at {r['place']}: {r['reason']}" for r in reasons]
    return text + ("\n\nWhy not\n" + "\n".join(dict.fromkeys(lines)) if lines else "")


def summary_table(rows: Rows) -> str:
    """Return the possible gain of each operation, as a table with bars."""
    total = sum(r["elapsed_ns"] for r in rows) or 1.0
    saved, perhaps = (sum(r[name] for r in rows) for name in ("saved_ns", "perhaps_ns"))
    longest_ns = max((r["elapsed_ns"] for r in rows), default=0.0) or 1.0
    waiting = [format_share(r["total_wait_ns"] / (r["elapsed_ns"] or 1.0)) for r in rows]
    table = render(
        TableColumn("operation", [r["operation"] for r in rows], left=True),
        TableColumn("count", [format_count(r["calls"]) for r in rows]),
        TableColumn("time", [format_time(r["elapsed_ns"]) for r in rows]),
        TableColumn("of all", [format_share(r["elapsed_ns"] / total) for r in rows]),
        TableColumn("waiting", waiting),
        TableColumn("less", [_share_cell(r, "saved_ns") for r in rows]),
        TableColumn("perhaps", [_share_cell(r, "perhaps_ns") for r in rows]),
        TableColumn("", [_time_bar(r, longest_ns) for r in rows], left=True),
    )
    gain = f"{format_share(saved / total)} less time in collectives"
    text = f"With the best algorithm at each call site {gain} ({format_time(saved)} over all ranks)"
    if perhaps:
        text += f", and perhaps {format_share(perhaps / total)} more, which only measuring can tell"
    legend = "  #: stays, of it -: waiting for late ranks; +: perhaps saved; .: saved"
    head = f"What the program could gain, by operation\n{table}\n{legend}"
    return f"{head}\n\n{wrap_paragraph(f'{text}.', 0)}"


def _share_cell(r: Mapping[str, Any], name: str) -> str:
    if not r["candidates"]:
        return "–"
    return format_share(r[name] / (r["elapsed_ns"] or 1.0)) if r[name] else "0 %"


def _time_bar(r: Mapping[str, Any], longest_ns: float) -> str:
    remaining = whole = round(WIDTH * float(r["elapsed_ns"]) / longest_ns)
    parts = []
    for name in ("total_wait_ns", "saved_ns", "perhaps_ns"):
        parts.append(min(round(WIDTH * float(r[name]) / longest_ns), remaining))
        remaining -= parts[-1]
    waiting, saved, perhaps = parts
    busy = whole - sum(parts)
    return "#" * busy + "-" * waiting + "+" * perhaps + "." * saved


def _format_range(r: Mapping[str, Any]) -> str:
    low, high = r["gain_low_ns"], r["gain_high_ns"]
    if r["gain_ns"] != r["gain_ns"]:
        return "–"
    if low in (float("inf"), float("-inf")):
        return f"{format_time(r['gain_ns'])}, no interval"
    return f"{format_time(r['gain_ns'])} ({format_time(low)} to {format_time(high)})"


def nothing_to_tune(trace: Trace) -> str:
    """Return why there is nothing to tune."""
    if lacks_complete_instances(trace):
        return "No call was recorded of all its ranks, so that none can be replayed."
    return "No blocking collective with another algorithm was recorded."


def export_text(handed: Mapping[str, Any]) -> str:
    """Return the export as paragraphs; `handed` is of export_rules/targets.py."""
    path, parts = handed["path"], []
    if handed["handed_over"]:
        lines = [wrap_paragraph(_rule_line(row), 2, 4) for row in handed["handed_over"]]
        parts.append("\n".join([f"{path}: the library runs these by itself", *lines]))
    else:
        parts.append(f"Nothing can be handed over, and {path} is not written.")
    if handed["refused"]:
        lines = [wrap_paragraph(_refusal_line(row), 2, 4) for row in handed["refused"]]
        parts.append("\n".join(["Could not be handed over, so that it stays as it is", *lines]))
    if handed["handed_over"]:
        lines = [f"  export {n}={shlex.quote(v)}" for n, v in handed["environment"].items()]
        parts.append("\n".join(["Set for the job, without mpiprof", *lines]))
        parts += [wrap_paragraph(note, 0) for note in handed["notes"]]
        parts.append(wrap_paragraph(f"To check: {handed['check']}", 0))
    return "\n\n".join(parts)


def _rule_line(row: Mapping[str, Any]) -> str:
    text = f"{row['operation']} on {format_runs(row['sizes'])} processes"
    if row["bytes"] is not None:
        first, last = row["bytes"]
        if last is not None:
            text += f", {format_size(first)} to {format_size(last)}"
        elif first:
            text += f", {format_size(first)} and more"
    text += f": {row['algorithm']}"
    if row["number"] is not None:
        text += f" ({row['number']})"
    if row["segment"]:
        text += f" in blocks of {format_size(row['segment'])}"
    return text + (f"; {row['differs']}" if row["differs"] else "")


def _refusal_line(row: Mapping[str, Any]) -> str:
    on = f" on {format_runs(row['sizes'])} processes" if row["sizes"] else ""
    return f"{row['where']}: {row['what']}{on}: {row['why']}"
