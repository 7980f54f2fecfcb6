"""Random plans for export, and their choice for a call, computed from the rules alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from mpiprof.collectives.catalogue import applies_to_size, load_catalogue
from mpiprof.collectives.tune.plan import make_entry_rules
from mpiprof.collectives.tune.rules import Rule
from mpiprof.facts.library_algorithms import find_algorithms
from mpiprof.facts.operations import OPERATIONS

Entry = dict[str, Any]


def random_plan(random_: random.Random, library: str, largest: int) -> list[Entry]:
    """Return up to eight entries: mpiprof's, the library's and `native`, in overlapping ranges."""
    return [_entry(random_, library, largest) for _ in range(random_.randint(1, 8))]


def _entry(random_: random.Random, library: str, largest: int) -> Entry:
    operation = random_.choice(
        sorted({algorithm.operation for algorithm in find_algorithms(library)})
    )
    names = [
        a.name for a in load_catalogue() if a.operation == operation and not a.intercommunicator
    ]
    names += [
        f"native:{algorithm.name}"
        for algorithm in find_algorithms(library, operation)
        if algorithm.name.isidentifier()
    ]
    entry: Entry = {"operation": operation, "algorithm": random_.choice([*names, "native"])}
    if entry["algorithm"] == "chain":
        entry["parameters"] = {"block_size": 1 << random_.randint(9, 14)}
    first, last = sorted(random_.randint(1, largest) for _ in range(2))
    entry |= random_.choice([{}, {"size": first}, {"size": {"from": first, "to": last}}])
    if OPERATIONS[operation].sized:
        least, most = sorted(random_.choice([0, 1, 8, 100, 1 << 10, 5000, 1 << 16]) for _ in "12")
        ends = {"from": least, "to": most + 7}
        entry |= random_.choice([{}, {"bytes": ends}, {"bytes": {"from": least}}])
    return entry


def rules_of(entries: Sequence[Entry]) -> list[Rule]:
    """Return the rules of a plan's entries."""
    return [
        rule for i, one in enumerate(entries, 1) for rule in make_entry_rules(f"entry {i}", one)
    ]


def asked_for(rules: Sequence[Rule], operation: str, size: int, count: int) -> Rule | None:
    """Return the first rule that matches a call, or None if the call stays with the library."""
    for rule in rules:
        if rule.operation != operation:
            continue
        if rule.sizes and not any(a <= size <= b for a, b in rule.sizes):
            continue
        if OPERATIONS[operation].sized and not (
            rule.first_byte <= count and (rule.last_byte is None or count <= rule.last_byte)
        ):
            continue
        ours = [a for a in load_catalogue() if (a.operation, a.name) == (operation, rule.algorithm)]
        fits = any(applies_to_size(a, size) for a in ours if not a.intercommunicator)
        return rule if fits or rule.algorithm.startswith("native:") else None
    return None
