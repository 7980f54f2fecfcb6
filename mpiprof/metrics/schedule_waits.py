"""Wait dependences of mpiprof's algorithms: which ranks each rank waits for in a schedule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

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
    catalogue_entries = [
        a for a in load_catalogue() if (a.operation, a.name) == (base, variant.name)
    ]
    if (
        group.inter
        or group.root < 0
        or not catalogue_entries
        or max(map(int, map(np.max, passed))) < 0
    ):
        return group
    try:
        link = machine_of_table(machine, "the trace's machine table")
        alpha, beta = link.alpha, link.beta
    except UsageError:
        alpha = beta = 0.0
    numbers = {name: number for number, name in enumerate(dict.fromkeys(nodes))}
    problem = replace(
        make_problem(base, (len(nodes), 0), group.root, *passed),
        nodes=tuple(numbers[name] for name in nodes),
        alpha=alpha,
        beta=beta,
    )
    try:
        return replace(
            group, through=find_dependence(catalogue_entries[0], variant.set_parameters(problem))
        )
    except (MpiprofError, ValueError):  # parameters of another version
        return group
