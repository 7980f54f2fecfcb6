"""Cases that `run` refuses before the program starts: one line per job, with its exit code."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path

import pytest
from support.jobs import run, run_failing_mpi, run_mpi
from support.mpis import Mpi

import mpiprof

# Capabilities to drop, so that root cannot bypass file permissions.
LESS = "-dac_override,-dac_read_search"
ORDINARY = ["setpriv", "--bounding-set", LESS, "--inh-caps", LESS] if os.geteuid() == 0 else []
APP = "from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\nprint('ran\\n', end='')\n"


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """Return an MPI program in Python."""
    path = tmp_path / "app.py"
    path.write_text(APP)
    return path


def verb(mpi: Mpi, *words: str) -> list[str]:
    return [str(mpi.python), "-m", "mpiprof", *words]


def refused(words: list[str], cwd: Path, code: int) -> str:
    """Run mpiprof as an ordinary user; returns the line with which it refuses."""
    done = run([*ORDINARY, *words], cwd=cwd)
    assert (done.returncode, done.stdout) == (code, ""), done
    assert done.stderr.startswith("mpiprof: ") and done.stderr.count("\n") == 1
    return done.stderr


def our_lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line.startswith("mpiprof: ")]


def test_where_no_trace_can_be_made(mpich: Mpi, app: Path) -> None:
    (app.parent / "file").touch()
    (app.parent / "dangling").symlink_to("nowhere")
    closed = app.parent / "closed"
    closed.mkdir(mode=0o555)
    cases = {
        "file": "file is not a folder",
        "file/below": "file is not a folder",
        "dangling": "dangling is not a folder",
        "closed/below": "closed: Permission denied",
        "x" * 256: "name of the folder is too long",
        "/".join(["long" * 50] * 25): "path of the trace folder is too long",
    }
    for folder, wrong in cases.items():
        for ranks in ([], ["-n", "2"]):
            line = refused(verb(mpich, "run", *ranks, "-o", folder, "app.py"), app.parent, 1)
            assert wrong in line and "-o" in line and "--or-bare" in line
    assert "Permission denied" in refused(verb(mpich, "run", "../app.py"), closed, 1)
    gone = ["sh", "-c", 'mkdir gone; cd gone; rmdir ../gone; "$@"', "sh"]
    assert "folder no longer exists" in refused(
        [*gone, *verb(mpich, "run", str(app))], app.parent, 1
    )
    assert sorted(path.name for path in app.parent.iterdir()) == [
        "app.py", "closed", "dangling", "file"
    ]  # fmt: skip


def test_a_full_disk(mpich: Mpi, app: Path, small_disk: Path) -> None:
    if not small_disk.is_mount():
        pytest.skip("no small disk can be mounted here")
    with (small_disk / "filling").open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, (1 << 20) - (100 << 10))
    line = refused(verb(mpich, "run", "-o", str(small_disk / "t"), "app.py"), app.parent, 1)
    assert "the disk is full" in line


def test_a_job_ends_with_one_line(mpi: Mpi, app: Path) -> None:
    """On 3 ranks: Hydra alone would leave a rank waiting for a rank that has exited."""
    (app.parent / "file").touch()
    old = app.parent / "old"
    old.mkdir()
    (old / "meta.json").write_text("{}")
    os.utime(old / "meta.json", (1, 1))
    cases = [
        (["-o", "file/below"], 1, "is not a folder"),
        (["-o", "old"], 2, "already holds a trace"),  # only rank 0 checks this
        (["--switch", "nothing.json"], 2, "no such file"),
    ]
    for options, code, wrong in cases:
        done = run_failing_mpi(mpi, 3, verb(mpi, "run", *options, "app.py"), cwd=app.parent)
        assert (done.returncode, done.stdout) == (code, "")
        (line,) = our_lines(done.stderr)
        assert wrong in line


def test_an_error_on_one_rank_is_reported(mpi: Mpi, app: Path) -> None:
    """On 2 ranks: an error on the second rank only is reported."""
    ranks = "${PMI_RANK:-$OMPI_COMM_WORLD_RANK}"
    (app.parent / "plan0.json").write_text("[]")
    words = " ".join(verb(mpi, "run", "--switch", f"plan{ranks}.json", "app.py"))
    done = run_failing_mpi(mpi, 2, ["sh", "-c", f"exec {words}"], cwd=app.parent)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = our_lines(done.stderr)
    assert "plan1.json: no such file" in line


def test_a_mistake_inside_a_job_is_not_the_jobs(mpich: Mpi, app: Path) -> None:
    """On 2 ranks: the first rank starts mpiprof again with an error, and the job continues."""
    inner = " ".join(verb(mpich, "run", "nothing.py"))
    outer = app.parent / "outer.py"
    outer.write_text(
        f"import os\n{APP}if MPI.COMM_WORLD.rank == 0:\n    os.system({inner!r})\n"
        "MPI.COMM_WORLD.Barrier()\n"
    )
    done = run_mpi(mpich, 2, [mpich.python, outer], cwd=app.parent, check=True)
    assert "nothing.py: no such script" in done.stderr


def test_or_bare_goes_on(mpi: Mpi, app: Path) -> None:
    """On 2 ranks: the job runs unrecorded and without selection, each reported once."""
    (app.parent / "file").touch()
    words = verb(mpi, "run", "-o", "file/below", "--switch", "no.json", "--or-bare", "app.py")
    done = run_mpi(mpi, 2, words, cwd=app.parent, check=True)
    assert done.stdout.replace("\n", "") == "ranran"
    switched, recorded = our_lines(done.stderr)
    assert "without selection" in switched and "unrecorded" in recorded
    done = run(verb(mpi, "run", "-n", "2", *words[4:]), cwd=app.parent, check=True)
    assert done.stdout.replace("\n", "") == "ranran" and len(our_lines(done.stderr)) == 2


OPTIONS = {
    "--summary-to": ("none/s.prom", "no summary is written"),
    "--machine": ("none.json", "the machine is measured or unknown"),
    "--learn": ("none/l.jsonl", "nothing is learned"),
    "--on-hang": ("no-such-program", "a hang starts no command"),
}


def both_launches(mpi: Mpi, *words: str) -> list[list[str]]:
    """Return the command lines of `run` with these words on 2 ranks: by mpiexec, and by `-n 2`."""
    return [[*mpi.mpiexec(2), *verb(mpi, "run", *words)], verb(mpi, "run", "-n", "2", *words)]


def test_or_bare_without_the_files_of_options(mpi: Mpi, app: Path) -> None:
    """On 2 ranks: the job is recorded, and each option without its file is reported once."""
    options = [word for option, (value, _) in OPTIONS.items() for word in (option, value)]
    options += ["--switch", "auto", "--watch", "60s", "--or-bare"]
    for command in both_launches(mpi, "-q", "-o", "t", *options, "app.py"):
        done = run(command, cwd=app.parent, check=True)
        assert done.stdout.replace("\n", "") == "ranran"
        lines = our_lines(done.stderr)
        for value, effect in OPTIONS.values():
            (line,) = [line for line in lines if value in line]
            assert line.endswith(f"; {effect} (--or-bare)")
        assert len(lines) == len(OPTIONS) and mpiprof.open(app.parent / "t").is_complete
        shutil.rmtree(app.parent / "t")


def test_or_bare_without_a_recorder(mpi: Mpi, app: Path) -> None:
    """On 2 ranks, as after a partial installation."""
    (app.parent / "sitecustomize.py").write_text(
        "from pathlib import Path\nfrom mpiprof.interface import installation\n"
        "installation.library_folder = lambda: Path('/none')\n"
    )
    environment = {"PYTHONPATH": str(app.parent)}
    fact = "is missing: install mpiprof again"
    done = run(verb(mpi, "run", "-n", "2", "app.py"), cwd=app.parent, env=environment)
    assert (done.returncode, done.stdout) == (1, "") and fact in done.stderr
    for command in both_launches(mpi, "--or-bare", "app.py"):
        done = run(command, cwd=app.parent, env=environment, check=True)
        assert done.stdout.replace("\n", "") == "ranran"
        (line,) = our_lines(done.stderr)
        assert line.endswith(f"{fact}; the program runs unrecorded (--or-bare)")


def test_or_bare_on_one_rank(mpi: Mpi, app: Path) -> None:
    """On 3 ranks: a rank that cannot write takes part, because the others expect it."""
    (app.parent / "file").touch()
    folder = '"$([ ${PMI_RANK:-$OMPI_COMM_WORLD_RANK} = 1 ] && echo file/x || echo t)"'
    words = " ".join(verb(mpi, "run", "--or-bare", "-o", folder, "app.py"))
    done = run_mpi(mpi, 3, ["sh", "-c", f"exec {words}"], cwd=app.parent, check=True)
    assert done.stdout.replace("\n", "") == "ran" * 3
    assert {path.name for path in (app.parent / "t").glob("*.log")} == {
        "rank-000000.log", "rank-000002.log"
    }  # fmt: skip


def test_more_ranks_than_can_be_meant(mpich: Mpi, app: Path) -> None:
    many = str(64 * len(os.sched_getaffinity(0)) + 1)
    for ranks in (many, "100000", "2147483647"):
        line = refused(verb(mpich, "run", "-n", ranks, "app.py"), app.parent, 2)
        assert f"-n {ranks} is more than 64 ranks" in line and "--yes" in line
    for ranks in ("0", "-1", "2147483648", "1" * 30, "1e3", "", "x"):
        assert "argument -n" in refused(verb(mpich, "run", "-n", ranks, "app.py"), app.parent, 2)
    words = verb(mpich, "run", "-n", many, "--yes", "--mpi", "openmpi", "app.py")
    assert "contradicts" in refused(words, app.parent, 2)  # only the next check fails


def test_folders_of_any_name_and_a_bare_environment(mpich: Mpi, app: Path) -> None:
    """On 1 rank: folder names with special characters work, also without HOME or standard input."""
    for name in ("a b:c\nd", "-x", "ü$'\"", "%s"):
        words = verb(mpich, "run", "-q", f"-o{name}", "app.py")
        run(["env", "-u", "HOME", *words], cwd=app.parent, check=True)
        assert (app.parent / name / "meta.json").exists()
    closed = ["sh", "-c", 'exec "$@" <&-', "sh", *verb(mpich, "run", "-q", "-o", "in", "app.py")]
    run(closed, cwd=app.parent, check=True)
    assert (app.parent / "in" / "meta.json").exists()


def test_an_unreadable_file_is_reported(mpich: Mpi, app: Path) -> None:
    run(verb(mpich, "run", "-q", "-o", "mpiprof-t", "app.py"), cwd=app.parent, check=True)
    trace = app.parent / "mpiprof-t"
    trace.chmod(0)
    for words in (["report"], ["status"], ["export", "--to", "csv", "-o", "x"], ["tune"]):
        for named in ([], [str(trace)]):
            line = refused(verb(mpich, *words, *named), app.parent, 1)
            assert "cannot be read: Permission denied" in line
    trace.chmod(0o700)
    (trace / "meta.json").chmod(0)
    done = run([*ORDINARY, *verb(mpich, "report", str(trace))], check=True)
    assert "meta.json cannot be read: Permission denied" in done.stdout
    (app.parent / "plan.json").write_text("[]")
    (app.parent / "plan.json").chmod(0)
    for option in ("--switch", "--machine"):
        line = refused(verb(mpich, "run", option, "plan.json", "app.py"), app.parent, 2)
        assert "Permission denied" in line


def test_folder_of_a_job_that_has_just_ended(mpi: Mpi, app: Path, tmp_path: Path) -> None:
    """On 2 ranks, twice: a second launcher may start within the clock tick of the last write."""
    words = verb(mpi, "run", "-q", "-o", "t", app.name)
    assert run_mpi(mpi, 2, words, cwd=tmp_path).returncode == 0
    for path in (tmp_path / "t").iterdir():  # as if written after the second launcher's start
        os.utime(path, (time.time() + 60,) * 2, follow_symlinks=False)
    again = run_failing_mpi(mpi, 2, words, cwd=tmp_path)
    assert again.returncode == 2 and "already holds a trace" in again.stderr


@pytest.mark.parametrize(
    ("options", "launch", "remedy"),
    [
        ([], ["mpiexec", "-n", "2", "app.py", "-x"], "mpiexec -n 2 {} run app.py -x"),
        (["-n", "2"], ["mpiexec", "app.py"], "mpiexec -n 2 {} run app.py"),
        (["-n", "3"], ["mpirun", "-np", "2", "app.py"], "mpirun -np 2 {} run app.py"),
        (["-n", "2"], ["srun"], "srun -n 2 {} run app"),
    ],
)
def test_a_launcher_as_the_program(
    options: list[str], launch: list[str], remedy: str, mpich: Mpi, app: Path
) -> None:
    line = refused(verb(mpich, "run", *options, *launch), app.parent, 2)
    assert f"{launch[0]} starts the ranks" in line
    assert f"`{remedy.format(f'{mpich.python} -m mpiprof')}`" in line
