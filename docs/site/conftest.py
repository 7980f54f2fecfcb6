"""The fixture `record_mpi` of pytest: records an MPI program and returns its trace."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import mpiprof


@pytest.fixture
def record_mpi(tmp_path: Path) -> Callable[..., mpiprof.Trace]:
    """Return a function that runs a command on some ranks and returns its complete trace."""

    def record(ranks: int, *command: str) -> mpiprof.Trace:
        folder = tmp_path / "trace"
        words = [sys.executable, "-m", "mpiprof", "run", "-q", "-n", str(ranks), "-o", str(folder)]
        subprocess.run([*words, "--", *command], check=True, timeout=300)
        trace = mpiprof.open(folder)
        assert trace.is_complete, trace.problems
        return trace

    return record
