"""Signals: a rank that dies of a signal has it in its log, invisibly to the program.

tests/programs/signals_debugger.c is a small debugger. Its report of the last signal (code, address,
sender, value) equals the contents of a core file.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from support import PROGRAMS
from support.compilation import compiled
from support.jobs import run
from support.mpis import Mpi

import mpiprof
from mpiprof.trace.writer import CHUNK_BYTES, HEADER_BYTES

ASKED = ["query", "earlier"]
GOES_ON = ["chain", "wait", "file", "jump", "ignore", "child"]
ENDED_BY = {
    "kill": 15, "queue": 15, "timer": 15, "raise": 11, "abort": 6, "thread": 11,
    "segv": 11, "bus": 7, "fpe": 8, "ill": 4, "other-stack": 11,
}  # fmt: skip
PUT_BACK = {"nested": 15, "signal-back": 15, "sigaction-back": 15, "later": 15}


@pytest.fixture(scope="module")
def debugger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the program that reports the signal by which a program ends."""
    executable = tmp_path_factory.mktemp("debugger") / "last_signal"
    run(
        ["cc", "-Wall", "-Wextra", "-Werror", "-o", executable, PROGRAMS / "signals_debugger.c"],
        check=True,
    )
    return executable


def program(mpi: Mpi) -> Path:
    """Compile the program that receives signals."""
    return compiled(mpi, "signals_received.c", "-O1", "-pthread", "-Wno-infinite-recursion")


def both(mpi: Mpi, words: list[str | Path], way: str, folder: Path) -> tuple[str, str]:
    """Return the output bare and recorded, on 1 rank without a launcher."""
    recorder: list[str | Path] = [mpi.python, "-m", "mpiprof", "run", "-q", "-o"]
    recorder += [folder / "trace", "--"]
    bare = run([*words, program(mpi), way], cwd=folder)
    wrapped = run([*words, *recorder, program(mpi), way], cwd=folder)
    assert wrapped.returncode == bare.returncode
    return bare.stdout, wrapped.stdout


@pytest.mark.parametrize("way", [*ASKED, *GOES_ON, *ENDED_BY, *PUT_BACK])
def test_signals(way: str, mpi: Mpi, debugger: Path, tmp_path: Path) -> None:
    """Signal queries, received signals and the end of a program are the same as without mpiprof."""
    bare, wrapped = both(mpi, [debugger], way, tmp_path)
    assert wrapped == bare
    number = (ENDED_BY | PUT_BACK).get(way)
    assert ("ended 0 by 0:" if number is None else f"ended 1 by {number}:") in wrapped
    noted = mpiprof.open(tmp_path / "trace").logs.signals
    assert noted.get(0, 0) == ENDED_BY.get(way, 0)


def test_the_last_records_of_a_killed_rank_have_checksums(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: after a signal other than SIGKILL, one changed digit of a time is detected."""
    both(mpi, [], "kill", tmp_path)
    whole = mpiprof.open(tmp_path / "trace")
    assert len(whole.events) and not whole.logs.is_damaged
    (log,) = (tmp_path / "trace").glob("*.log")
    content = bytearray(log.read_bytes())
    first = CHUNK_BYTES + HEADER_BYTES
    content[first] ^= 1  # a byte of the first record's enter_ns
    log.write_bytes(content)
    damaged = mpiprof.open(tmp_path / "trace")
    assert not len(damaged.events) and damaged.logs.is_damaged


def test_stack_overflow(mpi: Mpi, tmp_path: Path) -> None:
    """Without stack space for a handler, the program ends by the same signal."""
    both(mpi, [], "stack", tmp_path)


LATE_PYTHON = """
import ctypes, os, signal, sys
from mpi4py import MPI
print(*(signal.getsignal(n) for n in (signal.SIGTERM, signal.SIGILL)))
c = ctypes.CDLL(None)
c.signal.restype = ctypes.c_void_p
print(c.signal(signal.SIGTERM, None), flush=True)
if sys.argv[1] == "fault":
    import faulthandler
    faulthandler.enable()
    ctypes.string_at(0)
os.kill(os.getpid(), signal.SIGTERM)
"""


@pytest.mark.parametrize(("way", "number"), [("fault", 11), ("term", 15)])
def test_python(way: str, number: int, mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: Python prints its list of frames at a fault, and the process dies of it."""
    words: list[str | Path] = [mpi.python, "-c", LATE_PYTHON, way]
    bare = run(words)
    recorder: list[str | Path] = [mpi.python, "-m", "mpiprof", "run", "-q", "-o"]
    recorder += [tmp_path / "trace", "--"]
    wrapped = run([*recorder, *words])
    assert (wrapped.returncode, wrapped.stdout) == (bare.returncode, bare.stdout)
    assert bare.returncode == -number
    assert wrapped.stderr.count("Fatal Python error") == (1 if way == "fault" else 0)


@pytest.mark.parametrize("number", [10, 12])
def test_handler_copied_to_another_signal(number: int, mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: a runtime copies the handler to a signal that had none."""
    program = compiled(mpi, "signals_shared_handler.c")
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "a"), "--"]
    ended = run([*words, program, str(number)])
    assert (ended.returncode, ended.stdout) == (-number, "the same\n")
    assert list((tmp_path / "a").glob("rank-*.log"))
