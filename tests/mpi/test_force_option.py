"""Recording twice into one folder, and the call site of mpi4py's MPI_Finalize."""

from __future__ import annotations

import json
from pathlib import Path

from support.jobs import run, run_verb
from support.mpis import Mpi

import mpiprof

APP = "from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n"


def test_a_command_can_be_repeated_with_force(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: the second trace has its own calls only."""
    app = tmp_path / "app.py"
    words = [str(mpi.python), "-m", "mpiprof", "run", "-np", "2", "-o", "before", "app.py"]
    app.write_text(APP)
    run(words, cwd=tmp_path, check=True)
    again = run(words, cwd=tmp_path)
    assert again.returncode == 2 and "replace it with --force" in again.stderr
    app.write_text(APP.replace("Barrier()", "Bcast(bytearray(8))"))
    run([*words[:-1], "--force", "app.py"], cwd=tmp_path, check=True)
    table = mpiprof.open(tmp_path / "before").callsites
    assert set(table["operation"]) == {"bcast", "finalize"}
    assert sorted(path.name for path in tmp_path.iterdir()) == ["app.py", "before"]
    # A program that cannot be started leaves the old trace in place.
    missing = run([*words[:-1], "--force", "gone.py"], cwd=tmp_path)
    assert missing.returncode == 2
    assert mpiprof.open(tmp_path / "before").is_complete


def test_finalize_at_exit_is_mpi4pys(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: the site is mpi4py at interpreter exit, otherwise the program's line."""
    sites = {}
    for name, last in (("exit", ""), ("line", "MPI.Finalize()\n")):
        (tmp_path / "app.py").write_text(APP + last)
        words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-n", "2", "-o", name, "app.py"]
        run(words, cwd=tmp_path, check=True)
        shown = json.loads(run_verb("report", tmp_path / name, "--json")[1])
        rows = {row["operation"]: row["sites"] for row in shown["callsites"]}
        sites[name] = [(Path(s["file"]).name, s["line"], s["function"]) for s in rows["finalize"]]
    assert sites["exit"] == [("at exit (mpi4py)", 0, "")]
    assert sites["line"] == [("app.py", 3, "<module>")]
    text = run_verb("report", tmp_path / "exit", "--site", "at exit")[1]
    assert text.startswith("finalize at exit (mpi4py): 1 instance")
