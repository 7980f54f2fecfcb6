"""A program with Sessions only is recorded, and no rank waits for one that does not take part.

All tests run on 3 ranks unless they name another number.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import raw_trace
from support.compilation import compiled
from support.jobs import run_mpi
from support.mpis import Mpi

import mpiprof
from mpi.test_communicators import by_name, recorded


def check_identities(lines: raw_trace.Raw) -> None:
    """A named communicator has one identity in every folder."""
    named = by_name(lines)
    identities = {name: {c["identity"] for c in own.values()} for name, own in named.items()}
    assert all(len(own) == 1 for own in identities.values()), identities
    assert len(set.union(*identities.values())) == len(named)
    assert {name: sorted(own) for name, own in named.items() if name[0] != "a"} == {
        "two 1": [0, 1],
        "bridge 1": [0, 1, 2],
    }
    assert sorted(named["all 1"]) == sorted(named["again 1"]) == [0, 1, 2]
    assert not any(c["local"] for own in named.values() for c in own.values())


def check_calls(trace: raw_trace.Raw, first: list[str]) -> None:
    for rank in range(3):
        pair = ["barrier"] if rank < 2 else []
        expected = [*first, "allreduce", "barrier", *pair, "barrier"]
        assert [r.operation for r in trace.of(rank)] == expected
        assert {r.sequence for r in trace.of(rank)} == {0}


def test_into_a_named_folder(mpi: Mpi, tmp_path: Path) -> None:
    program = compiled(mpi, "sessions_only.c", "-O1")
    trace, _ = recorded(mpi, 3, [program], tmp_path / "trace")
    check_identities(trace)
    check_calls(trace, [])
    meta = json.loads((tmp_path / "trace" / "meta.json").read_text())
    assert meta["ranks"] == 3
    assert meta["options"]["sessions"] is True
    assert meta["machine"]["within"]["alpha_ns"] > 0
    assert 50 < meta["machine"]["page_fault_ns"] < 100_000
    # Open MPI's MPI_Reduce_local fails without MPI_COMM_WORLD.
    printed = [s for s in meta["skipped"] if s.startswith("reductions")]
    assert bool(printed) == (mpi.name == "openmpi")
    assert (meta["machine"]["gamma_sum_ns_per_byte"] is None) == bool(printed)


def test_without_a_folder(mpi: Mpi, tmp_path: Path) -> None:
    program = compiled(mpi, "sessions_only.c", "-O1")
    words = [str(mpi.python), "-m", "mpiprof", "run", "--", str(program)]
    done = run_mpi(mpi, 3, words, check=True, cwd=tmp_path)
    (folder,) = tmp_path.glob("mpiprof-sessions_only-*")
    assert folder.name in done.stderr
    trace = raw_trace.read(folder)
    assert trace.ends() == dict.fromkeys(range(3), "finalize")
    check_identities(trace)
    check_calls(trace, [])


@pytest.mark.parametrize("named", [True, False], ids=["named folder", "no folder"])
def test_ranks_that_begin_apart(named: bool, mpi: Mpi, tmp_path: Path) -> None:
    program = compiled(mpi, "sessions_only.c", "-O1")
    option = ["-o", str(tmp_path / "mpiprof-sessions_only-x")] if named else []
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", *option, "--", str(program), "apart"]
    run_mpi(mpi, 3, words, check=True, cwd=tmp_path)
    folders = sorted(tmp_path.glob("mpiprof-sessions_only-*"))
    assert len(folders) == (1 if named else 2)
    parts = [raw_trace.read(folder) for folder in folders]
    trace = raw_trace.Raw(
        [r for p in parts for r in p.records],
        [x for p in parts for x in p.lines],
        [r for p in parts for r in p.gatherings],
    )
    assert trace.ends() == dict.fromkeys(range(3), "finalize")
    check_identities(trace)
    check_calls(trace, ["barrier"])


def test_the_library_algorithm_is_selected(mpi: Mpi, tmp_path: Path) -> None:
    """The library's algorithm is selected by name under Sessions alone; the program checks its sum.

    MPICH's settings work for one thread at a time, and only MPI_Init reveals the thread level.
    """
    program, trace = compiled(mpi, "sessions_only.c", "-O1"), tmp_path / "trace"
    words = [str(mpi.python), "-m", "mpiprof", "run", "-o", str(trace)]
    words += ["--switch", "allreduce=native:recursive_doubling", "--", str(program)]
    done = run_mpi(mpi, 3, words, check=True)
    events = mpiprof.open(trace).events
    ran = events.loc[events["operation"] == "allreduce", "algorithm"]
    left = "the thread level is unknown without MPI_Init" in done.stderr
    assert left == (mpi.name == "mpich")
    assert list(ran.astype(str)) == ["native" if left else "native:recursive_doubling"] * 3


def test_a_second_session_runs_on(mpich: Mpi, tmp_path: Path) -> None:
    """On 1 rank: Open MPI 5.0 itself fails in a second session, MPICH 5.0 hangs in 5 % of them."""
    program = compiled(mpich, "sessions_only.c", "-O1")
    trace, _ = recorded(mpich, 1, [program, "alone"], tmp_path / "trace")
    assert "all 1" in by_name(trace)


def test_groups_that_threads_make_in_crossed_order(mpich: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: one rank has started one of two communicators, the other rank starts both.

    Open MPI hangs there bare.
    """
    program = compiled(mpich, "sessions_crossed.c", "-pthread")
    recorder = [str(mpich.python), "-m", "mpiprof", "run", "-q", "-o"]
    for delay_us in (0, 200, 300, 380, 430, 480, 540, 620, 2000):
        trace = tmp_path / str(delay_us)
        words = [*recorder, str(trace), "--", str(program), str(delay_us)]
        run_mpi(mpich, 2, words, check=True)
        assert {rank for rank, _ in mpiprof.open(trace).logs.threads} == {0, 1}


def test_a_silent_rank_is_waited_for_once(mpich: Mpi, tmp_path: Path) -> None:
    """Rank 2 is bare, ranks 0 and 1 have met: 8 communicators with rank 2 once took 80 s."""
    program = compiled(mpich, "sessions_silent.c")
    run = f"{mpich.python} -m mpiprof run -q -o {tmp_path / 'trace'} --"
    words = ["sh", "-c", f'[ $PMI_RANK = 2 ] && exec "$@"; exec {run} "$@"', "sh"]
    done = run_mpi(mpich, 3, [*words, program], check=True, timeout=60)
    assert done.stdout == "ok\n"


def test_wait_for_a_message_on_2_ranks(mpi: Mpi, tmp_path: Path) -> None:
    program = compiled(mpi, "messages_sessions.c")
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "--messages", "all"]
    run_mpi(mpi, 2, [*words, "-o", str(tmp_path / "trace"), "--", program], check=True)
    trace = mpiprof.open(tmp_path / "trace")
    calls = trace.message_calls["operation"]  # also MPI_Comm_free
    assert calls[calls != "comm_free"].tolist() == ["irecv", "wait", "send"]
    messages = trace.messages
    received = messages[messages["received"] & messages["complete"]]
    columns = ["source", "destination", "bytes"]
    assert received[columns].to_numpy().tolist() == [[1, 0, 4]]
    assert int(received["partner"].iloc[0]) >= 0
