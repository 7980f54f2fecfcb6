"""Python exceptions that end a rank or a thread are recorded, and the program stays as it is."""

from __future__ import annotations

import re
import signal
from functools import partial
from pathlib import Path

import pytest
from support import PROGRAMS
from support.compilation import compiled
from support.jobs import end, run, start
from support.mpis import Mpi
from support.wait_until import wait_until

import mpiprof
from mpiprof.errors import TraceError
from mpiprof.hang.words import verdict_text

PROGRAM = PROGRAMS / "exceptions_raised.py"
LINES = PROGRAM.read_text().splitlines()
TESTS = PROGRAMS / "exceptions_pytest.py"
PYTEST = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no", "-W", "ignore", str(TESTS))
# How the program ends, and the recorded (how, type, message, line of the source that raised it).
CASES = {
    "uncaught": ("uncaught", "ValueError", "bad shape " + "x" * 190, "ValueError("),
    "own text": ("uncaught", "SilentError", "", "SilentError("),
    "own hook": ("uncaught", "RuntimeError", "own hook", "RuntimeError("),
    "exit hook": ("uncaught", "RuntimeError", "exit hook", "RuntimeError("),
    "abort hook": ("uncaught", "RuntimeError", "abort hook", "RuntimeError("),
    "thread": ("thread", "KeyError", "'key'", "lambda: EMPTY"),
    "thread hook": ("thread", "KeyError", "'key'", "lambda: EMPTY"),
    "interrupt": ("uncaught", "KeyboardInterrupt", "", "raise KeyboardInterrupt"),
    "abort": ("abort", "FileNotFoundError", "[Errno 2] no input", "raise OSError"),
    "thread abort": None,
    "abort alone": None,
    "exit": None,
    "thread exit": None,
    "handled": None,
}
# Numbers that differ between runs of one program.
VOLATILE = re.compile(r"\[[^\]\s]*:\d+\]|0x[0-9a-f]+|Thread-\d+|in [0-9.]+s")


@pytest.mark.parametrize("how", CASES)
def test_an_exception_is_recorded_and_the_program_is_as_without(
    how: str, mpi: Mpi, tmp_path: Path
) -> None:
    """One rank without a launcher, bare and recorded: same exit code and same standard error."""
    words = [str(mpi.python), str(PROGRAM), how]
    bare = run(words, cwd=tmp_path)
    folder = tmp_path / "t"
    recorded = run(
        [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder), "--", *words],
        cwd=tmp_path,
    )
    assert recorded.returncode == bare.returncode
    assert VOLATILE.sub("", recorded.stderr) == VOLATILE.sub("", bare.stderr)
    expected = CASES[how]
    if how == "thread abort":
        ways = [raised.how for raised in mpiprof.open(folder).tables.exceptions[0]]
        assert ways == ["thread", "abort"]
        return
    exceptions = mpiprof.open(folder).tables.exceptions.get(0, [])
    if expected is None:
        assert exceptions == []
        return
    (raised,) = exceptions
    assert (raised.how, raised.type, raised.message) == expected[:3]
    assert raised.frame is not None and raised.frame["file"] == str(PROGRAM)
    assert expected[3] in LINES[raised.frame["line"] - 1]


def verdict_of(folder: Path) -> str:
    """Return the verdict on a job that runs, "" before its trace can be read."""
    try:
        text = verdict_text.trace_verdict(mpiprof.open(folder))[1]
    except TraceError:
        return ""
    return text if "raised" in text or "failed" in text else ""


def test_a_verdict_names_the_exception_for_which_the_others_wait(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: rank 1 raises, and mpi4py waits in MPI_Finalize for rank 0, or aborts."""
    folder = tmp_path / "t"
    record = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder), "--"]
    job = start([*mpi.mpiexec(2), *record, str(mpi.python), str(PROGRAM), "own hook"])
    try:
        text = wait_until(partial(verdict_of, folder), "the verdict names the exception", job)
    finally:
        end(job)
    line = next(i for i, text in enumerate(LINES, 1) if "RuntimeError(" in text)
    where = f"exceptions_raised.py:{line} act"
    assert text.startswith(f"Rank 1 raised RuntimeError (own hook) at {where} and has left."), text
    assert "may be the reason" not in text


def test_the_exception_of_a_failed_test_is_recorded(mpi: Mpi, tmp_path: Path) -> None:
    """One rank without a launcher: pytest prints the same and returns the same exit code."""
    python = str(mpi.python)
    bare = run([python, *PYTEST], cwd=tmp_path)
    words = [python, "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "t"), "--"]
    recorded = run([*words, python, *PYTEST], cwd=tmp_path)
    assert recorded.returncode == bare.returncode == pytest.ExitCode.TESTS_FAILED
    assert VOLATILE.sub("", recorded.stdout) == VOLATILE.sub("", bare.stdout)
    (raised,) = mpiprof.open(tmp_path / "t").tables.exceptions[0]
    assert (raised.how, raised.type, raised.message) == ("test", "ValueError", "bad shape 3")
    assert raised.frame is not None and raised.frame["function"] == "check_shape"


def test_a_verdict_names_the_test_that_failed_on_one_rank(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: rank 0 waits in the barrier that rank 1 has left out."""
    folder = tmp_path / "t"
    record = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder), "--"]
    job = start([*mpi.mpiexec(2), *record, str(mpi.python), *PYTEST])
    try:
        text = wait_until(partial(verdict_of, folder), "the verdict names the test", job)
    finally:
        end(job)
    sentence = "A test failed on rank 1: ValueError (bad shape 3) at exceptions_pytest.py:"
    assert text.startswith(sentence), text


@pytest.mark.parametrize("how", ["throw", "abort"])
def test_the_type_of_a_c_plus_plus_exception_is_recorded(
    how: str, openmpi: Mpi, tmp_path: Path
) -> None:
    """One rank without a launcher ends as it does without mpiprof."""
    compiler = str(openmpi.bin / f"mpicxx{openmpi.suffix}")
    program = compiled(openmpi, "exceptions_raised.cpp", compiler=compiler)
    bare = run([program, how], cwd=tmp_path)
    words = [str(openmpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "t"), "--"]
    recorded = run([*words, program, how], cwd=tmp_path)
    assert recorded.returncode == bare.returncode == -signal.SIGABRT
    trace = mpiprof.open(tmp_path / "t")
    raised = [(of.how, of.type) for of in trace.tables.exceptions.get(0, [])]
    assert raised == ([("c++", "std::runtime_error")] if how == "throw" else [])
    text = verdict_text.trace_verdict(trace)[1]
    assert text.startswith("Rank 0 raised std::runtime_error and has left.") == (how == "throw")
    assert "Rank 0 died of SIGABRT before MPI_Finalize" in text
