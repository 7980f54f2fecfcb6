"""Collectives that a delete callback calls on the communicator that is being freed."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import raw_trace
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi
from support.prepared_runs import prepare_run

import mpiprof


def table_bytes(mpi: Mpi, folder: Path, times: int, *options: str) -> int:
    """Record `times` communicators on 2 ranks; returns the bytes of the tables.

    Lines on stalled calls do not count, because a busy machine has more of them.
    """
    program = compiled(mpi, "communicators_delete_callback.c")
    words = prepare_run(["-q", "-o", folder, *options], [program, str(times)])
    done = run_mpi(mpi, 2, words, check=True)
    assert done.stdout == "ok\n"
    tables = (path.read_bytes() for path in folder.glob("*.tables"))
    lines = (line for table in tables for line in table.splitlines())
    return sum(len(line) for line in lines if b'"stalled_call"' not in line)


def test_calls_in_a_callback_belong_to_the_communicator(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: no memory remains for freed communicators, and each call is matched."""
    few = table_bytes(mpi, tmp_path / "few", 200)
    many = table_bytes(mpi, tmp_path / "many", 700)
    assert many - few < 500 * 20  # the fault left 222 bytes each on both ranks
    lines = raw_trace.read(tmp_path / "many").lines
    assert not [line for line in lines if line.get("how") == "unknown"]
    instances = mpiprof.open(tmp_path / "many").instances
    calls = instances[instances["operation"] == "allreduce"]
    assert len(calls) == 700 and calls["complete"].all()


@pytest.mark.parametrize("switch", ["allreduce=ring", "random:1", "auto"])
def test_the_calls_may_be_switched(switch: str, mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: switched calls give right sums, which the program checks."""
    table_bytes(mpi, tmp_path / "trace", 200, "--switch", switch)
