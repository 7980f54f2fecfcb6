"""Traces of real programs, packed: every table is unchanged, also for killed jobs."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import pandas as pd
import pytest
from support import ROOT
from support.compilation import compiled
from support.jobs import run_mpi, run_verb
from support.mpis import Mpi

import mpiprof

pytestmark = pytest.mark.slow

TABLES = ("processes", "events", "instances", "callsites", "rank_totals", "spent")
BOUND = 4.0  # bytes per event, if calls wait for nothing else


def packed(folder: Path) -> tuple[mpiprof.Trace, float]:
    """Pack a trace and check that its contents are equal; returns it and its bytes per event."""
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            os.utime(path, (1, 1))  # the files look old
    known = mpiprof.open(folder)
    before = {name: getattr(known, name) for name in TABLES}
    code, _, error = run_verb("pack", folder)
    assert (code, error) == (0, "")
    assert not list(folder.glob("*.log")) and not list(folder.glob("*.tables"))
    trace = mpiprof.open(folder)
    for name, table in before.items():
        pd.testing.assert_frame_equal(getattr(trace, name), table)
    assert (trace.is_complete, trace.problems) == (known.is_complete, known.problems)
    return trace, (folder / "trace.pack").stat().st_size / max(len(trace.events), 1)


def test_a_python_program_on_3_ranks(openmpi: Mpi, tmp_path: Path) -> None:
    words = [str(openmpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "trace")]
    run_mpi(openmpi, 3, [*words, str(ROOT / "samples" / "coupled.py")], check=True)
    found, _ = packed(tmp_path / "trace")
    assert found.is_complete and len(found.events) > 100


@pytest.mark.parametrize("how", ["kill", "code"])
def test_a_c_program_on_2_ranks(how: str, openmpi: Mpi, tmp_path: Path) -> None:
    """20,000 calls each, in a job killed by SIGKILL and in a job that ends."""
    words = [str(openmpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "trace")]
    run_mpi(openmpi, 2, [*words, "--", str(compiled(openmpi, "exit_modes.c")), how, "20000"])
    found, size = packed(tmp_path / "trace")
    assert found.is_complete == (how == "code")
    if how == "code":
        assert len(found.events) >= 40_000
        assert size <= BOUND
