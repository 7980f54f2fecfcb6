"""The algorithm that a library selected for a call, from the library's settings."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.mpis import Mpi
from support.synthetic import Synthetic

import mpiprof
from mpiprof.collectives.library_choice import (
    REPLACEMENTS,
    LibraryCall,
    LibrarySettings,
    identify_library,
    predict_choice,
)
from mpiprof.collectives.tune.export_rules.mpich import (
    MEASURES,
    TreeCall,
    find_leaf,
    read_compiled_tree,
)
from mpiprof.facts.library_algorithms import find_algorithms
from mpiprof.facts.library_table import INTEL, MPICH, OPENMPI

MPICH_5 = "MPICH Version:      5.0.2"
OPENMPI_5 = "Open MPI v5.0.11, package: Open MPI user@localhost Distribution"
PLAIN = {
    "coll_tuned_use_dynamic_rules": 1,
    "coll_tuned_priority": 30,
    "coll_han_priority": 35,
    "coll_self_priority": 75,
    "coll_basic_priority": 10,
}
SUM = LibraryCall("allreduce", 4, 4096, 8, builtin=True)


def openmpi(**settings: int | str) -> LibrarySettings:
    """Return an Open MPI on one node with some control variables in addition to the usual ones."""
    return LibrarySettings(OPENMPI, 8, 8, False, PLAIN | settings)


def mpich(**settings: int | str) -> LibrarySettings:
    """Return an MPICH on one node that several threads may call."""
    return LibrarySettings(MPICH, 8, 8, True, dict(settings))


def test_the_choice_of_mpich_is_that_of_its_tree(mpich: Mpi) -> None:
    """On communicators of 2 to 17, according to the tree that is compiled into the library."""
    tree = read_compiled_tree(mpich.bin.parent / "lib" / "libmpi.so.12")
    library = LibrarySettings(MPICH, 17, 17, False, {})
    sizes = sorted(
        {n + d for n in (256, 8192, 1 << 15, 81920, 1 << 19, 1 << 21) for d in (-8, 0, 8)}
    )
    compared = 0
    for operation in MEASURES:
        for size in range(2, 18):
            for total in sizes:
                for in_place in (False, True):
                    count = total // size
                    asking = TreeCall(operation, size, count, in_place)
                    call = LibraryCall(operation, size, count, 1, builtin=True, in_place=in_place)
                    name = predict_choice(library, call)
                    leaf = f"algorithm=MPIR_{operation.capitalize()}_intra_{name}"
                    assert find_leaf(tree, asking) == leaf, call
                    compared += 1
    assert compared > 3000


@pytest.mark.parametrize(
    ("library", "call"),
    [
        (openmpi(), SUM),  # no algorithm is forced
        (openmpi(coll_tuned_allreduce_algorithm=99), SUM),
        (openmpi(coll_tuned_allreduce_algorithm=4, coll="^tuned"), SUM),
        (openmpi(coll_tuned_allreduce_algorithm=4, coll_hcoll_priority=90), SUM),
        (openmpi(coll_tuned_allreduce_algorithm=4, coll_tuned_priority=5), SUM),
        (openmpi(coll_tuned_allreduce_algorithm=4, coll_sync_barrier_before=1), SUM),
        # Component han divides it by nodes.
        (replace(openmpi(coll_tuned_allreduce_algorithm=4), on_node=4), SUM),
        (replace(openmpi(coll_tuned_allreduce_algorithm=4), on_node=0), SUM),
        # The number of elements is unknown.
        (openmpi(coll_tuned_allreduce_algorithm=4), replace(SUM, element=0)),
        (openmpi(coll_tuned_allreduce_algorithm=6), replace(SUM, builtin=False)),
        (openmpi(coll_tuned_allreduce_algorithm=4), replace(SUM, bytes=0)),
        (openmpi(coll_tuned_alltoall_algorithm=2), LibraryCall("alltoall", 4, 8, in_place=True)),
        (mpich(MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=2), SUM),  # smp
        (mpich(MPIR_CVAR_ALLREDUCE_COMPOSITION=2), SUM),
        (replace(mpich(MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM=2), multiple=False), SUM),
        (replace(mpich(), on_node=4), SUM),
        (mpich(MPIR_CVAR_NUM_CLIQUES=2), SUM),
        (mpich(MPIR_CVAR_CH4_UCX_ENABLE_UCC=1), LibraryCall("allgather", 4, 8)),
        (mpich(MPIR_CVAR_COLL_SELECTION_TUNING_JSON_FILE="t.json"), LibraryCall("allgather", 4, 8)),
        (mpich(MPIR_CVAR_BCAST_INTRA_ALGORITHM=1), LibraryCall("bcast", 4, 8)),
        (mpich(), LibraryCall("barrier", 4, 0)),
    ],
)
def test_what_is_not_certain_has_no_name(library: LibrarySettings, call: LibraryCall) -> None:
    """In each case another algorithm could have run that the settings do not show."""
    assert predict_choice(library, call) == ""


@pytest.mark.parametrize(
    ("library", "call", "name"),
    [
        (openmpi(coll_tuned_allreduce_algorithm=4), SUM, "ring"),
        (openmpi(coll_tuned_allreduce_algorithm=4), replace(SUM, bytes=24), "recursive_doubling"),
        # Fewer bytes than processes are fewer elements, of whatever type.
        (
            openmpi(coll_tuned_allreduce_algorithm=4),
            LibraryCall("allreduce", 8, 4),
            "recursive_doubling",
        ),
        (openmpi(coll_tuned_allreduce_algorithm=6), replace(SUM, bytes=16), "basic_linear"),
        (openmpi(coll_tuned_allgather_algorithm=3), LibraryCall("allgather", 6, 8), "bruck"),
        (
            replace(openmpi(coll_tuned_alltoall_algorithm=2), on_node=4),
            LibraryCall("alltoall", 4, 8),
            "pairwise",
        ),
        (openmpi(coll_tuned_barrier_algorithm=6), LibraryCall("barrier", 4, 0), "tree"),
        (mpich(MPIR_CVAR_ALLREDUCE_INTRA_ALGORITHM=8), SUM, "ring"),
        (mpich(MPIR_CVAR_ALLREDUCE_POSIX_INTRA_ALGORITHM=2), SUM, "reduce_scatter_allgather"),
        (
            replace(mpich(MPIR_CVAR_NOLOCAL=1), multiple=False),
            replace(SUM, bytes=16),
            "recursive_doubling",
        ),
        (mpich(MPIR_CVAR_ALLGATHER_INTRA_ALGORITHM=4), LibraryCall("allgather", 6, 8), "brucks"),
        (mpich(), LibraryCall("gatherv", 4, -1), "linear"),
    ],
)
def test_what_is_certain_has_a_name(library: LibrarySettings, call: LibraryCall, name: str) -> None:
    """A forced algorithm, its replacement, and the library's own choice."""
    assert predict_choice(library, call) == name


def test_only_tested_versions_are_accepted() -> None:
    """Other versions decide differently, or were not examined."""
    settings: dict[str, int | str] = {"coll_tuned_use_dynamic_rules": 1}
    reported = {"on_node": 2, "multiple": False, "settings": settings}
    assert identify_library(MPICH_5, 2, reported) == LibrarySettings(MPICH, 2, 2, False, settings)
    assert identify_library(OPENMPI_5, 2, reported) is not None
    for version in ("MPICH Version: 4.0.2", "Open MPI v4.1.4", "Intel(R) MPI Library 2021.9", "?"):
        assert identify_library(version, 2, reported) is None
    assert identify_library(OPENMPI_5, 2, reported | {"settings": {}}) is None
    wrong: list[object] = [None, [], {}, {"settings": 3, "on_node": 2}, {"settings": {}}]
    for damaged in wrong:
        assert identify_library(MPICH_5, 2, damaged) is None


def test_substituted_algorithms_exist() -> None:
    """Every name is an algorithm of the library."""
    for library, operation, name in REPLACEMENTS:
        names = [one.name for one in find_algorithms(library, operation)]
        assert library != INTEL and {name, REPLACEMENTS[library, operation, name]} <= set(names)


def test_a_trace_names_native_calls(tmp_path: Path) -> None:
    """Four ranks: every table shows the algorithm; a fact that only one rank knows has no name."""
    synthetic = Synthetic(4)
    arrivals = [[0, 1, 2, 3], [100, 101, 102, 103]]
    synthetic.add_collective("allgather", arrivals, [[50] * 4, [150] * 4], sent=8, received=32)
    folder = synthetic.write(tmp_path / "t")
    meta = json.loads((folder / "meta.json").read_text())
    meta.pop("check", None)
    meta |= {"mpi": MPICH_5, "library": {"on_node": 4, "multiple": True, "settings": {}}}
    (folder / "meta.json").write_text(json.dumps(meta))
    trace = mpiprof.open(folder)
    assert set(trace.events["algorithm"]) == {"native:recursive_doubling"}
    assert set(trace.instances["algorithm"].astype(str)) == {"native:recursive_doubling"}
    assert trace.callsites["algorithms"].tolist() == ["native:recursive_doubling 2"]
