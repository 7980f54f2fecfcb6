"""However a program ends and whatever fails around it, the recorder loses and harms nothing."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest
from support import raw_trace
from support.compilation import compiled
from support.jobs import WITHOUT_UCX, clean_environment, run, run_mpi, run_verb
from support.mpis import Mpi
from support.wait_until import HANG_S

import mpiprof

CALLS = 20000
SITES = 100_000
COMMA = """comment_char %
escape_char /
LC_NUMERIC
decimal_point ","
thousands_sep ""
grouping -1
END LC_NUMERIC
"""


@pytest.fixture
def failing(mpi: Mpi) -> Path:
    """Compile the program that ends in many ways."""
    return compiled(mpi, "exit_modes.c")


def letters(output: str) -> list[str]:
    """Return the sorted characters of the output, because launchers mix the lines of ranks."""
    return sorted(output)


def words_for(mpi: Mpi, trace: Path, *options: str) -> list[str]:
    """Return the command line that records a program into a folder."""
    return [str(mpi.python), "-m", "mpiprof", "run", "-o", str(trace), *options]


def recorded_calls(trace: Path, operation: str = "allreduce") -> int:
    """Return the number of closed records."""
    events = mpiprof.open(trace).events
    return int(((events["operation"] == operation) & events["exit_ns"].notna()).sum())


@pytest.mark.parametrize(
    ("how", "code"), [("kill", -9), ("segv", -11), ("_exit", 9), ("exit", 6), ("abort", 5)]
)
def test_every_closed_record_is_there(
    how: str, code: int, mpi: Mpi, failing: Path, tmp_path: Path
) -> None:
    """On 1 rank without a launcher, so that exit code and signal are visible unchanged."""
    trace = tmp_path / "trace"
    ended = run([*words_for(mpi, trace), "--", failing, how, str(CALLS)], env=WITHOUT_UCX)
    bare = run([failing, how, str(CALLS)], env=WITHOUT_UCX)
    assert (ended.returncode, ended.stdout) == (bare.returncode, bare.stdout)
    if how != "abort":  # Open MPI's singleton ends by another signal there
        assert ended.returncode == code
    opened = mpiprof.open(trace)
    assert not opened.is_complete
    assert opened.problems
    assert recorded_calls(trace) == CALLS
    assert raw_trace.read(trace).ends() == ({0: "abort"} if how == "abort" else {})


@pytest.mark.parametrize("how", ["kill", "abort"])
def test_killed_job_on_2_ranks(how: str, mpi: Mpi, failing: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    ended = run_mpi(mpi, 2, [*words_for(mpi, trace), "--", failing, how, "3000"])
    assert ended.returncode != 0
    assert not mpiprof.open(trace).is_complete
    # The launcher may have killed the second rank before it finished.
    assert 3000 <= recorded_calls(trace) <= 6000
    assert run_verb("report", trace)[0] == 0


def test_exit_code_is_that_of_the_program(mpi: Mpi, failing: Path, tmp_path: Path) -> None:
    """On 1 rank: the exit code is the program's, and the trace is complete."""
    ended = run([*words_for(mpi, tmp_path / "trace"), "--", failing, "code", "100"])
    assert ended.returncode == 11
    assert ended.stdout == "rank 0 made 100\n"
    assert mpiprof.open(tmp_path / "trace").is_complete


def test_never_initialised(mpi: Mpi, failing: Path, tmp_path: Path) -> None:
    """On 1 rank: a program without MPI_Init runs unchanged; one line states the missing trace."""
    ended = run([*words_for(mpi, tmp_path / "trace"), "--", failing, "nothing"])
    assert (ended.returncode, ended.stdout) == (7, "")
    assert ended.stderr.startswith("mpiprof: no MPI call was recorded: ")
    assert ended.stderr.count("\n") == 1
    assert not (tmp_path / "trace").exists()


def test_forked_children_write_nothing(mpi: Mpi, failing: Path, tmp_path: Path) -> None:
    """On 2 ranks: children that end by exit, _exit and abort add nothing to the trace."""
    trace = tmp_path / "trace"
    run_mpi(mpi, 2, [*words_for(mpi, trace), "--", failing, "fork", "500"], check=True)
    assert mpiprof.open(trace).is_complete
    assert recorded_calls(trace) == 1000
    ends = [line for line in raw_trace.read(trace).lines if "end" in line]
    assert len(ends) == 4  # one of each rank before MPI_Finalize and one after it


def test_forked_python_leaves_the_log_alone(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: a forked child calls MPI functions that are legal there, and writes no record.

    mpi4py would finalise MPI at the child's exit too.
    """
    program = tmp_path / "program.py"
    program.write_text(
        "import os\nfrom mpi4py import MPI\nMPI.COMM_SELF.Barrier()\n"
        "if os.fork() == 0:\n"
        "    MPI.Pcontrol(2); os._exit(0)\n"
        "os.wait(); MPI.COMM_SELF.Barrier()\n"
    )
    run_mpi(mpi, 1, [*words_for(mpi, tmp_path / "trace"), program], check=True)
    assert mpiprof.open(tmp_path / "trace").is_complete
    assert recorded_calls(tmp_path / "trace", "barrier") == 2


def test_file_size_limit(mpi: Mpi, failing: Path, tmp_path: Path) -> None:
    """On 1 rank: SIGXFSZ does not occur, and dropped records are counted and reported."""
    trace = tmp_path / "trace"
    ended = run([*words_for(mpi, trace), "--", failing, "small-files", str(CALLS)])
    assert (ended.returncode, ended.stdout) == (0, f"rank 0 made {CALLS}\n")
    opened = mpiprof.open(trace)
    assert not opened.is_complete
    assert opened.dropped_records > 0
    assert recorded_calls(trace) + opened.dropped_records == CALLS
    assert ended.stderr.count("recording stops") == 1
    assert "File too large" in ended.stderr
    assert f"{opened.dropped_records} calls are missing" in ended.stderr


def test_disk_full_of_records(mpi: Mpi, failing: Path, small_disk: Path) -> None:
    """On 2 ranks: a full disk stops recording only.

    If there is no small disk, a limit of the file size replaces it.
    """
    trace = small_disk / "trace"
    how = "plain" if os.path.ismount(small_disk) else "small-files"
    ended = run_mpi(mpi, 2, [*words_for(mpi, trace), "--", failing, how, str(CALLS)], check=True)
    assert letters(ended.stdout) == letters("".join(f"rank {i} made {CALLS}\n" for i in range(2)))
    opened = mpiprof.open(trace)
    assert not opened.is_complete
    retained = recorded_calls(trace) + recorded_calls(trace, "finalize")
    assert retained + opened.dropped_records == 2 * (CALLS + 1)
    # The space that the first stopped rank leaves may suffice for the other.
    stopped = ended.stderr.count("recording stops")
    assert stopped in (1, 2)
    # A rank may stop when it logs the interval after its last call.
    assert 1 <= ended.stderr.count("calls are missing") <= stopped


def many_sites(folder: Path) -> Path:
    """Write a program with many call sites."""
    program = folder / "program.py"
    program.write_text(
        "from mpi4py import MPI\n"
        f"for i in range({SITES // 100}):\n"
        "    exec('def f(b):\\n' + '\\n' * 100 * i + '    b()\\n' * 100)\n"
        "    f(MPI.COMM_SELF.Barrier)\n"
        "print('done')\n"
    )
    return program


def test_disk_full_of_call_sites(mpi: Mpi, tmp_path: Path, small_disk: Path) -> None:
    """On 1 rank: a disk full of call sites stops recording once, and drops are counted."""
    if not os.path.ismount(small_disk):
        small_disk = tmp_path / "free"
    trace = small_disk / "trace"
    ended = run_mpi(mpi, 1, [*words_for(mpi, trace), many_sites(tmp_path)], check=True)
    assert ended.stdout == "done\n"
    opened = mpiprof.open(trace)
    assert recorded_calls(trace, "barrier") + opened.dropped_records == SITES
    assert ended.stderr.count("recording stops") == (small_disk.name == "disk")


@pytest.mark.slow
def test_100000_call_sites(mpich: Mpi, tmp_path: Path) -> None:
    """On 1 rank: 100,000 call sites are recorded; the MPI makes no difference."""
    trace = tmp_path / "trace"
    ended = run_mpi(mpich, 1, [*words_for(mpich, trace), many_sites(tmp_path)], check=True)
    assert ended.stdout == "done\n"
    assert mpiprof.open(trace).is_complete
    lines = (trace / "rank-000000.tables").read_text().splitlines()
    sites = [json.loads(line)["frames"][0] for line in lines if '"frames"' in line]
    assert len({(site["file"], site["line"]) for site in sites}) == SITES


@pytest.mark.parametrize(("how", "code"), [("well", 0), ("code", 11)])
def test_folder_that_cannot_be_made(
    how: str, code: int, mpi: Mpi, failing: Path, tmp_path: Path
) -> None:
    """On 2 ranks: below a file there can be no folder, even for root.

    A launcher drops output once a rank ends with a code other than 0.
    """
    (tmp_path / "file").write_text("")
    words = [*words_for(mpi, tmp_path / "file" / "trace"), "--or-bare"]
    ended = run_mpi(mpi, 2, [*words, "--", failing, how, "100"])
    assert ended.returncode == code
    if code == 0:
        assert letters(ended.stdout) == letters("rank 0 made 100\nrank 1 made 100\n")
        printed = [line for line in ended.stderr.splitlines() if line.startswith("mpiprof: ")]
        assert len(printed) == 1
        assert "the program runs unrecorded" in printed[0]


def test_folder_taken_away(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: removing the folder loses the trace, not the program."""
    program = tmp_path / "program.py"
    program.write_text(
        "import shutil, sys\nfrom mpi4py import MPI\nMPI.COMM_SELF.Barrier()\n"
        "shutil.rmtree(sys.argv[1])\n"
        "for i in range(9000): MPI.COMM_SELF.Barrier()\n"
    )
    words = [*words_for(mpi, tmp_path / "trace"), str(program), str(tmp_path / "trace")]
    run_mpi(mpi, 1, words, check=True)
    assert not list(tmp_path.glob("trace/*"))


def test_few_descriptors(mpi: Mpi, failing: Path, tmp_path: Path) -> None:
    """On 1 rank: a descriptor limit below mpiprof's usual numbers, before and during the run."""
    trace = tmp_path / "trace"
    words = words_for(mpi, trace)
    script = 'ulimit -n 128; exec "$@"'
    run(["sh", "-c", script, "sh", *words, "--", failing, "plain", str(CALLS)], check=True)
    assert mpiprof.open(trace).is_complete
    assert recorded_calls(trace) == CALLS
    later = tmp_path / "later"
    run([*words_for(mpi, later), "--", failing, "few-descriptors", str(CALLS)], check=True)
    assert recorded_calls(later) == CALLS


def test_descriptors_closed_and_used_again(mpich: Mpi, tmp_path: Path) -> None:
    """On 1 rank: no output of mpiprof reaches files that reuse its descriptor numbers."""
    program, data, trace = compiled(mpich, "exit_modes.c"), tmp_path / "data", tmp_path / "trace"
    words = [*words_for(mpich, trace), "--", str(program), "reuse", str(CALLS), str(data)]
    ended = run(words, check=True)
    assert data.stat().st_size == 0
    assert ended.stdout == f"rank 0 made {CALLS}\n"
    assert ended.stderr.count("closed by the program") == 1
    opened = mpiprof.open(trace)
    assert recorded_calls(trace) + opened.dropped_records == CALLS


def test_standard_error_used_again(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: the final messages must not reach the program's file."""
    program, data = tmp_path / "program.py", tmp_path / "data"
    program.write_text(
        "import os, sys\nfrom mpi4py import MPI\nos.close(2)\n"
        "assert os.open(sys.argv[1], os.O_CREAT | os.O_RDWR) == 2\nMPI.COMM_SELF.Barrier()\n"
    )
    run_mpi(mpi, 1, [*words_for(mpi, tmp_path / "trace"), program, data], check=True)
    assert data.read_text() == ""
    assert mpiprof.open(tmp_path / "trace").is_complete


def test_locale_with_a_decimal_comma(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: the program prints decimal commas, and the trace has decimal points."""
    if not Path("/usr/share/i18n/charmaps").is_dir():
        pytest.skip("no locales to make one of: apt-get install locales")
    (tmp_path / "comma").write_text(COMMA)
    (tmp_path / "locales").mkdir()
    made = str(tmp_path / "locales" / "xx")
    # localedef warns of the missing categories, and its exit code reflects that.
    run(["localedef", "-c", "-i", tmp_path / "comma", "-f", "ANSI_X3.4-1968", made])
    env = {"LOCPATH": str(tmp_path / "locales"), "LC_ALL": "xx"}
    program, trace = compiled(mpi, "init_locale.c"), tmp_path / "trace"
    words = words_for(mpi, trace, "-q", "--switch", "auto")
    ended = run_mpi(mpi, 2, [*words, "--", program], env=env, check=True)
    assert letters(ended.stdout) == letters("1,5 1,5\n1,5 2,5\n")
    machine = json.loads((trace / "meta.json").read_text())["machine"]
    assert machine["within"]["alpha_ns"] > 0
    assert recorded_calls(trace) == 100


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
def test_output_piped_and_closed(stream: str, mpi: Mpi, failing: Path, tmp_path: Path) -> None:
    """On 1 rank: with the reader gone, mpiprof's messages must not raise SIGPIPE."""
    reader, writer = os.pipe()
    os.close(reader)
    words = [*words_for(mpi, tmp_path / "trace"), "--", str(failing), "code", "100"]
    process = subprocess.run(
        words,
        stdin=subprocess.DEVNULL,
        stdout=writer if stream == "stdout" else subprocess.DEVNULL,
        stderr=writer if stream == "stderr" else subprocess.DEVNULL,
        env=clean_environment(),
        timeout=HANG_S,
        check=False,
    )
    os.close(writer)
    # The program's own line on a closed output has the same effect bare and recorded.
    assert process.returncode == (11 if stream == "stderr" else -signal.SIGPIPE)


def test_elsewhere_and_without_environment(mpi: Mpi, failing: Path, tmp_path: Path) -> None:
    """On 1 rank: the program changes its folder and clears its environment."""
    words = [str(mpi.python), "-m", "mpiprof", "run", "-o", "trace", "--", str(failing)]
    ended = run([*words, "elsewhere", str(CALLS)], cwd=tmp_path, check=True)
    assert mpiprof.open(tmp_path / "trace").is_complete
    assert recorded_calls(tmp_path / "trace") == CALLS
    assert str(tmp_path / "trace") in ended.stderr


def test_standard_input_passes_through(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: the program reads its standard input unchanged."""
    program = tmp_path / "program.py"
    program.write_text(
        "import sys\nfrom mpi4py import MPI\nMPI.COMM_SELF.Barrier()\nprint(sys.stdin.read())\n"
    )
    words = [*words_for(mpi, tmp_path / "trace"), str(program)]
    ended = subprocess.run(
        words,
        input="a b c",
        capture_output=True,
        text=True,
        env=clean_environment(),
        timeout=HANG_S,
        check=True,
    )
    assert ended.stdout == "a b c\n"


def test_library_passes_through_other_programs(mpi: Mpi) -> None:
    """Every library can be preloaded into a program without MPI."""
    folder = run(
        [mpi.python, "-c", "from mpiprof.interface.installation import *; print(library_folder())"]
    )
    libraries = sorted(Path(folder.stdout.strip()).glob("libmpiprof-*.so"))
    assert len(libraries) >= 7
    for library in libraries:
        ended = run([shutil.which("true") or "true"], env={"LD_PRELOAD": str(library)})
        assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_an_abandoned_call_does_not_silence_later_ones(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: later calls are recorded after an error handler leaves a broadcast by longjmp."""
    program = compiled(mpi, "errors_longjmp.c")
    trace = tmp_path / "trace"
    ended = run_mpi(mpi, 2, [*words_for(mpi, trace), "--", str(program)], check=True)
    assert ended.stdout.count("sum 2") == 2
    assert recorded_calls(trace) == 6


def test_a_summary_has_the_signal(mpi: Mpi, failing: Path, tmp_path: Path) -> None:
    """On 1 rank: a summary, which has only the window of the totals, also has the signal."""
    trace = tmp_path / "trace"
    run([*words_for(mpi, trace), "--record", "summary", "--", failing, "segv", "100"])
    assert mpiprof.open(trace).logs.signals == {0: 11}
