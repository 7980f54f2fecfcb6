"""Management calls of all members: creation of communicators, windows and files, and the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.compilation import compiled
from support.jobs import end, run_mpi, run_verb, start
from support.mpis import Mpi
from support.synthetic import Synthetic
from support.wait_until import wait_until

import mpiprof
from mpiprof.account.wait_states import Group, compute_waits
from mpiprof.facts.operations import WaitRule
from mpiprof.hang import rank_state, status
from mpiprof.hang.verdict import NO_FAULT
from mpiprof.trace import Trace

RANKS = 3
LATE_NS = 200_000_000  # as in management_collectives.c; ten times the delays of a crowded machine


def wrapped(mpi: Mpi, folder: Path, *options: str) -> list[str]:
    return [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", str(folder), *options, "--"]


Recorded = tuple[Trace, list[tuple[int, str]]]


@pytest.fixture(scope="module")
def recorded(mpi: Mpi, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Return the recording of management_collectives.c on 3 ranks, and the planned late ranks."""
    folder = tmp_path_factory.mktemp("gatherings")
    program = compiled(mpi, "management_collectives.c")
    words = [
        *wrapped(mpi, folder / "trace"),
        str(program),
        str(folder / "data"),
        str(folder / "signs"),
    ]
    done = run_mpi(mpi, RANKS, words, check=True, cwd=folder)
    reported = [(int(line.split()[0]), line.split()[1]) for line in done.stdout.splitlines()]
    assert (folder / "data").read_bytes() == np.arange(RANKS, dtype=np.int32).tobytes()
    return mpiprof.open(folder / "trace"), reported


def test_the_late_rank_is_named_with_the_waiting_of_the_others_on_3_ranks(
    recorded: Recorded,
) -> None:
    trace, reported = recorded
    instances = trace.instances
    assert [name for _, name in reported][-1] == "finalize" and len(reported) == 8
    for rank, name in reported:
        own = instances[instances["operation"] == name]
        # The call site with the late rank; the first fence is another call site.
        row = own.sort_values("worst_imbalance_ns").iloc[-1]
        assert row["complete"] and row["last_rank"] == rank, name
        assert row["worst_imbalance_ns"] > 0.5 * LATE_NS, name
        assert row["wait_gathering_ns"] > 0.5 * LATE_NS, name


def test_windows_and_files_have_separate_sequence_numbers_on_3_ranks(recorded: Recorded) -> None:
    trace, _ = recorded
    events = trace.events
    identity = {c.identity: c for c in trace.tables.communicators}
    for name, how in (("win_fence", "win"), ("file_close", "file"), ("file_open", "maker")):
        own = events[events["operation"] == name]
        (one,) = own["communicator"].unique()
        assert identity[one].origin == how and sorted(identity[one].ranks) == [0, 1, 2]
    # A call that fails on one rank only changes no number.
    assert trace.instances["complete"].all()
    world = next(c.identity for c in trace.tables.communicators if c.origin == "world")
    numbers = events[events["communicator"] == world].groupby("rank")["sequence"].apply(list)
    assert numbers[0] == numbers[1] == numbers[2] == list(range(len(numbers[0])))


def test_time_of_other_calls_by_class_on_3_ranks(recorded: Recorded) -> None:
    trace, _ = recorded
    spent = trace.derive("spent").set_index("rank")
    assert spent.loc[1, "point_to_point"] > 0.5 * LATE_NS
    assert spent.loc[2, "point_to_point"] == 0
    assert (spent[["one_sided", "files", "completion"]] > 0).all().all()
    # The records contain the measured values.
    reported = trace.derive("point_to_point")
    assert reported == pytest.approx(spent["point_to_point"] + spent["completion"], rel=0.01)


def test_report_by_rank_on_3_ranks(recorded: Recorded) -> None:
    trace, _ = recorded
    shown = run_verb("report", trace.path, "--by", "rank")[1]
    assert "one-sided" in shown and "completion" in shown
    times = json.loads(run_verb("report", trace.path, "--json")[1])["times"]
    assert [row["rank"] for row in times] == [0, 1, 2]
    assert times[1]["point_to_point_ns"] > 0.5 * LATE_NS and times[1]["files_ns"] > 0


STUCK = """
import sys, time
from mpi4py import MPI
comm = MPI.COMM_WORLD
comm.Barrier()
if comm.rank == 1:
    open(sys.argv[1], "w").close()
    time.sleep(3600)  # the test ends it before
if sys.argv[2] == "split":
    comm.Split(comm.rank)
"""


@pytest.mark.parametrize("where", ["split", "finalize"])
def test_status_names_missing_ranks_on_2_ranks(mpi: Mpi, where: str, tmp_path: Path) -> None:
    script = tmp_path / "stuck.py"
    script.write_text(STUCK)
    words = [*mpi.mpiexec(2), *wrapped(mpi, tmp_path / "trace"), "python", str(script)]
    words[words.index("python")] = str(mpi.python)
    job = start([*words, str(tmp_path / "there"), where])
    try:
        name = "comm_split" if where == "split" else "finalize"
        wait_until((tmp_path / "there").exists, "rank 1 is late", job)

        def found() -> Any:
            trace = mpiprof.open(tmp_path / "trace")
            places, pending = rank_state.find(trace)
            if any(name in one.operations for one in pending):
                return trace, places, pending
            return None

        trace, places, pending = wait_until(found, f"{name} is pending", job)
        (one,) = pending
        assert (one.operations, one.arrived, one.missing) == ([name], [0], [1])
        assert [p.state for p in places] == ["inside", "outside"]
        assert "NOT ARRIVED: 1" in status.status_text(trace, places, pending, NO_FAULT)
    finally:
        end(job)


def test_waiting_is_computed_from_arrivals_and_exits_only() -> None:
    group = Group(WaitRule.UNSPECIFIED, (3, 0))
    arrival = np.array([[0, 0], [10, 10], [100, 100]])
    finish = np.array([[105, 20], [104, 104], [103, 103]])  # the second releases a rank early
    found = compute_waits(arrival, arrival, finish, group)
    assert found.tolist() == [[100, 0], [90, 0], [0, 0]]


def test_old_logs_have_no_classes(tmp_path: Path) -> None:
    trace = Synthetic(2)
    trace.add_collective("barrier", [[1000] * 2], [[2000] * 2])
    table: Any = mpiprof.open(trace.write(tmp_path / "t")).derive("spent")
    assert table.drop(columns="rank").isna().all().all()
