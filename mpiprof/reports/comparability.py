"""Comparability of runs: they must be of one program, on the same number of ranks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mpiprof.diagnosis.compare_verdict import INCOMPARABLE, Difference
from mpiprof.interface.format_units import format_count
from mpiprof.trace import Trace


def incomparable_sentence(
    difference: Difference, before: Sequence[Trace], after: Sequence[Trace], name: str = "B"
) -> str:
    """Return why runs A and other runs cannot be compared, or "" if they can be compared.

    A renamed program has call sites in common with the program before. Call sites that are
    addresses change with each build, so they do not show a different program.
    """
    if not before or not after:
        return ""
    programs, ranks = ([_join(names) for names in facts] for facts in _list_facts(before, after))
    if programs[0] != programs[1] and not difference.shared:
        if ranks[0] == ranks[1]:
            return _state(name, f"A is {programs[0]}, {name} is {programs[1]}")
        first, second = (f"{a} on {b} ranks" for a, b in zip(programs, ranks, strict=True))
        return _state(name, f"A is {first}, {name} is {second}")
    if len({trace.ranks for trace in (*before, *after)}) > 1:
        fact = f"A has {ranks[0]} ranks, {name} has {ranks[1]}"
        return f"{_state(name, fact)} `compare --scaling` compares numbers of ranks."
    if not difference.shared and all(_has_source_lines(runs[0]) for runs in (before, after)):
        return _state(name, "they have no call site in common")
    return ""


def drop_changes(difference: Difference) -> Difference:
    """Return the difference of runs that cannot be compared, which states no change."""
    none = dict.fromkeys(("effect_ns", "certainty", "tested_ns", "added_ns", "usual_ns"), 0.0)
    changes: dict[str, Any] = {"outcome": INCOMPARABLE, "changed": (), "untested": None, **none}
    return replace(difference, **changes)


def _state(name: str, fact: str) -> str:
    return f"A and {name} are not comparable: {fact}."


def _list_facts(*sides: Sequence[Trace]) -> tuple[list[list[str]], list[list[str]]]:
    """Return the programs and the numbers of ranks of each side."""
    programs = [sorted({trace.program for trace in side}) for side in sides]
    ranks = [list(map(format_count, sorted({trace.ranks for trace in side}))) for side in sides]
    return programs, ranks


def _join(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else names[0]


def _has_source_lines(trace: Trace) -> bool:
    """Return whether the trace has a call site of collectives with a source line."""
    table = trace.callsites[trace.callsites["operation"] != "finalize"]
    sites: list[list[Mapping[str, Any]]] = table["sites"].tolist()
    return any(site["line"] for places in sites for site in places)
