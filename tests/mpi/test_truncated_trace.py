"""Another process truncates mapped files of a trace: the program continues."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.compilation import compiled
from support.jobs import run, run_mpi
from support.mpis import Mpi

import mpiprof
from mpiprof.errors import TraceError
from mpiprof.trace.writer import CHUNK_BYTES

WAYS = ("default", "handler", "info", "once", "ignore", "block", "thread")
BUS = 7


def program(mpi: Mpi) -> Path:
    """Compile the program that truncates its trace."""
    return compiled(mpi, "tracefile_truncated.c", "-O1", "-pthread", "-Wno-infinite-recursion")


def recorded(mpi: Mpi, folder: Path, *options: str) -> list[str | Path]:
    """Return the command line that records into a folder."""
    return [mpi.python, "-m", "mpiprof", "run", "-o", folder, *options, "--"]


def message_count(stderr: str) -> int:
    """Return the number of messages that recording stops."""
    return stderr.count("recording stops, the program continues")


@pytest.mark.parametrize("way", WAYS)
def test_the_program_sees_nothing_of_it(way: str, mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: output, the program's own SIGBUS and exit code are as in the bare program."""
    words: list[str | Path] = [program(mpi), tmp_path / "trace", "0", way]
    bare = run(words)
    wrapped = run([*recorded(mpi, tmp_path / "trace"), *words])
    assert (wrapped.returncode, wrapped.stdout) == (bare.returncode, bare.stdout)
    assert bare.returncode == (-BUS if way in ("default", "once") else 0)
    assert message_count(wrapped.stderr) == 1


@pytest.mark.parametrize("record", ["events", "summary", "ring:128K"])
@pytest.mark.parametrize("size", [0, CHUNK_BYTES, CHUNK_BYTES + 4096])
def test_whatever_is_left_of_the_files(record: str, size: int, mpich: Mpi, tmp_path: Path) -> None:
    """On 1 rank: the remaining files are readable, or are rejected with one line."""
    trace = tmp_path / "trace"
    words: list[str | Path] = [program(mpich), trace, str(size), "handler"]
    wrapped = run([*recorded(mpich, trace, "--record", record), *words], check=True)
    assert "own fault: seen 1" in wrapped.stdout
    assert message_count(wrapped.stderr) == 1
    try:
        assert not mpiprof.open(trace).is_complete
    except TraceError as error:
        assert len(str(error).splitlines()) == 1


def test_the_ranks_of_a_node_share_the_file(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks with one log: each reports the truncation, and both continue."""
    trace = tmp_path / "trace"
    words: list[str | Path] = [program(mpi), trace, "0", "handler"]
    bare = run_mpi(mpi, 2, words, check=True)
    environment = {"MPIPROF_NODE_FILES_ABOVE": "1"}
    wrapped = run_mpi(mpi, 2, [*recorded(mpi, trace), *words], env=environment, check=True)
    assert sorted(wrapped.stdout) == sorted(bare.stdout)
    assert list(trace.glob("node-*.log"))
    assert 1 <= message_count(wrapped.stderr) <= 2
