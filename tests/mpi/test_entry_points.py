"""Every entry point, called once from C, Fortran and Python, has exactly one correct record.

The programs (call_programs.py) check their results. All tests run on 2 ranks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support import PROGRAMS, raw_trace
from support.call_programs import c_program, fortran_program, python_program
from support.collective_calls import Case, bytes_of, cases, marked_lines
from support.jobs import run, run_mpi
from support.mpis import Mpi
from support.prepared_runs import prepare_run

import mpiprof
from mpiprof.core.generator.collectives import other_functions

MADE_BY = {"work": "dup", "graph": "dist_graph_create_adjacent"}
RECORDS = {
    "blocking": ["call"],
    "nonblocking": ["call", "completion"],
    "persistent": ["call", "start", "completion"],
}


def record(mpi: Mpi, ranks: int, argv: Sequence[str | Path], folder: Path) -> raw_trace.Raw:
    """Run a program under mpiprof and return its recorded data."""
    if "--" in argv:
        end = argv.index("--")
        words = prepare_run(["-q", "-o", folder, *argv[:end]], argv[end + 1 :])
    else:
        words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder), *map(str, argv)]
    run_mpi(mpi, ranks, words, check=True, cwd=folder.parent)
    trace = raw_trace.read(folder)
    assert trace.ends() == dict.fromkeys(range(ranks), "finalize")
    return trace


def check_records(
    trace: raw_trace.Raw,
    chosen: Sequence[Case],
    check_site: Callable[[Case, raw_trace.Record], None],
) -> None:
    """Compare the records of both communicators, call by call."""
    for rank in (0, 1):
        for name, how in MADE_BY.items():
            expected = [case for case in chosen if case.communicator == name]
            identity = next(i for made, i in trace.identities(rank) if made == how)
            own = [r for r in trace.records if (r.rank, r.identity) == (rank, identity)]
            kinds = [kind for case in expected for kind in RECORDS[case.function.form]]
            assert [r.kind for r in own] == kinds
            calls = [r for r in own if r.kind == "call"]
            for sequence, (case, call) in enumerate(zip(expected, calls, strict=True)):
                message = (call.operation, call.sequence, call.bytes, call.root, call.flags)
                bytes_ = bytes_of(case.function.operation, rank)
                assert message == (
                    *(case.operation, sequence, bytes_, case.root()),
                    case.flags(rank),
                ), case
                assert 0 < call.enter_ns <= call.exit_ns
                check_site(case, call)
            # The records after a call belong to that call.
            follow = [r.sequence for r in own]
            assert follow == sorted(follow)
            assert {r.start for r in own if r.kind in ("call",)} == {0}
            for r in own:
                persistent = "persistent" in r.flags
                assert r.start == (1 if persistent and r.kind != "call" else 0)


def check_native(
    mpi: Mpi, chosen: Sequence[Case], source: Path, compiler: Sequence[str]
) -> raw_trace.Raw:
    """Compile a program, run it recorded on 2 ranks, and check every call."""
    program = source.with_suffix("")
    run([*compiler, "-g", "-O0", "-o", program, source], cwd=source.parent, check=True)
    trace = record(mpi, 2, ["--", program], source.parent / "trace")
    lines = marked_lines(source.read_text())
    line_of = raw_trace.native_line(program)
    targets = call_targets(program)

    def check_line(case: Case, call: raw_trace.Record) -> None:
        assert line_of(call) in lines[case.number], case

    def check_target(case: Case, call: raw_trace.Record) -> None:
        # gfortran assigns some calls the line of the last statement, so compare the instruction.
        name = case.function.name.lower().removesuffix("_c")
        address, target = targets.after(call.frames[0]["offset"])
        assert target.startswith((f"{name}_@", f"{name}_f08")), case
        assert seen.setdefault(address, case.number) == case.number

    seen: dict[int, int] = {}
    check_records(trace, chosen, check_line if source.suffix == ".c" else check_target)
    return trace


class Targets:
    """The calls in a program's machine code: return address -> name of the called function."""

    def __init__(self, listing: str) -> None:
        self.names: dict[int, str] = {}
        called = ""
        for line in listing.splitlines():
            if match := re.match(r"\s+([0-9a-f]+):", line):
                if called:
                    self.names[int(match[1], 16)] = called
                found = re.search(r"\bcall\s+\w+ <(.*)>", line)
                called = found[1] if found else ""

    def after(self, offset: int) -> tuple[int, str]:
        """Return the address after the call that contains `offset`, and the called function."""
        return offset + 1, self.names[offset + 1]


def call_targets(program: Path) -> Targets:
    """Disassemble a program."""
    return Targets(run(["objdump", "-d", "--no-show-raw-insn", program], check=True).stdout)


def test_c(mpi: Mpi, tmp_path: Path) -> None:
    chosen = cases("4c" if mpi.name == "mpich" else "4")
    source = tmp_path / "calls.c"
    source.write_text(c_program(chosen))
    trace = check_native(mpi, chosen, source, [mpi.mpicc, "-Wall", "-Werror"])
    assert len({r.operation for r in trace.records}) == 66


def test_c_with_the_standard_abi(mpich: Mpi, tmp_path: Path) -> None:
    chosen = cases("4c")
    source = tmp_path / "calls.c"
    source.write_text(c_program(chosen))
    trace = check_native(mpich, chosen, source, [str(mpich.bin / "mpicc_abi")])
    process = next(line["process"] for line in trace.lines if "process" in line)
    assert process["abi"] == "mpiabi"


def test_c_with_the_system_s_mpi(system_mpi: Mpi, tmp_path: Path) -> None:
    chosen = cases("4c" if system_mpi.name == "mpich" else "3")
    source = tmp_path / "calls.c"
    source.write_text(c_program(chosen))
    check_native(system_mpi, chosen, source, [system_mpi.mpicc])


@pytest.mark.parametrize("binding", ["mpif.h", "mpi", "mpi_f08"])
def test_fortran(system_mpi: Mpi, binding: str, tmp_path: Path) -> None:
    level = "3" if system_mpi.name == "openmpi" else "4c" if binding == "mpi_f08" else "4"
    chosen = cases(level)
    source = tmp_path / "calls.f90"
    source.write_text(fortran_program(chosen, binding))
    loose = [] if binding == "mpi_f08" else ["-fallow-argument-mismatch", "-w"]
    compiler = [system_mpi.mpifort, "-ffree-line-length-none", *loose]
    check_native(system_mpi, chosen, source, compiler)


def test_python(mpi: Mpi, tmp_path: Path) -> None:
    chosen = cases("4")
    source = tmp_path / "calls.py"
    source.write_text(python_program(chosen))
    trace = record(mpi, 2, [source], tmp_path / "trace")

    lines = marked_lines(source.read_text())

    def check_site(case: Case, call: raw_trace.Record) -> None:
        frame = call.frames[0]
        assert (frame["file"], frame["function"]) == (str(source), "main")
        assert frame["line"] in lines[case.number], case

    check_records(trace, chosen, check_site)


# Functions that Debian's Open MPI 4.1 lacks, and functions that need a second job
# (test_communicators.py).
NOT_FROM_FORTRAN = {
    *("MPI_Comm_spawn", "MPI_Comm_spawn_multiple", "MPI_Comm_connect", "MPI_Comm_accept"),
    *("MPI_Comm_join", "MPI_Init_thread"),
    *("MPI_Publish_name", "MPI_Lookup_name", "MPI_Unpublish_name"),
}
OTHERS = PROGRAMS / "fortran_other_functions.F90"
WINDOWS = OTHERS.with_name("fortran_windows_files.F90")


def test_the_fortran_program_calls_all_that_is_no_collective() -> None:
    text = OTHERS.read_text() + WINDOWS.read_text()
    called = {name.lower() for name in re.findall(r"call (MPI_\w+)", text)}
    wrapped = {f.name for f in other_functions() if f.level == "3"} | {"MPI_Pcontrol"}
    assert {name for name in wrapped if name.lower() not in called} <= NOT_FROM_FORTRAN


# Calls of each rank, and the bytes they send. The calls of a persistent request are its starts.
MESSAGE_CALLS = {
    **dict.fromkeys(("bsend", "rsend", "ibsend", "issend", "irsend"), (1, 4)),
    **dict.fromkeys(("sendrecv", "sendrecv_replace"), (1, 4)),
    **dict.fromkeys(("send_init", "bsend_init", "ssend_init", "rsend_init"), (2, 8)),
    **{"isend": (3, 12), "irecv": (6, 0), "recv_init": (8, 0), "imrecv": (1, 0), "probe": (1, 0)},
    **{"wait": (4, 0), "waitall": (9, 0), "waitany": (1, 0)},
    **{"start": (2, 0), "startall": (5, 0), "cancel": (1, 0), "request_free": (8, 0)},
}
MESSAGE_CALLS_OF_RANK: tuple[dict[str, tuple[int, int]], ...] = (
    {"send": (1, 4), "ssend": (1, 4), "recv": (2, 0)},
    {"mprobe": (1, 0), "mrecv": (1, 0), "recv": (3, 0)},
)
REPEATED = {"iprobe", "improbe"}
# The program completes only collectives with these, whose records contain the calls. A call after
# the completion is one of no request.
OF_COLLECTIVES = {"waitsome", "test", "testall", "testany", "testsome", "request_get_status"}
# Tags of the received messages; a message that is probed and then received has two rows.
RECEIVED_TAGS = [1, 1, 2, 2, 5, 6, 7, 11, 12, 13, 14, 21, 21, 22, 22, 23, 23, 31, 31, 32]


def check_message_sums(folder: Path) -> None:
    """Compare the sums of all calls on messages with the program's calls."""
    trace = mpiprof.open(folder)
    for rank in (0, 1):
        of_rank = trace.message_sums[trace.message_sums["rank"] == rank]
        sums = of_rank.groupby("operation")[["calls", "sent"]].sum()
        numbers = zip(sums["calls"].tolist(), sums["sent"].tolist(), strict=True)
        calls = dict(zip(sums.index.tolist(), numbers, strict=True))
        assert calls.keys() >= REPEATED
        assert all(calls[name] > (0, 0) and calls[name][1] == 0 for name in REPEATED)
        expected = MESSAGE_CALLS | MESSAGE_CALLS_OF_RANK[rank]
        counted = calls.keys() - REPEATED - OF_COLLECTIVES
        assert {name: calls[name] for name in counted} == expected
        assert set(of_rank.loc[of_rank["sent"] > 0, "peer"]) == {1 - rank}


def check_message_partners(folder: Path) -> None:
    """Compare the tags of received messages, and find each message in the log of its sender."""
    messages = mpiprof.open(folder).messages
    received = messages[messages["received"] & messages["complete"] & (messages["tag"] != 41)]
    for rank in (0, 1):
        own = received[(received["rank"] == rank) & (received["partner"] >= 0)]
        sent = messages.loc[own["partner"]]
        assert (own["source"] == 1 - rank).all()
        assert sent["rank"].tolist() == [1 - rank] * len(own)
        assert not sent["received"].any()
        assert sent["tag"].tolist() == own["tag"].tolist()
        assert sent["bytes"].tolist() == [4] * len(own)
        assert sorted(own["tag"]) == sorted(RECEIVED_TAGS + [3, 4] * rank)
        assert own["bytes"].tolist() == [4] * len(own)


@pytest.mark.parametrize("binding", ["mpif.h", "mpi", "mpi_f08"])
def test_fortran_s_other_functions(system_mpi: Mpi, binding: str, tmp_path: Path) -> None:
    number = ["mpif.h", "mpi", "mpi_f08"].index(binding)
    words = [system_mpi.mpifort, "-g", "-ffree-line-length-none", f"-DBINDING={number}"]
    words += [] if binding == "mpi_f08" else ["-fallow-argument-mismatch", "-w"]
    words += ["-DTHREADS"] if binding == "mpi" else []
    words += [f"-DINDICES={int(system_mpi.name == 'openmpi')}"]
    program = tmp_path / "others"
    run([*words, "-o", program, OTHERS], cwd=tmp_path, check=True)
    argv: list[str | Path] = ["--messages", "all", "--", program]
    trace = record(system_mpi, 2, argv, tmp_path / "trace")
    check_message_sums(tmp_path / "trace")
    check_message_partners(tmp_path / "trace")
    labels = []
    for rank in (0, 1):
        made = {c["communicator"]: c for c in trace.communicators(rank)}
        named = [x for x in trace.lines if x["rank"] == rank and "name" in x]
        labels.append({x["name"]: made[x["communicator"]]["identity"] for x in named})
        for line in named:
            how = made[line["communicator"]]["how"]
            assert line["name"] == ("work" if how == "dup" else how)
            if how != "dup":
                (barrier,) = (
                    r
                    for r in trace.of(rank)
                    if (r.communicator, r.operation) == (line["communicator"], "barrier")
                )
                assert barrier.bytes == (0, 0)
        own = [r for r in trace.records if r.identity == labels[rank]["work"] and r.rank == rank]
        bottom = own[0]
        assert (bottom.operation, bottom.root) == ("bcast", 1)
        assert bottom.bytes == ((4, 0) if rank == 1 else (0, 4))
        calls = [r.sequence for r in own if r.operation == "iallreduce" and r.kind == "call"]
        completions = [r.sequence for r in own if r.kind == "completion"]
        assert len(calls) == 19
        assert sorted(completions) == calls
        # The barrier while paused is counted, not recorded.
        posted, last = [r for r in own if r.operation == "barrier"]
        assert last.sequence == posted.sequence + 2
        assert last.outside_ns > 0
    assert labels[0] == labels[1]
    assert len(labels[0]) == 14


@pytest.mark.parametrize("binding", ["mpif.h", "mpi", "mpi_f08"])
def test_fortran_s_windows_and_files_on_2_ranks(
    system_mpi: Mpi, binding: str, tmp_path: Path
) -> None:
    number = ["mpif.h", "mpi", "mpi_f08"].index(binding)
    words = [system_mpi.mpifort, "-g", "-ffree-line-length-none", f"-DBINDING={number}"]
    words += [] if binding == "mpi_f08" else ["-fallow-argument-mismatch", "-w"]
    words += ["-DSHARED"] if system_mpi.name == "mpich" else ["-DPORTS"]
    program = tmp_path / "windows"
    run([*words, "-o", program, WINDOWS], cwd=tmp_path, check=True)
    argv: list[str | Path] = ["--", program, tmp_path / "data"]
    trace = record(system_mpi, 2, argv, tmp_path / "trace")
    records = [trace.gathered(rank) for rank in (0, 1)]
    calls = [[(r.identity, r.sequence, r.operation) for r in own] for own in records]
    assert calls[0] == calls[1]
    expected = {f.operation for f in other_functions() if f.family in ("window", "file")}
    if system_mpi.name == "openmpi":
        expected = {name for name in expected if "shared" not in name and "ordered" not in name}
        expected.add("win_allocate_shared")
    assert {name for *_, name in calls[0]} == {*expected, "finalize"}
    # The site is in the Fortran program, not in the library between.
    described = {f.get("module", f.get("file")) for r in records[0] for f in r.frames}
    assert described == {str(program)}


@pytest.mark.parametrize("binding", ["mpif.h", "mpi_f08"])
@pytest.mark.parametrize("system_mpi", ["openmpi"], indirect=True)  # Debian's MPICH cannot spawn
def test_fortran_spawns_on_1_rank(system_mpi: Mpi, binding: str, tmp_path: Path) -> None:
    mpi = system_mpi
    words = [mpi.mpifort, "-g", "-w", "-fallow-argument-mismatch"]
    words += ["-DF08"] if binding == "mpi_f08" else []
    program = tmp_path / "spawn"
    run([*words, "-o", program, OTHERS.with_name("spawn_itself.F90")], cwd=tmp_path, check=True)
    bare = run_mpi(mpi, 1, [program], check=True)
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(tmp_path / "trace"), "--"]
    printed = run_mpi(mpi, 1, [*words, str(program)], check=True)
    assert printed.stdout == bare.stdout == "child is right\n" * 2
    trace = raw_trace.read(tmp_path / "trace")
    made = [(c["how"], c["local"], c["inter"]) for c in trace.communicators(0)[2:]]
    assert made == [("spawn", True, True), ("spawn_multiple", True, True)]
    assert [(r.operation, r.root, r.bytes) for r in trace.of(0)] == [("bcast", -3, (4, 0))] * 2
