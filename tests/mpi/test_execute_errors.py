"""Wrong arguments give a switched program the library's own errors, and no rank hangs."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import wrong_arguments
from support.compilation import compiled
from support.jobs import run, run_mpi
from support.mpis import SLOW_WITH_MPICH, Mpi
from support.prepared_runs import prepare_run

ORDERLY = (
    "alltoall=bruck,alltoallv=ring,reduce=binary_tree,allreduce=ring,reduce_scatter=pairwise,"
    "reduce_scatter_block=recursive_halving,allgather=bruck,bcast=chain:block_size=4,"
    "gather=binomial,gatherv=linear,scatter=binomial,scatterv=linear,barrier=tournament,"
    "allgatherv=pipelined_ring:block_size=4,allgather=kang,allgatherv=kang"
)


def output_of(folder: Path, ranks: int = 3) -> list[str]:
    """Return the output of the ranks of a program."""
    files = sorted(folder.glob("said-*.txt"))
    assert len(files) == ranks
    return [line for path in files for line in path.read_text().splitlines()]


def switched(folder: Path, switch: str, *words: str | Path) -> list[str]:
    """Return the command line that runs a program on other algorithms."""
    return prepare_run(["-q", "-o", folder / "trace", "--switch", switch], words)


@pytest.mark.parametrize("switch", ["random:3", ORDERLY], ids=["random", "forced"])
def test_garbage_and_wrong_arguments_on_3_ranks(switch: str, mpi: Mpi, tmp_path: Path) -> None:
    """Error classes and receive buffers after each call are as in the bare program."""
    source, program = tmp_path / "all.c", tmp_path / "all"
    every = wrong_arguments.cases(mpi.name == "mpich")
    source.write_text(wrong_arguments.source([c for c in every if c.function.form == "blocking"]))
    run([mpi.mpicc, "-w", "-O0", "-o", program, source], check=True)
    run_mpi(mpi, 3, [program], check=True, cwd=tmp_path)
    bare = output_of(tmp_path)
    run_mpi(mpi, 3, switched(tmp_path, switch, program), check=True, cwd=tmp_path)
    assert output_of(tmp_path) == bare


@pytest.fixture
def errors(mpi: Mpi) -> Path:
    """Compile the program of refused calls."""
    return compiled(mpi, "execute_errors.c")


def test_what_libraries_refuse_on_3_ranks(mpi: Mpi, errors: Path, tmp_path: Path) -> None:
    """Operations invalid for a type, uncommitted types and invalid roots are refused."""
    run_mpi(mpi, 3, [errors, "refused"], check=True, cwd=tmp_path)
    bare = output_of(tmp_path)
    words = switched(tmp_path, ORDERLY, errors, "refused")
    run_mpi(mpi, 3, words, check=True, cwd=tmp_path)
    assert output_of(tmp_path) == bare
    assert all("class" in line for line in bare)


def test_a_message_too_long_for_one_rank_of_3(mpi: Mpi, errors: Path, tmp_path: Path) -> None:
    """Its handler runs once, with the user's communicator; the other ranks continue."""
    trees = "bcast=flat_tree,scatter=linear,scatterv=linear,alltoallv=simple,allreduce=ring"
    words = switched(tmp_path, trees, errors, "truncated")
    run_mpi(mpi, 3, words, check=True, cwd=tmp_path)
    assert output_of(tmp_path) == []


SIZES = (
    "alltoall=bruck,alltoallv=ring,allgather=ring,allgatherv=pipelined_ring:block_size=4,"
    "gather=binomial,gatherv=linear,scatter=binomial,scatterv=linear,bcast=flat_tree,"
    "reduce=binary_tree"
)
DIRECT = SIZES.replace("bruck", "simple").replace("binomial", "linear")


def comparable(lines: list[str]) -> list[tuple[str, str, str, str]]:
    """Return rank, case, error class and data of each line, where the library defines them.

    Data after an error is undefined. MPICH's tree also scatters undefined data to a rank that
    expects more than there is. The class for gatherv differs between releases.
    """
    found = []
    for line in lines:
        rank, case, kind, data = line.split("|")
        if kind != "0" or (case.startswith("scatter,") and "more" in case):
            data = ""
        if case.startswith("gatherv") and kind != "0":
            kind = "an error"
        found.append((rank, case, kind, data))
    return found


@pytest.fixture
def sizes(mpi: Mpi) -> Path:
    """Compile the program with mismatched sizes."""
    return compiled(mpi, "execute_sizes.c")


@SLOW_WITH_MPICH
@pytest.mark.parametrize(
    "switches", [[SIZES, DIRECT], ["random:1", "random:5"]], ids=["forced", "random"]
)
def test_sizes_that_differ_on_3_ranks(
    switches: list[str], mpi: Mpi, sizes: Path, tmp_path: Path
) -> None:
    """Mismatched sizes, on one rank or between sender and receiver, act as in the bare program."""
    words: list[str | Path] = [sizes] if "alltoall" in switches[0] else [sizes, "forward"]
    run_mpi(mpi, 3, words, check=True, cwd=tmp_path)
    bare = comparable(output_of(tmp_path))
    assert len(bare) > 60
    for number, switch in enumerate(switches):
        folder = tmp_path / str(number)
        folder.mkdir()
        run_mpi(mpi, 3, switched(folder, switch, *words), check=True, cwd=folder)
        assert comparable(output_of(folder)) == bare


@pytest.mark.parametrize("count", [10, 2], ids=["10", "2"])
@pytest.mark.parametrize(
    "algorithms",
    [
        ("ring", "pairwise"),
        ("recursive_doubling", "recursive_halving"),
        ("halving_doubling", "pairwise"),
        ("binary_blocks", "pairwise"),
        ("circulant", "pairwise"),
    ],
    ids=str,
)
def test_reductions_with_unequal_counts_on_3_ranks(
    algorithms: tuple[str, str], count: int, mpi: Mpi, sizes: Path, tmp_path: Path
) -> None:
    """Libraries hang or return wrong sums; a schedule ends, and no rank accepts a wrong sum.

    With fewer elements than ranks some blocks are empty. The marker sent in place of wrong data
    then looks like an empty block, so at least one rank must report the error.
    """
    switch = f"allreduce={algorithms[0]},reduce_scatter_block={algorithms[1]}"
    words = switched(tmp_path, switch, sizes, "reductions", str(count))
    run_mpi(mpi, 3, words, check=True, cwd=tmp_path)
    found = [line.split("|") for line in output_of(tmp_path)]
    assert len(found) == 3 * 4
    cases: dict[str, set[str]] = {}
    for _, case, kind, _ in found:
        cases.setdefault(case, set()).add(kind)
    assert all(kinds != {"0"} for kinds in cases.values())
    if count >= 3:
        assert not any("0" in kinds for kinds in cases.values())


BLOCKED = ["chain:block_size=64", "chain", "circulant:block_size=64", "circulant"]
TREES = ["binomial", "flat_tree"]
PARTS = ["scatter_allgather_ring", "scatter_allgather_doubling"]


@pytest.fixture
def lengths(mpi: Mpi) -> Path:
    """Compile the program of broadcasts with mismatched sizes."""
    return compiled(mpi, "execute_lengths.c")


@SLOW_WITH_MPICH
@pytest.mark.parametrize("algorithm", BLOCKED + TREES + PARTS)
def test_broadcasts_with_unequal_sizes_on_4_ranks(
    algorithm: str, mpi: Mpi, lengths: Path, tmp_path: Path
) -> None:
    """All ranks end, also where libraries may hang, and none accepts wrong data.

    A rank that expects more than the root sends gets the data that exists. MPICH reports an error
    then, Open MPI does not. Nothing is written beyond the received data.
    """
    words = switched(tmp_path, f"bcast={algorithm}", lengths, "60000")
    run_mpi(mpi, 4, words, check=True, cwd=tmp_path)
    lines = [line.split("|") for line in output_of(tmp_path, 4)]
    assert len(lines) == 4 * 8 * 3
    for rank, case, n, kind, come, alone in lines:
        root = int(case.split(" ")[0])
        here = f"rank {rank}, {case}: class {kind}, {come} have come"
        if rank == "0":
            assert kind == "0", here
        elif int(n) < root or (int(n) > root and mpi.name == "mpich"):
            assert kind != "0", here
        elif kind == "0":
            assert int(come) == root and alone == "1", here
        if int(n) > root and "rank 1" not in case:
            assert int(come) == root and alone == "1", here


def found_on_2(folder: Path) -> list[tuple[str, ...]]:
    """Return the results of two ranks for each broadcast, without data after an error."""
    lines = [tuple(line.split("|")) for line in output_of(folder, 2)]
    return [line if line[3] == "0" else line[:4] for line in lines]


@pytest.fixture(scope="module")
def found_bare(mpi: Mpi, tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, ...]]:
    """Return the results of two ranks without mpiprof."""
    folder = tmp_path_factory.mktemp("bare")
    run_mpi(mpi, 2, [compiled(mpi, "execute_lengths.c"), "60000"], check=True, cwd=folder)
    return found_on_2(folder)


@pytest.mark.parametrize("algorithm", BLOCKED + TREES + PARTS)
def test_broadcasts_with_unequal_sizes_on_2_ranks(
    algorithm: str, mpi: Mpi, lengths: Path, found_bare: list[tuple[str, ...]], tmp_path: Path
) -> None:
    """On 2 ranks the library always ends; results equal bare ones, except data after an error."""
    words = switched(tmp_path, f"bcast={algorithm}", lengths, "60000")
    run_mpi(mpi, 2, words, check=True, cwd=tmp_path)
    assert found_on_2(tmp_path) == found_bare
