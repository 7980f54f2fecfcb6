"""Slurm's TaskProlog of docs/site, with MPI jobs that have its variables."""

from __future__ import annotations

from pathlib import Path

from support import ROOT
from support.compilation import compiled
from support.jobs import run, run_mpi
from support.mpis import Mpi

import mpiprof
from mpiprof.interface.installation import library_folder
from mpiprof.launch.library import mpi_by_name

SITE = ROOT / "docs" / "site"


def test_a_job_is_recorded_with_the_variables_of_the_prolog(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks. Their environment has what the TaskProlog exports, as under Slurm."""
    here = mpi_by_name(mpi.name, {"PATH": str(mpi.bin)}, "test")
    installed = tmp_path / "0.1.0" / "lib" / "python3" / "site-packages" / "mpiprof"
    installed.mkdir(parents=True)
    (installed / "lib").symlink_to(library_folder())
    script = tmp_path / "task_prolog.sh"
    text = (SITE / "task_prolog.sh").read_text()
    script.write_text(text.replace("root=/apps/mpiprof/0.1.0", f"root={tmp_path}/0.1.0"))
    task = {"SLURM_JOB_ID": "4711", "SLURM_STEP_ID": "0", "SLURM_PROCID": "0"}
    task |= {"SLURM_SUBMIT_DIR": str(tmp_path), "SITE_MPIPROF": "1"}
    task |= {"LMOD_FAMILY_MPI": mpi.name, "LMOD_FAMILY_MPI_VERSION": "5.0.0"}
    printed = run(["bash", script], env=task, check=True).stdout
    exports = [line.removeprefix("export ") for line in printed.splitlines()]
    assert f"/libmpiprof-{mpi.name}-{here.api_level}.so" in exports[0]
    program = compiled(mpi, "ring_counts.c")
    run_mpi(mpi, 2, ["env", *exports, program, "1000"], check=True, cwd=tmp_path)
    (folder,) = tmp_path.glob("mpiprof-4711.0-*")
    trace = mpiprof.open(folder)
    assert (trace.program, trace.ranks, trace.is_complete) == ("ring_counts", 2, True)
    assert trace.summary["calls"].sum() == 2 * (3000 + 100 + 3)
