"""The fixture and the test of docs/site, which users copy into their tests."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest
from support import ROOT
from support.jobs import run
from support.synthetic import Synthetic

SITE = ROOT / "docs" / "site"

# A plugin in whose presence no MPI job starts: a command with -o receives a copy of a trace.
PLUGIN = """
import shutil, subprocess
from mpiprof.__main__ import parser

def run(words, **options):
    assert words[1:3] == ["-m", "mpiprof"]
    parsed = parser().parse_args(words[3:])
    assert parsed.ranks == 2 and parsed.program[-1] == "solver.py"
    shutil.copytree("prepared", parsed.folder)

subprocess.run = run
"""


@pytest.mark.heavy
@pytest.mark.parametrize(("late_ms", "passes"), [(1, True), (5, False)])
def test_a_program_whose_ranks_wait_fails(late_ms: int, passes: bool, tmp_path: Path) -> None:
    """One of two ranks is late every 10 ms, so that 5 or 25 % of both ranks' time is waiting."""
    for name in ("conftest.py", "test_solver.py"):
        shutil.copy(SITE / name, tmp_path)
    (tmp_path / "prepared_trace.py").write_text(PLUGIN)
    synthetic = Synthetic(2)
    late = np.array([0, late_ms * 1_000_000])
    arrivals = synthetic.started_ns + np.arange(100)[:, None] * 10_000_000 + late
    synthetic.ended_ns = synthetic.started_ns + 1_000_000_000
    synthetic.add_collective("allreduce", arrivals, np.repeat(arrivals.max(1, keepdims=True), 2, 1))
    synthetic.write(tmp_path / "prepared")
    options = ["-q", "-p", "no:dash", "-p", "prepared_trace", f"--rootdir={tmp_path}"]
    paths = {"PYTHONPATH": str(tmp_path)}
    done = run([sys.executable, "-m", "pytest", *options, str(tmp_path)], env=paths, cwd=tmp_path)
    expected = pytest.ExitCode.OK if passes else pytest.ExitCode.TESTS_FAILED
    assert done.returncode == expected, done.stdout
    assert ("mpiprof report" in done.stdout) is not passes
