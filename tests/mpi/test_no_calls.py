"""Programs that call no MPI, or run on one rank: one line at the end, and the same exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.jobs import run, run_failing_mpi
from support.mpis import Mpi

LINE = "mpiprof: no MPI call was recorded: "
APP = "from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n"
HINT = "mpiprof: only 1 rank ran"


def verb(mpi: Mpi, *words: str) -> list[str]:
    return [str(mpi.python), "-m", "mpiprof", "run", *words]


@pytest.fixture
def script(tmp_path: Path) -> Path:
    """Return a script that starts processes without MPI, and exits with 3."""
    path = tmp_path / "job.sh"
    path.write_text("#!/bin/bash\n/bin/ls >/dev/null; (/bin/true; exit 0); /bin/true\nexit 3\n")
    path.chmod(0o755)
    return path


@pytest.mark.parametrize("options", [[], ["-o", "t"]], ids=["dated", "named"])
def test_a_program_without_mpi(options: list[str], script: Path, mpi: Mpi, tmp_path: Path) -> None:
    done = run(verb(mpi, *options, "--mpi", mpi.name, "--", str(script)), cwd=tmp_path)
    assert done.returncode == 3
    assert done.stderr.count(LINE) == 1 and done.stderr.count("\n") == 1, done.stderr
    quiet = run(verb(mpi, "-q", *options, "--mpi", mpi.name, "--", str(script)), cwd=tmp_path)
    assert (quiet.returncode, quiet.stderr) == (3, "")


def test_a_program_without_mpi_under_a_launcher(script: Path, mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks, which mpiexec or `run -n` starts."""
    bare = run_failing_mpi(mpi, 2, [str(script)], cwd=tmp_path)
    done = run_failing_mpi(mpi, 2, verb(mpi, "--", str(script)), cwd=tmp_path)
    assert (done.returncode, done.stderr.count(LINE)) == (bare.returncode, 1), done.stderr
    words = verb(mpi, "-n", "2", "--mpi", mpi.name, "--", "/bin/true")
    done = run(words, cwd=tmp_path)
    assert (done.returncode, done.stderr.count(LINE)) == (0, 1), done.stderr


@pytest.mark.parametrize("options", [[], ["-o", "t"]], ids=["dated", "named"])
def test_a_script_that_starts_an_mpi_program(options: list[str], mpi: Mpi, tmp_path: Path) -> None:
    """The script starts a launcher, or the program itself; the trace of the program exists."""
    (tmp_path / "app.py").write_text(APP)
    launch = " ".join(mpi.mpiexec(2))
    for name, command in (("launched", f"{launch} {mpi.python}"), ("alone", str(mpi.python))):
        script = tmp_path / f"{name}.sh"
        script.write_text(f"#!/bin/sh\n{command} {tmp_path / 'app.py'}; exit 3\n")
        script.chmod(0o755)
        renamed = [word.replace("t", name) if word == "t" else word for word in options]
        done = run(verb(mpi, *renamed, "--mpi", mpi.name, "--", str(script)), cwd=tmp_path)
        assert done.returncode == 3, done.stderr
        assert LINE not in done.stderr and "trace of " in done.stderr
        assert (HINT in done.stderr) == (name == "alone"), done.stderr


def test_one_rank_without_a_launcher(mpi: Mpi, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    alone = run(verb(mpi, "app.py"), cwd=tmp_path, check=True)
    assert alone.stderr.count(HINT) == 1 and "trace of 1 rank in " in alone.stderr
    with_n = run(verb(mpi, "-n", "1", "app.py"), cwd=tmp_path, check=True)
    assert HINT not in with_n.stderr and "trace of 1 rank in " in with_n.stderr
