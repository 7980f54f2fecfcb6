"""The function that found a finding, its fields, and the segments that the replay shortens.

`report --explain` prints this under each sentence that states a finding.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

from mpiprof.causes.cause import Removal, RemovedSegment, list_removed_segments
from mpiprof.causes.delay_findings import find_delay_findings
from mpiprof.causes.finding import Finding
from mpiprof.causes.findings import find_findings
from mpiprof.interface.format_units import format_count, format_runs, format_time
from mpiprof.interface.terminal_colour import paint
from mpiprof.reports.table import TableColumn, render, wrap_paragraph
from mpiprof.trace import Trace

MAX_SEGMENTS = 10
MAX_ELEMENTS = 5  # of a value in the text
NO_FIELDS = ("evidence", "fact", "removal", "waits_at")  # of a finding; evidence follows


@dataclass(frozen=True)
class Explanation:
    """Origin of a finding.

    file, function: where the finding is made. fields: of its cause, or of a finding without one.
    removed_count, removed_ns: of the segments that the replay shortens. segments: those with most
    removed time.
    """

    file: str
    function: str
    fields: Mapping[str, Any]
    removed_count: int
    removed_ns: int
    segments: Sequence[RemovedSegment]


def explain_finding(trace: Trace, finding: Finding) -> Explanation:
    """Return the origin of a finding."""
    cause, removal = finding.fact, _find_removal(trace, finding)
    if cause is not None:
        make = getattr(sys.modules[type(cause).__module__], cause.finder)
        values = _list_fields(cause)
    else:
        make = find_delay_findings if finding.is_delay else find_findings
        names = [field.name for field in fields(finding) if field.name not in NO_FIELDS]
        values = {name: getattr(finding, name) for name in names} | _list_fields(finding.evidence)
    return Explanation(
        f"{make.__module__.replace('.', '/')}.py",
        make.__name__,
        values,
        len(removal.rank),
        round(removal.total_ns),
        list_removed_segments(trace, removal, MAX_SEGMENTS) if len(removal.rank) else [],
    )


def _list_fields(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in fields(value)}


def _find_removal(trace: Trace, finding: Finding) -> Removal:
    """Return the time that the replay of a finding lacks, without entries if it is unknown."""
    if finding.removal is not None:
        return finding.removal
    facts = trace.derive("facts") if finding.fact is not None else []
    removals = (found.removal for found in facts if found.cause == finding.fact)
    return next(removals, Removal.nothing())


def explanation_as_data(trace: Trace, finding: Finding) -> dict[str, Any]:
    """Return the origin of a finding; of one without a cause, without its fields."""
    explanation = explain_finding(trace, finding)
    data = asdict(explanation)
    return data | {"fields": None if finding.fact is None else asdict(finding.fact)}


def explanation_text(trace: Trace, finding: Finding, indent: int) -> str:
    """Return the origin of a finding as paragraphs and a table."""
    explanation = explain_finding(trace, finding)
    values = [
        f"{name.removesuffix('_ns').replace('_', ' ')}: {_format_value(name, value)}"
        for name, value in explanation.fields.items()
        if not _is_empty(value)
    ]
    origin = f"Found by {explanation.function} in {explanation.file}. {'; '.join(values)}."
    lines = [wrap_paragraph(origin, indent)]
    segments, count = explanation.segments, explanation.removed_count
    if segments:
        most = f"; the {len(segments)} with most time:" if count > len(segments) else ":"
        total = f"{format_count(count)} segment{'s' * (count > 1)}"
        removed = format_time(explanation.removed_ns)
        lines.append(wrap_paragraph(f"The replay lacks {removed} of {total}{most}", indent))
        table = render(
            TableColumn("rank", [str(segment.rank) for segment in segments]),
            TableColumn("begin", [format_time(segment.begin_ns) for segment in segments]),
            TableColumn("length", [format_time(segment.length_ns) for segment in segments]),
            TableColumn("removed", [format_time(segment.removed_ns) for segment in segments]),
            TableColumn(
                "place", [str(segment.place) for segment in segments], left=True, shrink=True
            ),
            indent=" " * indent,
        )
        lines.append(table)
    return paint("\n".join(lines), "quiet")


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | Mapping | Sequence) and not len(value))


def _format_value(name: str, value: Any) -> str:
    """Return a value as text; the name of a time ends in _ns."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        if name.endswith("_ns"):
            return format_time(value)
        return f"{value:.3g}" if isinstance(value, float) else format_count(value)
    if isinstance(value, Mapping):
        known = {key: element for key, element in value.items() if not _is_empty(element)}
        return ", ".join(f"{key} {_format_value(str(key), known[key])}" for key in known)
    if isinstance(value, Sequence) and not isinstance(value, str):
        if name == "ranks":
            return format_runs(list(value))
        more = len(value) - MAX_ELEMENTS
        shown = [_format_element(name, element) for element in value[:MAX_ELEMENTS]]
        return ", ".join(shown) + (f" and {more} more" if more > 0 else "")
    return str(value)


def _format_element(name: str, element: Any) -> str:
    text = _format_value(name, element)
    return f"({text})" if isinstance(element, list | tuple) else text
