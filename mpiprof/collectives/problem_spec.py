"""Algorithms by the names that users give, and the problems to show them on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mpiprof.collectives.catalogue import (
    BYTE_PARAMETER,
    RANK_PARAMETER,
    Algorithm,
    load_catalogue,
    parse_parameters,
)
from mpiprof.collectives.distributions import DISTRIBUTIONS
from mpiprof.collectives.machine import DEFAULT, Machine
from mpiprof.collectives.schedule import Problem
from mpiprof.collectives.variant import Variant
from mpiprof.errors import UsageError
from mpiprof.facts.library_algorithms import find_algorithms
from mpiprof.facts.library_table import MPICH, OPENMPI
from mpiprof.facts.operations import OPERATIONS
from mpiprof.interface.nearest_name import suggest_names

DOUBLE_BYTES = 8  # bytes per element of a reduction
# Facts of a catalogue entry; libraries publish no cost, parameters and source.
FACTS = ("operation", "name", "intercommunicator", "restrictions", "cost", "parameters", "source")


@dataclass(frozen=True)
class ProblemSpec:
    """Specification of a problem; `bytes` is the operation's size or a distribution's base."""

    size: int
    remote_size: int = 0
    bytes: int = 65536
    root: int = 0
    distribution: str = "regular"
    nodes: tuple[int, ...] = ()
    machine: Machine = DEFAULT


def assign_nodes(size: int, remote_size: int, per_node: int) -> list[int]:
    """Return the node of each process, with `per_node` on each and no node shared by groups."""
    behind = -(-size // per_node)
    local_nodes = [i // per_node for i in range(size)]
    return local_nodes + [behind + i // per_node for i in range(remote_size)]


def list_operations() -> list[str]:
    """Return the operations that have algorithms, in the catalogue's order."""
    return list(dict.fromkeys(a.operation for a in load_catalogue()))


def list_algorithms(operation: str = "") -> list[Algorithm]:
    """Return an operation's algorithms, or all; raises UsageError naming the nearest operation."""
    order = list_operations()
    if operation and operation not in order:
        raise UsageError(_unknown_name("operation", operation, order))
    chosen = [a for a in load_catalogue() if operation in (a.operation, "")]
    return sorted(chosen, key=lambda a: (order.index(a.operation), a.intercommunicator))


def find_named(operation: str, name: str) -> list[Algorithm]:
    """Return the algorithms of a name, for one group and for two; raises UsageError if none."""
    algorithms = list_algorithms(operation)
    matches = [a for a in algorithms if a.name == name]
    if not matches:
        raise UsageError(
            _unknown_name(f"{operation} algorithm", name, [a.name for a in algorithms])
        )
    return matches


def find_algorithm(operation: str, name: str, *, groups: bool) -> Algorithm:
    """Return one algorithm, for two groups or for one; raises UsageError."""
    fitting = [a for a in find_named(operation, name) if a.intercommunicator == groups]
    if not fitting and groups:
        raise UsageError(f"{operation} {name} does not apply to inter-communicators: leave out -q")
    if not fitting:
        fact = f"{operation} {name} applies only to inter-communicators"
        raise UsageError(f"{fact}: pass the size of the remote group with -q")
    return fitting[0]


def catalogue_row(a: Algorithm) -> dict[str, Any]:
    """Return a catalogue entry as data."""
    row = {name: getattr(a, name) for name in FACTS}
    return row | {"library": None, "number": None, "same_as": []}


def library_rows(operation: str) -> list[dict[str, Any]]:
    """Return the algorithms of an operation in MPI libraries, as data."""
    return [
        dict.fromkeys(FACTS)
        | {
            "operation": algorithm.operation,
            "name": algorithm.name,
            "intercommunicator": False,
            "restrictions": algorithm.restrictions_text,
            "library": algorithm.library,
            "number": algorithm.number,
            "same_as": [word.partition(":")[0] for word in algorithm.catalogue_name.split()],
        }
        for library in (OPENMPI, MPICH)
        for algorithm in find_algorithms(library, operation)
    ]


def make_problem(operation: str, setting: ProblemSpec) -> Problem:
    """Return the problem of an operation for a specification."""
    s = setting
    if not 0 <= s.root < s.size:
        raise UsageError(f"--root {s.root}: ranks range from 0 to {s.size - 1}")
    if s.distribution not in DISTRIBUTIONS:
        raise UsageError(_unknown_name("distribution", s.distribution, DISTRIBUTIONS))
    facts = OPERATIONS[operation]
    if s.distribution != "regular" and not facts.irregular:
        irregular = ", ".join(name for name in list_operations() if OPERATIONS[name].irregular)
        raise UsageError(f"--distribution applies only to {irregular}: {operation} is regular")
    unit = DOUBLE_BYTES if facts.reduces else 1
    counts, remote_counts = (
        tuple(m // unit * unit for m in DISTRIBUTIONS[s.distribution](s.bytes, n)) if n else ()
        for n in (s.size, s.remote_size)
    )
    remote_bytes = s.bytes if s.remote_size else 0
    sizes = (s.size, s.bytes // unit * unit, s.root, s.remote_size, remote_bytes, unit)
    alpha, beta = s.machine.alpha, s.machine.beta
    problem = Problem(*sizes, nodes=s.nodes[: s.size], alpha=alpha, beta=beta)
    if operation == "alltoallv":
        return replace(problem, rows=tuple((m,) * s.size for m in counts))
    if facts.irregular:
        return replace(problem, counts=counts, remote_counts=remote_counts)
    return problem


def select_parameters(a: Algorithm, values: Mapping[str, str | int]) -> dict[str, str | int]:
    """Return the parameters that an algorithm has; UsageError if no algorithm has one of them."""
    parameters = {name for b in list_algorithms(a.operation) for name in parse_parameters(b)}
    for name in values:
        if name not in parameters:
            raise UsageError(_unknown_name(f"parameter of {a.operation}", name, sorted(parameters)))
    return {name: value for name, value in values.items() if name in parse_parameters(a)}


def set_parameters(a: Algorithm, problem: Problem, values: Mapping[str, str | int]) -> Problem:
    """Return a problem with an algorithm's parameters set; raises UsageError for wrong ones."""
    parameters = parse_parameters(a)
    for name, value in values.items():
        if name not in parameters:
            raise UsageError(
                _unknown_name(f"parameter of {a.operation} {a.name}", name, parameters)
            )
        number = int(value) if str(value).isdecimal() and len(str(value)) < 16 else None
        if parameters[name] == RANK_PARAMETER:
            if number is None or number >= problem.size:
                raise UsageError(f"{name}={value}: not a rank from 0 to {problem.size - 1}")
        elif parameters[name] == BYTE_PARAMETER:
            if number is None:
                raise UsageError(f"{name}={value}: not a number of bytes")
        elif value not in parameters[name]:
            raise UsageError(_unknown_name(f"value of {name}", str(value), parameters[name]))
    words = tuple((name, str(value)) for name, value in values.items())
    return Variant(a.name, words).set_parameters(problem)


def _unknown_name(noun: str, name: str, names: Iterable[str]) -> str:
    return f"unknown {noun} {name!r}: {suggest_names(name, names)}"
