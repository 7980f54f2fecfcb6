"""Checks a plan for consistency, and whether it fits its environment.

`run` imports this module, so the module must not import numpy.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path

from mpiprof.collectives.catalogue import Algorithm, applies_to_size, load_catalogue
from mpiprof.collectives.tune.plan import Plan, collect_remarks
from mpiprof.collectives.tune.rules import NATIVE_VARIANT, Provenance, Rule, is_named, library_name
from mpiprof.errors import UsageError
from mpiprof.facts.library_algorithms import FAMILIES, find_algorithms
from mpiprof.interface.nearest_name import suggest_names

MAX_SIZES = 64  # maximum width of a range in which each size is checked
MAX_PROCESSES = 4096


def check_plan(plan: Plan, ranks: int | None, *, strict: bool) -> Plan:
    """Return a plan without its files' unusable entries; strict: raise UsageError instead."""
    remarks: list[str] | None = None if strict else list(plan.remarks)
    usable = []
    for rule in plan.rules:
        problem = find_obstacle(rule, ranks) if rule.file else None
        if problem is None:
            usable.append(rule)
            continue
        with collect_remarks(remarks):
            raise UsageError(f"{rule.source_text}: {problem}")
    for text in find_overlaps(usable):
        if remarks is None:
            raise UsageError(text)
        remarks.append(text)
    return replace(plan, rules=tuple(usable), remarks=tuple(dict.fromkeys(remarks or ())))


def find_obstacle(rule: Rule, ranks: int | None) -> str | None:
    """Return why a rule cannot take effect in a job, or None if it may."""
    if not rule.sizes:
        return None
    sizes = ", ".join(f"{a}" if a == b else f"{a} to {b}" for a, b in rule.sizes)
    candidates = [a for a in load_catalogue() if a.name == rule.algorithm]
    algorithms = [a for a in candidates if rule.operation in (a.operation, None)]
    restricted = algorithms and all(a.restrictions and not a.intercommunicator for a in algorithms)
    if restricted and not any(_may_apply(algorithms, first, last) for first, last in rule.sizes):
        restrictions = algorithms[0].restrictions
        return f"{rule.algorithm} cannot run on {sizes} processes: it requires {restrictions}"
    if ranks is not None and all(first > ranks for first, _ in rule.sizes):
        return f"applies to communicators of {sizes}, but the job has {ranks} ranks"
    return None


def _may_apply(algorithms: Sequence[Algorithm], first: int, last: int) -> bool:
    if last - first >= MAX_SIZES or last > MAX_PROCESSES:
        return True
    return any(applies_to_size(a, size) for size in range(first, last + 1) for a in algorithms)


def find_overlaps(rules: Sequence[Rule]) -> Iterator[str]:
    """Yield a message for each pair of entries with different algorithms for the same calls."""
    reported = set()
    for earlier, later in combinations(rules, 2):
        pair = (earlier.file, earlier.entry, later.file, later.entry)
        if not (earlier.file and later.file) or pair in reported or not _overlap(earlier, later):
            continue
        if (earlier.algorithm, earlier.parameters) != (later.algorithm, later.parameters):
            reported.add(pair)
            entry_text = f"entry {earlier.entry} ({earlier.site or earlier.operation})"
            yield f"{later.source_text}: overlaps with {entry_text}, which takes precedence"


def _overlap(earlier: Rule, later: Rule) -> bool:
    have_operations = None not in (earlier.operation, later.operation)
    if earlier.site != later.site or (have_operations and earlier.operation != later.operation):
        return False
    ends = [r.last_byte if r.last_byte is not None else 1 << 62 for r in (earlier, later)]
    if max(earlier.first_byte, later.first_byte) > min(ends):
        return False
    if not earlier.sizes or not later.sizes:
        return True
    return any(max(a[0], b[0]) <= min(a[1], b[1]) for a in earlier.sizes for b in later.sizes)


# ---- environment of the measurement


def check_provenance(
    plan: Plan, family: str, versions: Sequence[str], host: str
) -> tuple[Plan, list[str]]:
    """Return the plan for use here, and messages on entries that were measured elsewhere."""
    reported: dict[tuple[str, Provenance], list[int]] = {}
    usable = []
    for rule in plan.rules:
        m = rule.measured
        is_foreign = m.mpi and m.mpi not in versions
        if rule.file and (is_foreign or (m.hosts and host not in m.hosts)):
            entries = reported.setdefault((rule.file, m), [])
            if rule.entry not in entries:
                entries.append(rule.entry)
        # Entries with algorithms of another library are dropped.
        if not (is_foreign and NATIVE_VARIANT.fullmatch(rule.algorithm) and family not in m.mpi):
            usable.append(rule)
    texts = []
    for (file, m), entries in reported.items():
        under = f" under {m.mpi}" if m.mpi else ""
        on = f" on {', '.join(m.hosts[:3])}{' ...' if m.hosts[3:] else ''}" if m.hosts else ""
        current = family if m.mpi and m.mpi not in versions else host
        numbers = ", ".join(map(str, entries[:6])) + (" ..." if entries[6:] else "")
        where = f"{file}, {'entry' if len(entries) == 1 else 'entries'} {numbers}"
        texts.append(f"{where}: measured{under}{on}, but this is {current}: run `tune` here")
    return replace(plan, rules=tuple(usable)), texts


def drop_unsupported(plan: Plan, family: str) -> tuple[Plan, list[str]]:
    """Return the plan without rules that a library cannot obey, and a message for each."""
    library = next((key for key, name in FAMILIES.items() if name == family), None)
    supported, texts = [], []
    for rule in plan.rules:
        name = library_name(rule.algorithm)
        algorithms = find_algorithms(library or "")
        possible = [a for a in algorithms if rule.operation in (a.operation, None)]
        can = [a.name for a in possible if a.is_selectable]
        # An unknown library reports itself whether its algorithm can be set.
        if not name or library is None or name in can or name.isdigit():
            supported.append(rule)
            continue
        has = any(a.name == name for a in possible)
        why = "cannot select" if has else "has no"
        request = f"{rule.site or rule.operation}={rule.variant}"
        where = rule.source_text if rule.file else f"--switch {request}"
        texts.append(f"{where}: {family} {why} {name!r}; {suggest_names(name, can)} (left out)")
    return replace(plan, rules=tuple(supported)), texts


# ---- call sites of a Python program


def find_missing_sites(plan: Plan, script: Path) -> Iterator[tuple[Rule, str]]:
    """Yield the rules that name script lines without a call, each with a message."""
    file = str(script.absolute())
    with_site = [rule for rule in plan.rules if rule.site]
    site_rules = [r for r in with_site if is_named(str(r.site).rpartition(":")[0], file)]
    lines = _find_calling_lines(script) if site_rules else None
    if lines is None:
        return
    for rule in site_rules:
        line = int(str(rule.site).rpartition(":")[2])
        if line in lines:
            continue
        near = sorted(sorted(lines, key=lambda n: abs(n - line))[:3])
        nearest = f"; the nearest: {', '.join(map(str, near))}" if near else ""
        yield rule, f"{rule.site}: that line of {script} contains no call{nearest}"


def _find_calling_lines(script: Path) -> set[int] | None:
    try:
        tree = ast.parse(script.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            lines |= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return lines
