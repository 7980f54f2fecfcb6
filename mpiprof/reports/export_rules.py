"""The exported settings of an MPI library, and the settings that could not be exported, as text."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

from mpiprof.interface.format_units import format_runs, format_size
from mpiprof.reports.table import wrap_paragraph


def export_text(handed: Mapping[str, Any]) -> str:
    """Return the export as paragraphs; `handed` comes from tune/export_rules/targets.py."""
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
    found = f"{row['operation']} on {format_runs(row['sizes'])} processes"
    if row["bytes"] is not None:
        first, last = row["bytes"]
        if last is not None:
            found += f", {format_size(first)} to {format_size(last)}"
        elif first:
            found += f", {format_size(first)} and more"
    found += f": {row['algorithm']}"
    if row["number"] is not None:
        found += f" ({row['number']})"
    if row["segment"]:
        found += f" in blocks of {format_size(row['segment'])}"
    return found + (f"; {row['differs']}" if row["differs"] else "")


def _refusal_line(row: Mapping[str, Any]) -> str:
    on = f" on {format_runs(row['sizes'])} processes" if row["sizes"] else ""
    return f"{row['where']}: {row['what']}{on}: {row['why']}"
