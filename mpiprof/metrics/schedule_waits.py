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

Link = tuple[float, float]  # time of an empty message (ns) and per byte (ns)


def find_link(table: Mapping[str, Any] | None) -> Link:
    """Return the link that determined block sizes in the run; zeros if none was measured."""
    try:
        machine = machine_of_table(table, "the trace's machine table")
    except UsageError:
        return 0.0, 0.0
    return machine.alpha, machine.beta


def add_dependence(
    group: Group,
    base: str,
    algorithm: str,
    passed: tuple[Int, Int],
    nodes: Sequence[str],
    link: Link,
) -> Group:
    """Return the group with the dependence of an mpiprof algorithm; unchanged for other algorithms.

    base: the operation. algorithm: name with parameters. passed: bytes sent and received by row, -1
    if unknown. nodes: node name by row.
    """
    variant = Variant.parse(algorithm)
    known = [a for a in load_catalogue() if (a.operation, a.name) == (base, variant.name)]
    if group.inter or group.root < 0 or not known or max(map(int, map(np.max, passed))) < 0:
        return group
    place = {name: number for number, name in enumerate(dict.fromkeys(nodes))}
    alpha, beta = link
    made = replace(
        make_problem(base, (len(nodes), 0), group.root, *passed),
        nodes=tuple(place[name] for name in nodes),
        alpha=alpha,
        beta=beta,
    )
    try:
        return replace(group, through=find_dependence(known[0], variant.set_parameters(made)))
    except (MpiprofError, ValueError):  # parameters of another version
        return group
