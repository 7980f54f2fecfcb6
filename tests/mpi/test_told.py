"""The library's own algorithms as choices, `allreduce=native:ring`: they run, and only they."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from support.mpis import Mpi
from support.own_ran import FUNCTIONS, NOT_FORCED, Case, cases, recorded
from support.programs import compiled

import mpiprof
from mpiprof.libraries import Own, own
from mpiprof.operations import OPERATIONS

SIZES = (2, 3, 4, 8)  # processes
BYTES = (1, 64, 1000, 65536)
SEGMENT = 4096

FAMILIES = ("openmpi", "mpich")
Ran = tuple[dict[Case, list[str]], dict[Case, str]]


def told_in(library: str, turn: int) -> dict[str, Own]:
    """Return the turn-th algorithm of every operation that the library can be told."""
    return {
        one.operation: one
        for one in own(library)
        if one.place == turn and one.name not in NOT_FORCED
    }


def switch(told: dict[str, Own], *, segments: bool = False) -> list[str]:
    """Return the option that tells them."""
    ends = [f":segment={SEGMENT}" if segments and one.segmented else "" for one in told.values()]
    names = [
        f"{o}=native:{one.name}{end}" for (o, one), end in zip(told.items(), ends, strict=True)
    ]
    return ["--switch", ",".join(names)]


    """Record calls with a tool preloaded; gives what rank 0 says of each, and what it ran on."""
    """Record the calls with a tool preloaded; gives what rank 0 says of each, and what it ran on."""
    tool = compiled(mpi, tools, "-shared", "-fPIC", "-ldl")
    said, _ = recorded(mpi, asked, {"LD_PRELOAD": str(tool)}, folder, options)
    events = mpiprof.open(folder / "trace").events
    mine = events[(events["rank"] == 0) & events["operation"].isin(OPERATIONS)]
    found = mine.sort_values("enter_ns")["algorithm"].astype(str).tolist()
    return said, dict(zip(asked, found, strict=True))


def fits(one: Own, size: int, count: int) -> bool:
    """Whether the library runs it on so many processes and bytes, by what its documents say."""
    elements = count // 8 if count % 8 == 0 and one.operation != "bcast" else count
    least = {"elements": size, "half_elements": 1 << (size.bit_length() - 1)}
    return one.runs_on(size) and all(elements >= least.get(need, 0) for need in one.needs)


def segmented(one: Own, size: int, count: int, segment: int) -> bool:
    """Whether what sends in segments has enough of them to be what it is."""
    if one.name == "split_binary_tree":
        return max(segment, 1) <= count // 2
    if one.name == "segmented_ring":
        return 0 < segment < count and count // 8 >= size * (segment // 8)
    return True


@pytest.mark.parametrize("turn", range(1, 11))
def test_open_mpis(openmpi: Mpi, tmp_path: Path, turn: int) -> None:
    """On 2, 3, 4 and 8 processes: what is chosen is the function that was called.

    The turn-th algorithm of every operation is chosen; in the last turn those with segments.
    """
    told = told_in("openmpi", turn)
    if turn == 10:
        told = {
            o: next(x for x in own("openmpi", o) if x.segmented) for o in ("allreduce", "reduce")
        }
        told["bcast"] = own("openmpi", "bcast")[3]
    segment = SEGMENT if turn == 10 else 0
    asked = cases(tuple(told), SIZES, BYTES)
    options = switch(told, segments=turn == 10)
    said, found = ran(openmpi, asked, "own_functions.c", tmp_path, options)
    names = {
        f"{operation}_{word}": (operation, own("openmpi", operation)[place].name)
        for operation, words in FUNCTIONS.items()
        for place, word in enumerate(words.split())
    }
    for case in asked:
        operation, size, count = case
        one = told[operation]
        called = [names[word.replace("_intra_", "_")] for word in said[case][1:]]
        took = [name for of, name in called if of == operation][-1:]
        # This one it takes from the environment alone.
        runs = operation != "allgatherv" and fits(one, size, count)
        runs &= segmented(one, size, count, segment)
        if runs:
            end = f":segment={segment}" if segment else ""
            assert (took, found[case]) == ([one.name], f"native:{one.name}{end}"), case
        else:
            assert found[case] == "native", case
        assert said[case][0] == "0", case


@pytest.mark.parametrize("turn", range(1, 10))
def test_mpichs(mpich: Mpi, tmp_path: Path, turn: int) -> None:
    """On 2, 3, 4 and 8 processes: MPICH is set to what is chosen during the call, not after.

    The turn-th algorithm of every operation is chosen.
    """
    told = told_in("mpich", turn)
    asked = cases(tuple(told), SIZES, (1, 1000, 65536))
    said, found = ran(mpich, asked, "own_variables.c", tmp_path, switch(told))
    for case in asked:
        operation, size, count = case
        one = told[operation]
        runs = fits(one, size, count) and "in_place" not in one.needs
        assert said[case][-1] == "0:1", case
        assert said[case][-2] == (f"{one.place}:0" if runs else "0:1"), case
        assert (found[case] == f"native:{one.name}") == runs, case
        assert said[case][0] == "0", case


def test_every_algorithm_is_tried() -> None:
    """But those that need several nodes, or a library of their own."""
    tried = {one for turn in range(1, 11) for x in FAMILIES for one in told_in(x, turn).values()}
    assert {one.name for x in FAMILIES for one in own(x) if one not in tried} == set(NOT_FORCED)
