"""Random programs under `auto` and `random`: right results, no hang. The seed is in the name.

`make test` runs 20 seconds of them. `make test-all` runs a minute of the same, and an hour of
others.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support import PROGRAMS
from support.jobs import run_mpi
from support.mpis import Mpi


def soak(mpi: Mpi, ranks: int, switch: str, seed: int, seconds: int, folder: Path) -> None:
    """Run random loops; the program checks its results."""
    given = ["run", "-q", "-o", str(folder / "trace"), "--switch", switch]
    program = [str(PROGRAMS / "selection_soak.py"), str(seed), str(seconds)]
    argv = [str(mpi.python), "-m", "mpiprof", *given, *program]
    ended = run_mpi(mpi, ranks, argv, cwd=folder, check=True)
    assert "all right" in ended.stdout


@pytest.mark.parametrize("seconds", [5, pytest.param(14, marks=pytest.mark.everything)])
@pytest.mark.parametrize("switch", ["auto", "random:7"])
@pytest.mark.parametrize(("name", "ranks"), [("openmpi", 3), ("mpich", 2)])
def test_a_minute(
    name: str, ranks: int, switch: str, seconds: int, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """On 3 ranks of Open MPI and 2 of MPICH: a short run has right results."""
    soak(request.getfixturevalue(name), ranks, switch, 7, seconds, tmp_path)


@pytest.mark.everything
@pytest.mark.parametrize("seed", range(100, 160))
def test_an_hour(seed: int, mpi: Mpi, tmp_path: Path) -> None:
    """On 2 to 5 ranks, with auto and random alternating."""
    switch = "auto" if seed % 3 else f"random:{seed}"
    soak(mpi, 2 + seed % 4, switch, seed, 30, tmp_path)
