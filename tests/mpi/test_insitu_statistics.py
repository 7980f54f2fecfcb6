"""The recorder's statistics during a run equal the statistics computed from the trace."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from support.jobs import run_mpi
from support.mpis import Mpi, wheel_mpi
from support.synthetic import LINK, MACHINE, Synthetic
from support.virtual_clock import build, record
from support.virtual_clock_model import BASE_NS, Line

import mpiprof
from mpiprof.__main__ import main
from mpiprof.causes.findings import make_verdict
from mpiprof.facts.operations import MANAGEMENT_COLLECTIVES, OPERATIONS, WAIT_STATES
from mpiprof.interface.format_units import format_share
from mpiprof.reports.site_labels import format_callsite
from mpiprof.reports.words import conclusion
from mpiprof.trace import Trace
from mpiprof.trace.writer import RECORD_TYPE

RANKS = {"openmpi": 3, "mpich": 2}

DELAYS = """
import random, sys, time
from array import array
from mpi4py import MPI
world = MPI.COMM_WORLD
rank, size = world.rank, world.size
delays = random.Random(rank)
mine, all_ = array('d', [1.0] * 1024 * size), array('d', [0.0] * 1024 * size)
part = array('d', [1.0] * 1024)
def late():
    until = time.perf_counter() + delays.random() * 3e-4
    while time.perf_counter() < until:
        pass
for turn in range(int(sys.argv[1])):
    late(); world.Alltoall(mine, all_)
    late(); world.Bcast(mine, root=1)
    late(); world.Reduce(mine, all_, root=0)
    late(); world.Allreduce(mine, all_)
    late(); world.Gather(part, all_, root=1)
"""


def recorded(mpi: Mpi, folder: Path, turns: int, *options: str, tail: str = "") -> Trace:
    """Record DELAYS on few ranks, with a machine table in which messages are expensive."""
    folder.mkdir(exist_ok=True)
    (folder / "app.py").write_text(DELAYS + tail)
    link = {**LINK, "alpha_ns": 10.0}
    (folder / "machine.json").write_text(json.dumps({**MACHINE, "within": link}))
    words = [str(mpi.python), "-m", "mpiprof", "run", "-q", "-o", "trace", "--machine"]
    words += ["machine.json", *options, "app.py", str(turns)]
    run_mpi(mpi, RANKS[mpi.name], words, cwd=folder, check=not tail)
    return mpiprof.open(folder / "trace")


@pytest.fixture(scope="module")
def switched(mpi: Mpi, tmp_path_factory: pytest.TempPathFactory) -> Trace:
    return recorded(mpi, tmp_path_factory.mktemp("auto"), 80, "--switch", "auto")


def windows(instances: pd.DataFrame, sums: dict[Any, Any]) -> Iterator[pd.DataFrame]:
    """Yield the instances that have these sums, to rounding: consecutive, except for one gap.

    The gap is after the first window, while candidates are listed. Waiting of rooted operations is
    excluded, because the analysis follows the schedule and the recorder uses the operation alone.
    """
    n = int(sums["instances"])
    rooms = {"elapsed_ns": n, "average_imbalance_ns": 2 * n, "worst_imbalance_ns": 0, "wait_ns": 0}
    if OPERATIONS[sums["operation"]].rooted:
        del rooms["wait_ns"]
    names = ["mean_elapsed_ns", *list(rooms)[1:]]
    up_to = np.vstack([np.zeros(len(names)), instances[names].to_numpy(np.float64).cumsum(0)])
    wanted, room = np.array([sums[name] for name in rooms]), np.array(list(rooms.values())) + 1e-3
    for first in range(len(instances) - n + 1):
        for gap in range(len(instances) - n - first + 1):
            for split in range(1, n) if gap else [n]:
                edges = first, first + split, first + split + gap, first + n + gap
                found = up_to[edges[1]] - up_to[edges[0]] + up_to[edges[3]] - up_to[edges[2]]
                if (np.abs(found - wanted) <= room).all():
                    runs = instances.iloc[edges[0] : edges[1]], instances.iloc[edges[2] : edges[3]]
                    yield pd.concat(runs if gap else runs[:1])


def test_statistics_are_those_of_the_trace_to_the_nanosecond(switched: Trace) -> None:
    """On 3 or 2 ranks, under `--switch auto`: whole, consecutive windows agree."""
    found = switched.statistics.to_dict("records")
    assert {row["operation"] for row in found} >= {"alltoall", "bcast", "allreduce"}
    for row in found:
        instances = switched.instances[switched.instances["operation"] == row["operation"]]
        (part,) = windows(instances, row)
        assert row["instances"] >= 4
        assert row["worst_most_ns"] == part["worst_imbalance_ns"].max()
        counts = part["last_rank"].value_counts()
        assert row["latest_count"] == counts.max() == counts[row["latest_rank"]]


def test_choices_are_those_that_were_noted(switched: Trace) -> None:
    """Probes in the trace and in the selector log agree, except planned ones after the end."""
    keys, ends = switched.selection["key"], switched.selection["end"]
    for end in ends.merge(keys, on="key").to_dict("records"):
        rows = switched.instances[switched.instances["operation"] == end["operation"]]
        events = switched.events[switched.events["operation"] == end["operation"]]
        found = rows["choice"].tolist()
        assert {"", "observe"} <= set(found) <= {"", "observe", "probe", "chosen"}
        for rank in range(switched.ranks):
            assert events[events["rank"] == rank]["choice"].tolist() == found
        assert found.count("probe") <= end["probes"]
        if found[-1] == "chosen":
            assert found.count("probe") == end["probes"]


def plan(ranks: int, loops: int) -> Iterator[Line]:
    """Yield calls on all types of communicators, with random delays."""
    delays = np.random.default_rng(1)
    operations = [
        *(("alltoall", "w"), ("bcast", "w"), ("gather", "w"), ("allgather", "i"), ("reduce", "r")),
        *(("barrier", "w"), ("scatter", "w"), ("allreduce", "r"), ("scan", "w"), ("gatherv", "r")),
        *(("allgatherv", "w"), ("alltoallv", "r"), ("scatterv", "w"), ("alltoallw", "w")),
        *(("reduce_scatter", "r"), ("exscan", "r"), ("neighbor_alltoall", "g")),
    ]
    for _ in range(loops):
        for operation, communicator in operations:
            before = delays.integers(0, 200_000, ranks).tolist()
            root = 1 if communicator != "i" else 0
            yield Line(operation, "b", communicator, root, before, [0] * ranks)
        yield Line("allreduce", "n", "w", 0, [0] * ranks, [0] * ranks)


@pytest.fixture(scope="module", params=["openmpi", "mpich"])
def both(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Trace]:
    """Return the same run on virtual clocks, recorded as events and as summary."""
    mpi, folder = wheel_mpi(request.param), tmp_path_factory.mktemp("virtual")
    ranks = RANKS[mpi.name]
    (folder / "plan").write_text("".join(line.text() + "\n" for line in plan(ranks, 40)))
    program = build(mpi, folder, "virtual_clock_delays")
    clocks = {"VIRTUAL_CLOCK": "virtual", "VIRTUAL_BASE": str(BASE_NS)}
    for how in ("events", "summary"):
        arguments = [str(folder / "plan")]
        record(mpi, ranks, program, arguments, clocks, more=["--record", how])
        shutil.move(folder / "trace", folder / how)
    return [mpiprof.open(folder / how) for how in ("events", "summary")]


NO_WAITS = ("neighbor_alltoall",)


def expected(trace: Trace, callsite: int, known: int) -> dict[str, float]:
    """Return the statistics of the last `known` instances of a call site, from its events."""
    rows = trace.instances[trace.instances["callsite"] == callsite].tail(known)
    late = rows[rows["worst_imbalance_ns"] > 0]["last_rank"].value_counts()
    means = ("average_imbalance_ns", "worst_imbalance_ns", "average_factor", "worst_factor")
    return {name: rows[name].mean() for name in (*means, "wait_ns")} | {
        "worst_factor_max": rows["worst_factor"].max(),
        "balanced_share": (rows["worst_factor"] < 1).mean(),
        "latest_share": late.max() / known,
    }


def test_a_summary_has_the_columns_of_the_report(both: list[Trace]) -> None:
    """On 3 or 2 ranks with virtual clocks: the tables agree, except each key's first call."""
    events, summary = both
    assert summary.record == "summary" and not len(summary.events) and summary.problems == []
    there, here = events.callsites, summary.callsites
    assert set(there.columns) == set(here.columns) and len(there) == len(here)
    for _, row in here.iterrows():
        if row["operation"] in MANAGEMENT_COLLECTIVES:  # without statistics
            assert row["complete_instances"] == 0
            continue
        wanted = there[there["operation"] == row["operation"]].iloc[0]
        exact = ("instances", "size", "bytes", "bytes_min", "bytes_max", "message_bytes")
        for name in (*exact, "message_time_ns", "mean_elapsed_ns", "total_elapsed_ns"):
            if row["operation"] != "iallreduce" or "elapsed" not in name:  # Wait is not measured
                assert row[name] == pytest.approx(wanted[name], rel=1e-9), (name, row)
        assert row["sites"] == wanted["sites"] and row["algorithm"] == "native"
        if row["operation"] == "iallreduce":
            assert row["complete_instances"] == 0 and np.isnan(row["worst_factor"])
            continue
        # Statistics lack the first instance of each key, and the keys of the initial history.
        assert 0 <= row["instances"] - row["complete_instances"] <= 4
        unknown = ["wait_ns"] * (row["operation"] in NO_WAITS)
        unknown += ["balanced_share"] * (row["operation"] in (*NO_WAITS, "alltoallw"))
        values = expected(events, int(wanted["callsite"]), int(row["complete_instances"]))
        for name, value in values.items():
            if name in unknown:
                assert np.isnan(row[name])
            else:
                assert row[name] == pytest.approx(value, rel=1e-6, abs=2), (name, row)
        if not np.isnan(row["wait_ns"]):
            # The first instances have no statistics. If they waited less, the total is limited to
            # its maximum.
            total = min(row["wait_ns"] * row["instances"], row["total_elapsed_ns"])
            assert row["total_wait_ns"] == pytest.approx(total, abs=1)
            low, high = row["total_wait_low_ns"], row["total_wait_high_ns"]
            assert 0 <= low <= wanted["total_wait_ns"] <= high <= row["total_elapsed_ns"]
            assert (
                sum(row[f"total_wait_{state}_ns"] for state in WAIT_STATES) == row["total_wait_ns"]
            )


def test_the_verdict_on_a_summary_names_the_site_without_a_cause(both: list[Trace]) -> None:
    """On 3 or 2 ranks with virtual clocks: the verdict names the call site, not the cause."""
    trace = both[1]
    printed = conclusion.verdict_lines(trace, make_verdict(trace, trace.findings()))
    waiting = trace.callsites["total_wait_ns"]
    assert printed[0].startswith(format_share(waiting.sum() / trace.process_time_ns))
    assert format_callsite(trace, int(waiting.to_numpy().argmax())) in printed[1]
    assert printed[2] == "A summary doesn't hold why ranks are late: record events to see it."


def test_a_summary_is_of_every_call_whatever_the_sample(mpich: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: a summary has all calls, because sampling would save nothing."""
    found = recorded(mpich, tmp_path, 400, "--record", "summary", "--sample", "10")
    rows = found.callsites[~found.callsites["operation"].isin(MANAGEMENT_COLLECTIVES)]
    assert rows["instances"].tolist() == [400] * 5
    assert found.sampling_interval == 1
    assert "ranks 0-1: --sample: --record summary counts every call, not one in 10" in found.notes


def test_a_summary_does_not_grow_with_the_instances(mpich: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: 20 times the instances need the same number of bytes."""
    few = recorded(mpich, tmp_path / "few", 20, "--record", "summary")
    many = recorded(mpich, tmp_path / "many", 400, "--record", "summary")
    rows = many.callsites[~many.callsites["operation"].isin(MANAGEMENT_COLLECTIVES)]
    assert rows["instances"].tolist() == [400] * 5
    assert (rows["complete_instances"] > 0).all()
    logs, tables = (
        [sum(path.stat().st_size for path in trace.path.glob(names)) for trace in (few, many)]
        for names in ("*.log", "*.tables")
    )
    assert logs[0] == logs[1] <= 2 * 2 * 65536
    assert tables[1] - tables[0] < 50  # the digits of the final times differ


KILLED = """
if rank == 1:
    import os, signal
    os.kill(os.getpid(), signal.SIGKILL)
world.Barrier()
"""


def test_a_killed_job_has_its_statistics(
    mpich: Mpi, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """On 2 ranks: report and status have all but the last windows."""
    trace = recorded(mpich, tmp_path / "killed", 400, "--record", "summary", tail=KILLED)
    table = trace.callsites
    known = table[table["operation"] == "alltoall"].iloc[0]
    assert 50 < known["complete_instances"] < 400 and known["worst_factor"] > 0
    assert main(["status", str(trace.path), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["callsites"]
    assert rows[0]["total_wait_ns"] == max(row["total_wait_ns"] for row in rows) > 0
    assert main(["status", str(trace.path)]) == 0
    assert "Waiting so far" in capsys.readouterr().out
    assert main(["report", str(trace.path)]) == 0
    text = capsys.readouterr().out
    assert "instances are known" in text and "ω/T" in text


# Synthetic traces: damage, and statistics from several ranks


def add_statistics(
    synthetic: Synthetic, rank: int, shape: int, sums: list[int], latest: int
) -> None:
    """Add a group of records: elapsed, instances, then the values of the extensions."""
    group = np.zeros(8, RECORD_TYPE)
    group["kind"], group["shape"], group["sequence"] = 4, shape, np.arange(5, 13)
    group["kind"][0], group["sequence"][0] = 6, 0
    group["enter_ns"][0], group["exit_ns"] = sums[0], sums[1:]
    group["enter_ns"][-1] = latest
    synthetic.records[rank].append(group)


def summarised(synthetic: Synthetic, rank: int, shape: int, calls: int) -> None:
    synthetic.add(rank, shape, 0, 1000 * calls, calls, kind=5)
    for which, value in ((3, 8 * calls), (4, 8 * calls), (5, 1000)):
        synthetic.add_extension(rank, which, value)


SUMS = [5000, 5, 100, 500, 700, 50, 2, 200, 3]


def test_members_of_two_groups_are_counted_from_the_lowest_rank(tmp_path: Path) -> None:
    """Each group calls at its own call site: one row, with the statistics of the leader."""
    synthetic = Synthetic(4)
    synthetic.meta["record"] = "summary"
    synthetic.add_communicator("bridge", [2, 1], [3, 0])
    for rank in range(4):
        site = "app.py:7:right" if rank in (0, 3) else "app.py:9:left"
        shape = synthetic.add_shape(rank, "allgather", "bridge", site=site)
        summarised(synthetic, rank, shape, 10)
        if rank == 3:  # rank 0 of the group with the lowest world rank
            add_statistics(synthetic, rank, shape, SUMS, latest=2)
    (row,) = mpiprof.open(synthetic.write(tmp_path / "t")).callsites.to_dict("records")
    assert len(row["sites"]) == 2
    assert (row["instances"], row["complete_instances"]) == (10, 5)
    assert (row["worst_imbalance_ns"], row["wait_ns"]) == (100, 140)
    assert row["total_wait_ns"] == row["total_wait_nxn_ns"] == 1400
    assert (row["latest_rank"], row["latest_share"]) == (2, 0.6)
    assert row["worst_factor"] == pytest.approx(100 / 10_008)


@pytest.mark.parametrize("field", [0, 2, 6, 8])
def test_damaged_statistics_are_left_out(tmp_path: Path, field: int) -> None:
    synthetic = Synthetic(2)
    synthetic.meta["record"] = "summary"
    for rank in (0, 1):
        shape = synthetic.add_shape(rank, "allreduce", "world")
        summarised(synthetic, rank, shape, 10)
    damaged = list(SUMS)
    damaged[field] = -1 if field < 6 else 10**12
    add_statistics(synthetic, 0, 0, damaged, latest=0)
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    assert trace.statistics.empty and np.isnan(trace.callsites["wait_ns"].iloc[0])
    assert any("damaged statistics" in problem for problem in trace.problems)


def test_statistics_among_events_change_nothing(tmp_path: Path) -> None:
    synthetic = Synthetic(2)
    synthetic.add_collective("allreduce", [[10, 20], [40, 45]], [[30, 30], [50, 50]])
    alone = mpiprof.open(synthetic.write(tmp_path / "alone"))
    add_statistics(synthetic, 0, 0, SUMS, latest=1)
    synthetic.add_collective("allreduce", [[60, 61]], [[70, 70]])
    trace = mpiprof.open(synthetic.write(tmp_path / "t"))
    assert trace.problems == [] and trace.statistics["latest_rank"].tolist() == [1]
    pd.testing.assert_frame_equal(trace.instances.head(2), alone.instances)
    assert len(trace.events) == 6


KILLED = """
import os, signal, time
from array import array
from mpi4py import MPI
world = MPI.COMM_WORLD
mine, all_ = array('d', [1.0]), array('d', [0.0])
for turn in range(100):
    time.sleep(0.01 * world.rank)
    world.Allreduce(mine, all_)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_summary_ends_with_its_last_call(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks, killed at least a second after MPI_Init: the log ends without an event."""
    (tmp_path / "app.py").write_text(KILLED)
    options = ["-q", "-o", "trace", "--record", "summary"]
    run_mpi(mpi, 2, [mpi.python, "-m", "mpiprof", "run", *options, "app.py"], cwd=tmp_path)
    trace = mpiprof.open(tmp_path / "trace")
    row = trace.callsites.set_index("operation").loc["allreduce"]
    assert not trace.is_complete and row["instances"] == 100
    assert trace.duration_ns >= 9.9e8  # 99 sleeps after the first call
    assert row["total_wait_ns"] <= row["total_elapsed_ns"] <= trace.process_time_ns
