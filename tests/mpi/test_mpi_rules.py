"""The MPI rules for recording that no other file tests, beginning with garbage arguments.

Fortran, communicators, requests and Sessions have separate files.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from support import raw_trace, wrong_arguments
from support.compilation import compiled
from support.jobs import run, run_mpi
from support.mpis import Mpi
from support.trace_tables import table_rows

import mpiprof


def recorded(mpi: Mpi, trace: Path, *options: str) -> list[str]:
    """Return the command line that records a program."""
    return [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(trace), *options]


def output_of(folder: Path) -> list[str]:
    """Return the output of the ranks, rank by rank."""
    return [
        line for rank in range(3) for line in (folder / f"said-{rank}.txt").read_text().splitlines()
    ]


def blocking(name: str) -> bool:
    """Return whether a name (as MPI's after MPI_, or mpiprof's) is that of a blocking operation."""
    return "_init" not in name and not name.lower().startswith("i")


def script(folder: Path, text: str) -> str:
    """Write a Python program and return its name."""
    path = folder / "program.py"
    path.write_text("import os, time\nfrom mpi4py import MPI\ncomm = MPI.COMM_WORLD\n" + text)
    return str(path)


def test_garbage_and_wrong_arguments_on_3_ranks(mpi: Mpi, tmp_path: Path) -> None:
    source, program, trace = tmp_path / "all.c", tmp_path / "all", tmp_path / "trace"
    cases = list(wrong_arguments.cases(mpi.name == "mpich"))
    source.write_text(wrong_arguments.source(cases))
    run([mpi.mpicc, "-w", "-O0", "-o", program, source], check=True)
    run_mpi(mpi, 3, [program], check=True, cwd=tmp_path)
    bare = output_of(tmp_path)
    run_mpi(mpi, 3, [*recorded(mpi, trace), "--", program], check=True, cwd=tmp_path)

    assert output_of(tmp_path) == bare
    # Every successful call has a record on every rank with the same number, and no other call has
    # one.
    events = mpiprof.open(trace).events
    events = table_rows(events[events["start"] == 0])
    calls = {
        rank: Counter(zip(own["operation"], own["communicator"], own["sequence"], strict=True))
        for rank, own in events.groupby("rank")
    }
    own_of_first = events[events["rank"] == 0]
    assert max(calls[0].values()) == 1
    assert calls[0] == calls[1] == calls[2]
    # Some nonblocking calls are refused only at their Wait.
    good = sum(line.startswith("0 ") and " class 0 " in line for line in bare if blocking(line[6:]))
    succeeded = own_of_first[~own_of_first["flags"].str.contains("error")]
    assert sum(blocking(name) for name in succeeded["operation"]) == good
    numbers: dict[str, list[int]] = {}
    for _, communicator, sequence in calls[0]:
        numbers.setdefault(communicator, []).append(sequence)
    assert all(sorted(found) == list(range(len(found))) for found in numbers.values())


def test_sequence_numbers_count_ordered_calls(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: blocking, nonblocking, persistent calls and creations share one count."""
    program = script(
        tmp_path,
        "comm.Barrier()\n"  # 0
        "copy = comm.Dup()\n"  # 1
        "comm.Ibarrier().Wait()\n"  # 2
        "kept = comm.Barrier_init()\n"  # 3
        "other = comm.Split(0)\n"  # 4
        "for _ in range(3): kept.Start(); kept.Wait()\n"
        "comm.Barrier()\n"  # 5
        "copy.Barrier()\n",
    )
    run_mpi(mpi, 2, [*recorded(mpi, tmp_path / "trace"), program], check=True)
    trace = raw_trace.read(tmp_path / "trace")
    for rank in range(2):
        own = [r for r in trace.of(rank) if r.communicator == 1]
        assert [(r.operation, r.sequence) for r in own] == [
            ("barrier", 0),
            ("ibarrier", 2),
            ("barrier_init", 3),
            ("barrier", 5),
        ]
        starts = trace.of(rank, "start")
        assert [(r.sequence, r.start) for r in starts] == [(3, 1), (3, 2), (3, 3)]
        assert [r.sequence for r in trace.of(rank) if r.communicator != 1] == [0]


def test_pcontrol_pauses_records_only(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: rank 1 pauses longer, which must not shift its numbers."""
    program = script(
        tmp_path,
        "for i in range(20):\n"
        "    if i == 5: MPI.Pcontrol(0)\n"
        "    if i == 10 + comm.rank: MPI.Pcontrol(1)\n"
        "    if i == 15: MPI.Pcontrol(2)\n"
        "    comm.Barrier()\n",
    )
    run_mpi(mpi, 2, [*recorded(mpi, tmp_path / "trace"), program], check=True)
    trace = raw_trace.read(tmp_path / "trace")
    for rank in range(2):
        numbers = [r.sequence for r in trace.of(rank)]
        assert numbers == [*range(5), *range(10 + rank, 20)]
    assert mpiprof.open(tmp_path / "trace").dropped_records == 0


def test_sample_has_the_same_instances_on_all_ranks(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: one instance in 4 is recorded, nonblocking ones with their completion."""
    program = script(
        tmp_path, "for i in range(600):\n    comm.Barrier()\n    comm.Ibarrier().Wait()\n"
    )
    words = recorded(mpi, tmp_path / "trace", "--sample", "4")
    run_mpi(mpi, 2, [*words, program], check=True)
    trace = raw_trace.read(tmp_path / "trace")
    retained = [[(r.operation, r.sequence) for r in trace.of(rank)] for rank in range(2)]
    assert retained[0] == retained[1]
    assert 200 < len(retained[0]) < 400
    # MPI_Finalize is always recorded, as no other instance could represent it.
    assert [(r.operation, r.sequence) for r in trace.gathered(1)] == [("finalize", 1200)]
    # No aliasing with the loop: both operations are there.
    shares = Counter(operation for operation, _ in retained[0])
    assert min(shares["barrier"], shares["ibarrier"]) > 90
    for rank in range(2):
        done = [r.sequence for r in trace.of(rank, "completion")]
        assert done == [number for name, number in retained[0] if name == "ibarrier"]
    assert json.loads((tmp_path / "trace" / "meta.json").read_text())["sample"] == 4


def test_time_in_the_recorder_is_counted(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: the time in the recorder is positive, and far below the run time."""
    program = script(tmp_path, "for i in range(20000): MPI.COMM_SELF.Barrier()\n")
    run_mpi(mpi, 1, [*recorded(mpi, tmp_path / "trace"), program], check=True)
    lines = raw_trace.read(tmp_path / "trace").lines
    started = next(line["process"]["started_ns"] for line in lines if "process" in line)
    end = next(line["end"] for line in lines if "end" in line)
    assert 20000 * 20 < end["recorder_ns"] < end["at_ns"] - started


def test_time_outside_is_added_to_the_next_record(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: a receive of 600 ms belongs to no collective, and is not lost.

    Rank 0 sleeps after rank 1 has signalled that it will enter the receive.
    """
    program = script(
        tmp_path,
        "import sys\n"
        "comm.Barrier()\n"
        "if comm.rank == 0:\n"
        "    while not os.path.exists(sys.argv[1]): time.sleep(0.001)\n"
        "    time.sleep(0.6); comm.send(1, 1)\n"
        "else: open(sys.argv[1], 'w').close(); comm.recv(source=0)\n"
        "comm.Barrier()\n",
    )
    words = [*recorded(mpi, tmp_path / "trace"), program, str(tmp_path / "sign")]
    run_mpi(mpi, 2, words, check=True)
    last = raw_trace.read(tmp_path / "trace").of(1)[-1]
    assert last.operation == "barrier"
    assert last.outside_ns > 100_000_000


def test_call_in_a_callback_is_not_counted_twice(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: MPI calls and a flush within a reduction operation or an attribute's copy."""
    program = script(
        tmp_path,
        "import array\n"
        "def add(a, b, t):\n"
        "    MPI.COMM_SELF.Barrier(); MPI.Pcontrol(2)\n"
        "    b[:] = bytes(b)\n"
        "op = MPI.Op.Create(add, commute=True)\n"
        "x, y = array.array('i', [1]), array.array('i', [0])\n"
        "for i in range(10): comm.Allreduce(x, y, op)\n"
        "comm.Barrier()\n",
    )
    run_mpi(mpi, 2, [*recorded(mpi, tmp_path / "trace"), program], check=True)
    trace = raw_trace.read(tmp_path / "trace")
    for rank in range(2):
        own = trace.of(rank)
        assert [r.operation for r in own] == ["allreduce"] * 10 + ["barrier"]
        assert all(0 < r.enter_ns <= r.exit_ns for r in own)


def test_wrong_call_gives_its_time_outside_back(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: a refused call has no record, and the next record includes the time before it."""
    program = script(
        tmp_path,
        "comm.Set_errhandler(MPI.ERRORS_RETURN)\n"
        "probe = MPI.COMM_SELF.Isend(b'', 0)\n"
        "comm.Barrier()\n"
        "MPI.COMM_SELF.Recv(bytearray(1), 0); probe.Wait()\n"
        "try: comm.Bcast(bytearray(1), root=7)\n"
        "except MPI.Exception as error: assert error.Get_error_class() == MPI.ERR_ROOT\n"
        "comm.Barrier()\n",
    )
    run_mpi(mpi, 1, [*recorded(mpi, tmp_path / "trace"), program], check=True)
    records = raw_trace.read(tmp_path / "trace").of(0)
    assert [(r.operation, r.sequence) for r in records] == [("barrier", 0), ("barrier", 1)]
    assert records[1].outside_ns > 0


@pytest.mark.parametrize("record", ["events", "summary"])
def test_unrecorded_calls_are_counted(mpi: Mpi, tmp_path: Path, record: str) -> None:
    """On 2 ranks: a summary has no events, and the totals of the same calls."""
    program = script(
        tmp_path, "x = bytearray(8)\nfor i in range(50): comm.Bcast(x)\ncomm.Barrier()\n"
    )
    words = recorded(mpi, tmp_path / "trace", "--record", record)
    run_mpi(mpi, 2, [*words, program], check=True)
    trace = mpiprof.open(tmp_path / "trace")
    calls = table_rows(trace.callsites).groupby("operation")["instances"].sum().to_dict()
    assert trace.is_complete
    assert calls == {"bcast": 50, "barrier": 1}


def test_null_address_returns_the_error_of_the_library(mpich: Mpi, tmp_path: Path) -> None:
    """On 1 rank of MPICH: a null address is the library's error. Open MPI itself crashes."""
    program = str(compiled(mpich, "errors_null_address.c", "-Wno-nonnull"))
    bare = run_mpi(mpich, 1, [program], check=True)
    ended = run_mpi(mpich, 1, [*recorded(mpich, tmp_path / "trace"), "--", program], check=True)
    assert ended.stdout == bare.stdout == "1111\n"
