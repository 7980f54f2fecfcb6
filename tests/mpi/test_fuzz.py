"""Random calls of all functions under `random` and `auto`: right results, no hang.

`make test` makes some thousand calls of each variety. `make test-all` makes 10^6 under `random` and
10^6 under `auto` on each MPI, with the sanitizers. Seeds are in the names.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support import PROGRAMS
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.prepared_runs import prepare_run
from support.sanitizers import ADDRESS, assert_no_report
from support.wait_until import HANG_S

from mpi.test_sanitizers import sanitized

__all__ = ["sanitized"]  # a fixture

PIECE = 25_000
CHOICES = {
    "random": "MPIPROF_SWITCH=random {}",
    "own": "MPIPROF_SWITCH=random {} own",  # the library's algorithms by their names
    "auto": "MPIPROF_AUTO=1",
}


def fuzz(mpi: Mpi) -> Path:
    """Compile the program of random collectives."""
    parts = [PROGRAMS / f"fuzz_{name}.c" for name in ("data", "moves", "reductions")]
    return compiled(mpi, "fuzz_collectives.c", "-O1", "-pthread", *parts)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("switch", ["random:{}", "random:{}:own", "auto"])
@pytest.mark.parametrize(("name", "ranks"), [("openmpi", 3), ("mpich", 2)])
def test_thousands(
    name: str, ranks: int, switch: str, threads: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """On 3 ranks of Open MPI and 2 of MPICH: 3000 calls each give right results."""
    mpi = request.getfixturevalue(name)
    seed = 10 * ranks + threads
    options = ["-q", "-o", tmp_path / "trace", "--switch", switch.format(seed)]
    words = prepare_run(options, [fuzz(mpi), str(seed), "3000", str(threads)])
    ended = run_mpi(mpi, ranks, words, check=True)
    assert f"seed {seed}: 3000 calls, 0 wrong" in ended.stdout


def sanitized_calls(
    mpi: Mpi, sanitized: Path, trace: Path, choice: str, seed: int, calls: int, timeout: float
) -> None:
    """Run calls with the sanitizers on 2 ranks of MPICH, 2 to 4 of Open MPI."""
    ranks = 2 if mpi.name == "mpich" else 2 + seed % 3
    threads = 3 if seed % 4 == 3 else 1
    words = ADDRESS.environment(sanitized, trace)
    words += [CHOICES[choice].format(seed + 1), str(fuzz(mpi))]
    ended = run_mpi(mpi, ranks, [*words, str(seed), str(calls), str(threads)], timeout=timeout)
    assert_no_report(ended.stderr)
    assert ended.returncode == 0, ended.stdout[-2000:] + ended.stderr[-2000:]
    assert " calls, 0 wrong" in ended.stdout


@pytest.mark.slow
def test_library_algorithms_with_the_sanitizers(mpi: Mpi, sanitized: Path, tmp_path: Path) -> None:
    """On 2 ranks: the communicators and settings for library algorithms cause no fault."""
    sanitized_calls(mpi, sanitized, tmp_path / "trace", "own", 0, 300, HANG_S)


@pytest.mark.everything
@pytest.mark.parametrize("seed", range(1_000_000 // PIECE))
@pytest.mark.parametrize("choice", CHOICES)
def test_a_million(choice: str, seed: int, mpi: Mpi, sanitized: Path, tmp_path: Path) -> None:
    """On 2 ranks of MPICH, 2 to 4 of Open MPI: one thread or three, with the sanitizers."""
    sanitized_calls(mpi, sanitized, tmp_path / "trace", choice, seed, PIECE, 900)
