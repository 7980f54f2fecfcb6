"""Wait dependences of mpiprof's algorithms: which ranks each rank waits for in a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mpiprof.errors import MpiprofError, UsageError
from mpiprof.metrics.problem_size import make_problem
from mpiprof.metrics.wait_states import Group
from mpiprof.model.catalogue import load_catalogue
from mpiprof.model.dependence import find_dependence
from mpiprof.model.machine import machine_of_table
from mpiprof.model.variant import Variant
from mpiprof.trace.types import Int


def add_dependence(
    group: Group,
    base: str,
    algorithm: str,
    passed: tuple[Int, Int],
    nodes: Sequence[str],
    machine: Mapping[str, Any] | None,
) -> Group:
    """Return the group with the dependence of an mpiprof algorithm; unchanged for other algorithms.

    base: the operation. algorithm: name with parameters. passed: bytes sent and received by row, -1
    if unknown. nodes: node name by row. machine: the table whose link determined block sizes in the
    run; without it the link's times are 0.
    """
    variant = Variant.parse(algorithm)
    wanted = (base, variant.name)
    entries = [entry for entry in load_catalogue() if (entry.operation, entry.name) == wanted]
    if group.inter or group.root < 0 or not entries:
        return group
    if all(values.max() < 0 for values in passed):
        return group
    try:
        link = machine_of_table(machine, "the trace's machine table")
        alpha, beta = link.alpha, link.beta
    except UsageError:
        alpha = beta = 0.0
    numbers = {name: number for number, name in enumerate(dict.fromkeys(nodes))}
    problem = make_problem(base, (len(nodes), 0), group.root, *passed)
    node_of = tuple(numbers[name] for name in nodes)
    problem = replace(problem, nodes=node_of, alpha=alpha, beta=beta)
    try:
        through = find_dependence(entries[0], variant.set_parameters(problem))
        return replace(group, through=through)
    except (MpiprofError, ValueError):  # parameters of another version
        return group
