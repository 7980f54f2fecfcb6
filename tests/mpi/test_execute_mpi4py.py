"""mpi4py's tests of collectives pass on mpiprof's algorithms, random and each one forced."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from support.mpis import Mpi
from support.wait_until import HANG_S

from mpi.test_execute import SEED, forced, nth_algorithms, used
from mpi.test_mpi4py_suite import run_suite, suite

BLOCKING = r"cco_(buf|vec)\.py"
FILES = ["cco_buf", "cco_vec", "cco_obj", "cco_buf_inter", "cco_vec_inter", "cco_obj_inter", "op"]


def passes(mpi: Mpi, ranks: int, pattern: str, folder: Path, switch: str) -> None:
    """Run some of the tests, switched; they must pass."""
    trace = folder / "trace"
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(trace), "--switch", switch]
    words += [str(suite(mpi) / "main.py"), "-q", "-i", pattern]
    code, printed = run_suite(mpi, ranks, words, folder, HANG_S)
    assert code == 0, printed[-3000:]
    assert "Ran 0 tests" not in printed
    assert len({name for _, _, name in used(trace)}) > 5


@pytest.mark.slow
def test_random_algorithms_on_3_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    passes(openmpi, 3, BLOCKING, tmp_path, f"random:{SEED}")


@cache
def passing_bare(mpi: Mpi, ranks: int, folder: Path) -> list[str]:
    """Return the test files that pass bare."""
    names = []
    for name in FILES:
        words = [str(mpi.python), str(suite(mpi) / "main.py"), "-q", "-i", rf"{name}\.py"]
        if run_suite(mpi, ranks, words, folder, 200)[0] == 0:
            names.append(name)
    return names


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder for the bare runs."""
    return tmp_path_factory.mktemp("bare")


@pytest.mark.everything
@pytest.mark.parametrize("number", range(9))
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_each_algorithm(
    ranks: int, number: int, mpi: Mpi, shared_folder: Path, tmp_path: Path
) -> None:
    """Each algorithm and random selection pass every test file that passes bare."""
    chosen = passing_bare(mpi, ranks, shared_folder)
    switch = f"random:{ranks}" if number == 8 else forced(nth_algorithms(ranks, number), 100)
    assert len(chosen) > 3
    passes(mpi, ranks, rf"({'|'.join(chosen)})\.py", tmp_path, switch)
