"""The core's generated facts about operations agree with a list from the MPI standard."""

from __future__ import annotations

import ctypes

import pytest
from support.compilation import of_the_core

from mpiprof.core.generator.collectives import COLLECTIVES

# Values of enum wait_rule in the generated natives.h.
ALL_FOR_ALL, ALL_FOR_ROOT, ROOT_FOR_ALL, RANK_FOR_LOWER, RANK_FOR_SOURCES, UNSPECIFIED = range(6)
REDUCTIONS = {"reduce", "allreduce", "reduce_scatter", "reduce_scatter_block", "scan", "exscan"}
FROM_ALL_TO_ALL = {
    *("barrier", "allgather", "allgatherv", "alltoall", "alltoallv", "alltoallw"),
    *("allreduce", "reduce_scatter", "reduce_scatter_block"),
}
ALL_KNOW_THE_SIZES = REDUCTIONS | {
    *("bcast", "gather", "scatter", "allgather", "allgatherv", "alltoall")
}


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """Compile the table of facts into a separate library."""
    library = tmp_path_factory.mktemp("operation") / "operation.so"
    of_the_core(library, ["base/operation"], "-shared", "-fPIC")
    return ctypes.CDLL(str(library))


def numbers(facts: ctypes.CDLL) -> dict[str, int]:
    """Return the number of each named operation."""
    count = 3 * len(COLLECTIVES)
    names = (ctypes.c_char_p * count).in_dll(facts, "operation_names")
    return {name.decode(): i for i, name in enumerate(names) if name is not None}


def expected(name: str) -> tuple[int, bool, bool]:
    """Return the wait rule, whether operands are combined, and whether all know the sizes."""
    rule = UNSPECIFIED
    if name in FROM_ALL_TO_ALL:
        rule = ALL_FOR_ALL
    elif name in ("bcast", "scatter", "scatterv"):
        rule = ALL_FOR_ROOT
    elif name in ("reduce", "gather", "gatherv"):
        rule = ROOT_FOR_ALL
    elif name in ("scan", "exscan"):
        rule = RANK_FOR_LOWER
    elif name.startswith("neighbor") and not name.endswith("_init"):
        rule = RANK_FOR_SOURCES
    return rule, name in REDUCTIONS, name in ALL_KNOW_THE_SIZES


def test_facts_are_of_blocking_collectives_alone(facts: ctypes.CDLL) -> None:
    """A nonblocking start does not synchronise members, so the history must not count it."""
    found = numbers(facts)
    assert len(found) == 66
    facts.operation_reduces.restype = facts.operation_is_sized.restype = ctypes.c_bool
    for name, i in found.items():
        printed = (
            facts.operation_wait_rule(i),
            facts.operation_reduces(i),
            facts.operation_is_sized(i),
        )
        assert printed == expected(name), name
