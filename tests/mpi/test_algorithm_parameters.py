"""An algorithm with its parameters is unchanged from rule to run, trace, plan and next run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.jobs import run_mpi
from support.mpis import Mpi

import mpiprof
from mpiprof.__main__ import main
from mpiprof.collectives.tune import from_selector, plan_entries
from mpiprof.collectives.variant import Variant

PROGRAM = """
from array import array
from mpi4py import MPI
comm = MPI.COMM_WORLD
parts = [array("d", [rank]) * (1000 * (rank + 1)) for rank in range(comm.size)]
expected = sum(parts, array("d"))
found = array("d", [-1]) * len(expected)
for _ in range(30):
    comm.Allgatherv(parts[comm.rank], [found, [len(part) for part in parts]])
assert found == expected
for _ in range(30):
    sums = array("d", [comm.rank]) * 1000
    comm.Allreduce(MPI.IN_PLACE, sums)
assert sums == array("d", [comm.size * (comm.size - 1) / 2]) * 1000
"""
VARIANTS = (
    ("allgatherv", "pipelined_ring:block_size=4096:blocks=equal:order=nodes"),
    ("allgatherv", "pipelined_ring:block_size=1000:order=both"),
    ("allgatherv", "pipelined_ring:blocks=equal:order=spread"),
    ("allgatherv", "linear_ring"),
    ("allreduce", "late_last:late=2"),
)


def ran(mpi: Mpi, folder: Path, operation: str, specification: str) -> tuple[Path, set[str]]:
    """Record the program under a choice; returns the trace and the algorithms of an operation."""
    program, trace = folder / "app.py", folder / f"trace-{len(list(folder.iterdir()))}"
    program.write_text(PROGRAM)
    words: list[str | Path] = [mpi.python, "-m", "mpiprof", "run", "-q", "-o", trace]
    words += ["--switch", specification, program]
    run_mpi(mpi, 3, words, check=True)
    found = mpiprof.open(trace).instances
    return trace, set(found.loc[found["operation"] == operation, "algorithm"].astype(str))


@pytest.mark.parametrize(("operation", "variant"), VARIANTS)
def test_a_variant_survives_on_3_ranks(
    operation: str, variant: str, openmpi: Mpi, tmp_path: Path
) -> None:
    plan, found_plan = tmp_path / "plan.json", tmp_path / "found.json"
    _, forced = ran(openmpi, tmp_path, operation, f"{operation}={variant}")
    assert forced == {variant}
    plan_entries.write(
        plan, [plan_entries.make_entry(operation, 3, None, (), forced.pop(), "", {})]
    )
    assert ran(openmpi, tmp_path, operation, str(plan))[1] == {variant}

    trace, chosen = ran(openmpi, tmp_path, operation, f"{plan},auto")
    assert variant in chosen
    assert main(["tune", str(trace), "--found", "-o", str(found_plan)]) == 0
    written = {
        str(Variant(e["algorithm"], tuple((n, str(v)) for n, v in e.get("parameters", {}).items())))
        for e in json.loads(found_plan.read_text())
        if e["operation"] == operation  # on a busy machine, another may have got one as well
    }
    assert written == {variant}
    assert variant in {one.algorithm for one in from_selector.read(trace)}
    assert ran(openmpi, tmp_path, operation, str(found_plan))[1] == {variant}


@pytest.mark.parametrize("variant", [variant for _, variant in VARIANTS])
def test_a_text_is_read_as_it_was_written(variant: str) -> None:
    assert str(Variant.parse(variant)) == variant
