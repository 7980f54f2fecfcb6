"""The wheel for old systems, built here and then used as people would: installed and run."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support import ROOT
from support.jobs import run

BUILDING = 1200  # seconds: eight libraries, by a compiler that is fetched first


@pytest.mark.everything
@pytest.mark.heavy
def test_a_wheel_records_and_switches_in_a_fresh_environment(tmp_path: Path) -> None:
    """Two ranks of MPICH, in an environment that gets wheels only, far from the sources."""
    words = ["PLATFORMS=manylinux-x86_64", f"DIST={tmp_path}"]
    run(["make", "wheels", *words], cwd=ROOT, timeout=BUILDING, check=True)
    wheel = next(tmp_path.glob("*-py3-none-manylinux_2_17_x86_64.whl"))
    run([sys.executable, "-m", "venv", tmp_path / "fresh"], check=True)
    python = tmp_path / "fresh" / "bin" / "python"
    words = ["-m", "pip", "install", "--quiet", "--only-binary", ":all:", f"{wheel}[mpich,python]"]
    run([python, *words], cwd=tmp_path, timeout=300, check=True)

    words = ["-n", "2", "-o", "trace", "--switch", "allgather=ring"]
    words = ["-m", "mpiprof", "run", *words, str(ROOT / "samples" / "nbody.py")]
    done = run([python, *words], cwd=tmp_path, check=True)
    assert "check ok" in done.stdout
    report = run([python, "-m", "mpiprof", "report", "trace", "--json"], cwd=tmp_path, check=True)
    rows = {row["operation"]: row for row in json.loads(report.stdout)["callsites"]}
    assert rows["allgather"]["algorithm"] == "ring"
    assert rows["allgather"]["complete_instances"] == rows["allgather"]["instances"] > 1
    where = run([python, "-c", "import mpiprof; print(mpiprof.__file__)"], cwd=tmp_path, check=True)
    assert Path(where.stdout.strip()).is_relative_to(tmp_path / "fresh")
