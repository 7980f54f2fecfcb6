"""The recorder never harms the program: regression tests of faults that a review found."""

from __future__ import annotations

import json
from pathlib import Path

from support import PROGRAMS, raw_trace
from support.compilation import compiled
from support.jobs import run, run_mpi
from support.mpis import Mpi


def words_for(mpi: Mpi, trace: Path, *options: str) -> list[str]:
    """Return the command line that records a program into a folder."""
    return [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(trace), *options, "--"]


def test_threads_that_share_a_request(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: each of 4 threads completes its own operations, though their handle is equal."""
    program = str(compiled(mpi, "threads_shared_request.c", "-pthread"))
    ended = run_mpi(mpi, 1, [*words_for(mpi, tmp_path / "trace"), program], check=True)
    assert ended.stdout == "done\n"
    trace = raw_trace.read(tmp_path / "trace")
    assert len(trace.of(0)) == len(trace.of(0, "completion")) == 4 * 30000


def test_a_machine_table_that_one_rank_sees(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks, one with a machine table: both must agree on whether to measure."""
    program = str(compiled(mpi, "communicators_reused_handles.c"))
    table = tmp_path / "table.json"
    run_mpi(mpi, 2, [*words_for(mpi, tmp_path / "measured"), program, "1"], check=True)
    machine = json.loads((tmp_path / "measured" / "meta.json").read_text())["machine"]
    table.write_text(json.dumps(machine | {"source": "calibrate"}))
    for first in (True, False):
        trace = tmp_path / f"trace-{first}"
        given = words_for(mpi, trace, "--machine", str(table))
        words = [given, words_for(mpi, trace)] if first else [words_for(mpi, trace), given]
        ranks = [[*part, program, "1"] for part in words]
        run([*mpi.mpiexec(1), *ranks[0], ":", "-n", "1", *ranks[1]], check=True)
        measured = json.loads((trace / "meta.json").read_text())["machine"]["source"]
        assert measured == ("calibrate" if first else "init")


def test_rank_0_is_later_than_the_others_wait(mpi: Mpi, tmp_path: Path) -> None:
    """On 3 ranks: the ranks that stopped waiting and the late rank agree not to communicate."""
    program = str(compiled(mpi, "communicators_reused_handles.c"))
    slow = tmp_path / "slow.so"
    run(
        [mpi.mpicc, "-shared", "-fPIC", "-o", slow, PROGRAMS / "tracefile_slow_mkdir.c"], check=True
    )
    words = words_for(mpi, tmp_path / "trace-of-slow")
    names = [f"LD_PRELOAD={slow}", f"SLOW_UNTIL={tmp_path / 'given-up'}"]
    run_mpi(mpi, 3, ["env", *names, *words, program, "200"], check=True)
    assert (tmp_path / "given-up").exists()
    trace = raw_trace.read(tmp_path / "trace-of-slow")
    assert [len(trace.of(rank)) for rank in range(3)] == [2, 2, 2]
    assert len({tuple(r.identity for r in trace.of(rank)) for rank in range(3)}) == 1
    meta = json.loads((tmp_path / "trace-of-slow" / "meta.json").read_text())
    assert meta["options"]["partial"]


def test_communicators_without_end_use_bounded_memory(mpich: Mpi, tmp_path: Path) -> None:
    """On 1 rank: 140000 successive communicators share table entries, and no call is lost."""
    program = str(compiled(mpich, "communicators_reused_handles.c"))
    words = [word for word in words_for(mpich, tmp_path / "trace") if word != "-q"]
    ended = run_mpi(mpich, 1, [*words, program, "140000"], check=True)
    assert "more than" not in ended.stderr and "missing" not in ended.stderr
    assert len(raw_trace.read(tmp_path / "trace").of(0)) == 1400


def test_no_address_is_the_librarys_error(mpich: Mpi, tmp_path: Path) -> None:
    """On 1 rank of MPICH: a null address is the library's error. Open MPI itself crashes."""
    program = str(compiled(mpich, "errors_null_address.c", "-Wno-nonnull"))
    bare = run_mpi(mpich, 1, [program], check=True)
    ended = run_mpi(mpich, 1, [*words_for(mpich, tmp_path / "trace"), program], check=True)
    assert ended.stdout == bare.stdout == "1111\n"
