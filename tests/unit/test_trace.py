"""Reading: layouts, chunks, threads, incomplete instances, frames, summaries."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support.synthetic import Synthetic

import mpiprof
from mpiprof.account import rank_totals
from mpiprof.trace import trace as trace_module
from mpiprof.trace.layout import parse_layout
from mpiprof.trace.log import LogFile
from mpiprof.trace.match import Matcher
from mpiprof.trace.sites import describe_sites
from mpiprof.trace.writer import RECORD_TYPE, make_chunks, make_head_chunk


def test_import_costs_nothing() -> None:
    code = (
        "import sys, mpiprof; print([m for m in ('numpy', 'pandas', 'scipy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_layout_comes_from_the_file() -> None:
    described = json.loads(make_head_chunk().split(b"\n")[0])
    described["record_bytes"] = 40
    described["record"] = [[n, t, offset + 8] for n, t, offset in described["record"]]
    layout = parse_layout(json.dumps(described).encode() + b"\n", "x")
    assert layout.record.itemsize == 40
    assert layout.record.fields is not None
    assert layout.record.fields["enter_ns"][1] == 8
    assert layout.capacity == (65536 - 64) // 40


def test_facts_of_a_run(tmp_path: Path) -> None:
    trace = Synthetic(3)
    trace.started_ns, trace.ended_ns = 500, 1_000_500
    trace.add_collective("barrier", [[1000] * 3], [[2000] * 3])
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    assert (opened.program, opened.mpi) == ("synthetic.py", "Synthetic MPI 1.0")
    assert (opened.ranks, opened.node_count, opened.dropped_records) == (3, 1, 0)
    assert opened.duration_ns == 1_000_000
    assert opened.record == "events"
    assert opened.is_complete
    assert opened.processes["end_reason"].tolist() == ["finalize"] * 3


def test_events_have_one_row_a_call(tmp_path: Path) -> None:
    trace = Synthetic(2)
    trace.add_collective("iallreduce", [[10, 20]], [[12, 22]], completions=([[50, 60]], [[70, 70]]))
    trace.add_collective("bcast", [[100, 110]], [[120, 0]], root=1, site="app.py:7:f")
    table = mpiprof.open(trace.write(tmp_path / "t", finished=False)).events
    assert table["rank"].tolist() == [0, 0, 1, 1]
    assert table["operation"].tolist() == ["iallreduce", "bcast"] * 2
    assert table["site"].tolist()[1] == "app.py:7 f"
    assert table["enter_ns"].tolist() == [10, 100, 20, 110]
    assert table["exit_ns"].isna().tolist() == [False, False, False, True]
    assert table["completion_enter_ns"].tolist()[0] == 50
    assert table["completion_exit_ns"].tolist()[2] == 70
    assert table["root"].isna().tolist() == [True, False, True, False]


def test_open_and_absent_members_make_an_instance_incomplete(tmp_path: Path) -> None:
    trace = Synthetic(3)
    trace.add_collective("allreduce", [[10, 20, 30]], [[40, 40, 40]])
    trace.add_collective("allreduce", [[110, 120, 130]], [[0, 0, 0]])  # all arrived, none left
    trace.add_collective("allreduce", [[210, -1, 230]], [[0, 0, 0]])  # rank 1 never arrived
    opened = mpiprof.open(trace.write(tmp_path / "t", finished=False))
    table = opened.instances
    assert table["complete"].tolist() == [True, False, False]
    assert table["worst_imbalance_ns"].tolist()[:2] == [20, 20]
    assert np.isnan(table["worst_imbalance_ns"][2])
    assert table["last_rank"].isna().tolist() == [False, False, True]
    assert table["wait_ns"].isna().tolist() == [False, True, True]
    row = opened.callsites.iloc[0]
    assert (row["instances"], row["complete_instances"]) == (3, 1)
    assert row["total_elapsed_ns"] == 30 + 20 + 10
    assert opened.matrix(0)[0].tolist()[2] == [210, -1, 230]


def test_gaps_of_one_rank_do_not_shift_the_others(tmp_path: Path) -> None:
    """Rank 1 dropped some records; the remaining records still match."""
    trace = Synthetic(2)
    times = np.arange(1, 101)[:, None] * 1000 + np.array([[0, 7]])
    arrivals = times.copy()
    arrivals[10:20, 1] = -1
    trace.add_collective("barrier", arrivals, times + 50)
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    table = opened.instances
    assert table["complete"].sum() == 90
    assert (table["worst_imbalance_ns"].dropna() == 7).all()
    assert sorted(table["sequence"]) == list(range(100))


def test_sampled_traces_have_the_original_sequence_numbers(tmp_path: Path) -> None:
    trace = Synthetic(2)
    for rank in (0, 1):
        shape = trace.add_shape(rank, "barrier", "world")
        retained = np.array([3, 9, 12, 40])
        trace.add(rank, shape, retained, retained * 1000 + rank, retained * 1000 + 100)
    table = mpiprof.open(trace.write(tmp_path / "t")).instances
    assert table["sequence"].tolist() == [3, 9, 12, 40]
    assert table["complete"].all()


def test_local_communicators_are_not_joined(tmp_path: Path) -> None:
    trace = Synthetic(2)
    trace.add_communicator("unknown", [0, 1], local=True)
    trace.add_collective("barrier", [[10, 20]], [[30, 30]], "unknown")
    table = mpiprof.open(trace.write(tmp_path / "t")).instances
    assert len(table) == 2
    assert not table["complete"].any()
    assert table["worst_imbalance_ns"].isna().all()


def two_threads(folder: Path) -> Path:
    """Write 9000 barriers of two ranks; on rank 0 two threads alternate, over several chunks."""
    trace = Synthetic(2)
    numbers = np.arange(9000)
    enter = (numbers + 1) * 1000
    shapes = [trace.add_shape(r, "barrier", "world") for r in (0, 1)]
    for rank in (0, 1):
        trace.add(rank, shapes[rank], numbers, enter + rank, enter + 500)
        trace.records[rank][-1]["outside_ns"] = numbers + rank
    trace.write(folder)
    records = trace.records[0][0]
    (folder / "rank-000000.log").write_bytes(
        make_head_chunk()
        + make_chunks(records[1::2], 0, 1, 0, window=True)
        + make_chunks(records[::2], 0, 0, 0, window=True)
    )
    return folder


def test_threads_of_a_rank_are_merged(tmp_path: Path) -> None:
    row = mpiprof.open(two_threads(tmp_path / "t")).callsites.iloc[0]
    assert (row["instances"], row["complete_instances"]) == (9000, 9000)
    assert row["worst_imbalance_ns"] == 1


@pytest.mark.parametrize("number", [0, 1, 2047, 2048, 2049, 4500, 8998, 8999])
def test_reading_can_begin_in_the_middle(number: int, tmp_path: Path) -> None:
    opened = mpiprof.open(two_threads(tmp_path / "t"))
    row = opened.instances.iloc[number]
    since, where = int(row["first_arrival_ns"]), str(row["communicator"])
    opened = mpiprof.open(opened.path)  # a cached trace leaves nothing out
    first = next(iter(opened.batches(since_ns=since)))
    assert number - 2 * 4096 <= first.sequence[0] <= number
    assert number < 5000 or first.sequence[0] > 0
    found = rank_totals.read_instance(opened, where, number, since_ns=since)
    again = rank_totals.read_instance(opened, where, number)
    assert found.arrival.tolist() == again.arrival.tolist()
    assert found.finish.tolist() == again.finish.tolist()
    reported = [rank_totals.find_call(opened, r, int(t)) for r, t in enumerate(found.arrival)]
    assert reported == [(number % 2, number), (0, number + 1)]
    assert rank_totals.find_call(opened, 1, since - 1) is None
    assert not opened.problems


def test_many_communicators_small_blocks_and_run_ahead(tmp_path: Path) -> None:
    """The table is independent of the block size, even if a root runs far ahead."""
    trace = Synthetic(4)
    for a, b in ((0, 1), (2, 3), (0, 3)):
        trace.add_communicator(f"{a}-{b}", [a, b])
    random = np.random.default_rng(5)
    clock = 1000
    for _ in range(60):
        name = ["world", "0-1", "2-3", "0-3"][random.integers(4)]
        size = len(trace.members[name][0])
        arrivals = clock + random.integers(0, 500, (10, size)) + np.arange(10)[:, None] * 1000
        trace.add_collective("barrier", arrivals, arrivals.max(1)[:, None] + 5 + 0 * arrivals, name)
        clock += 20_000
    ahead = clock + np.arange(3000)[:, None] * 10 + np.array([[0, 10**6, 10**6, 10**6]])
    trace.add_collective("bcast", ahead, ahead + 5, root=0)
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    keys = set()
    for batch in (600, 5000, 1 << 21):
        found = []
        matcher = opened.batches(batch=batch)
        for one in matcher:
            assert one.complete
            found += [
                (one.communicator.index, s, int(a))
                for s, a in zip(one.sequence.tolist(), one.arrival_ns.sum(0).tolist(), strict=True)
            ]
        assert len(found) == 600 + 3000
        keys.add(tuple(sorted(found)))
    assert len(keys) == 1
    assert Matcher is not None


@pytest.mark.parametrize("calls", [119, 120])
def test_a_short_trace_is_read_once(
    calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """30 instances on 4 ranks are cached for up to 120 calls, and returned again, with `before`."""
    synthetic = Synthetic(4)
    arrivals = np.arange(1, 31)[:, None] * 1_000_000 + np.arange(4) * 1000
    synthetic.add_collective(
        "allreduce", arrivals, arrivals.max(1, keepdims=True) + 0 * arrivals + 9
    )
    opened = mpiprof.open(synthetic.write(tmp_path / "t"))
    monkeypatch.setattr(trace_module, "max_cached_calls", lambda: calls)
    first = np.concatenate([batch.arrival_ns for batch in opened.batches()], 1)
    assert (arrivals == first.T).all()
    monkeypatch.setattr(LogFile, "read", lambda *_: np.zeros(0, RECORD_TYPE))
    again = list(opened.batches(before=True))
    assert len(again) == (calls == 120)
    for batch in again:
        assert batch.before is not None and (batch.before.sequence[:, 1:] == np.arange(29)).all()


def test_starts_in_different_orders_and_completions_out_of_order(tmp_path: Path) -> None:
    trace = Synthetic(2)
    sent = {"sent": 8, "received": 8}
    shapes = [trace.add_shape(r, "allreduce_init", "world", **sent) for r in (0, 1)]
    for rank in (0, 1):
        trace.add(rank, shapes[rank], [0, 1], [10, 20], [11, 21])
        for number in (0, 1) if rank == 0 else (1, 0):
            trace.add_start(rank, shapes[rank], number, 1, 100 + number, (200, 300 + number))
    trace.sequence["world"] = 2
    for rank in (0, 1):
        shape = trace.add_shape(rank, "ibarrier", "world")
        trace.add(rank, shape, [2, 3], [1000, 1001], [1000, 1001])
        trace.add(rank, shape, [3, 2], [1100, 1200], [1150, 1250], kind=3)
    table = mpiprof.open(trace.write(tmp_path / "t")).instances
    assert table["complete"].all()
    assert len(table) == 2 + 2 + 2
    assert table["last_exit_ns"].tolist() == [11, 21, 300, 301, 1250, 1150]


def test_nonblocking_without_completion_is_incomplete(tmp_path: Path) -> None:
    trace = Synthetic(2)
    trace.add_collective("ibarrier", [[10, 20]], [[11, 21]], completions=([[30, 30]], [[40, 0]]))
    table = mpiprof.open(trace.write(tmp_path / "t", finished=[0])).instances
    assert table["complete"].tolist() == [False]
    assert table["worst_imbalance_ns"].tolist() == [10]
    assert table["wait_ns"].isna().all()


def test_dropped_records_are_counted(tmp_path: Path) -> None:
    trace = Synthetic(1)
    trace.add_collective("barrier", [[10]], [[20]])
    folder = trace.write(tmp_path / "t")
    path = folder / "rank-000000.log"
    content = bytearray(path.read_bytes())
    content[65536 + 24 : 65536 + 32] = (17).to_bytes(8, "little")
    path.write_bytes(content)
    opened = mpiprof.open(folder)
    assert opened.dropped_records == 17
    assert not opened.is_complete
    assert any("17 records were dropped" in p for p in opened.problems)


def test_summaries(tmp_path: Path) -> None:
    trace = Synthetic(2)
    trace.meta["record"] = "summary"
    for rank in (0, 1):
        for operation, calls in (("allreduce", 10), ("barrier", 4)):
            shape = trace.add_shape(rank, operation, "world")
            record = np.zeros(1, RECORD_TYPE)
            record["enter_ns"], record["exit_ns"] = calls * 100 * (rank + 1), calls
            record["shape"], record["kind"] = shape, 5
            trace.records[rank].append(record)
            for which, value in ((3, calls * 8), (4, calls * 8), (5, 170)):
                trace.add_extension(rank, which, value)
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    table = opened.summary
    assert table["calls"].tolist() == [10, 4, 10, 4]
    assert table["total_ns"].tolist() == [1000, 400, 2000, 800]
    assert table["sent"].tolist() == [80, 32, 80, 32]
    assert table["longest_ns"].tolist() == [170] * 4
    sites = opened.callsites
    assert sites["instances"].tolist() == [10, 4]
    assert sites["bytes"].tolist() == [8, 0]  # a barrier has no bytes
    assert sites["mean_elapsed_ns"].tolist() == [150, 150]
    assert sites["worst_factor"].isna().all()
    assert len(opened.instances) == 0


def test_one_log_for_several_ranks(tmp_path: Path) -> None:
    trace = Synthetic(2)
    trace.add_collective("barrier", [[10, 20]], [[30, 30]])
    folder = trace.write(tmp_path / "t")
    second = (folder / "rank-000001.log").read_bytes()[65536:]
    first = (folder / "rank-000000.log").read_bytes()
    tables = "".join((folder / f"rank-00000{r}.tables").read_text() for r in (0, 1))
    for path in folder.glob("rank-*"):
        path.unlink()
    (folder / "node-n0.log").write_bytes(first + second)
    (folder / "node-n0.tables").write_text(tables)
    assert mpiprof.open(folder).instances["complete"].tolist() == [True]


def test_an_unknown_call_site_is_reported(tmp_path: Path) -> None:
    with pytest.raises(mpiprof_error(), match="no call site 3"):
        trace = Synthetic(1)
        trace.add_collective("barrier", [[10]], [[20]])
        mpiprof.open(trace.write(tmp_path / "t")).matrix(3)


def mpiprof_error() -> type[Exception]:
    from mpiprof.errors import TraceError

    return TraceError


def test_native_sites_are_resolved_to_lines(tmp_path: Path) -> None:
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None or shutil.which("addr2line") is None or shutil.which("nm") is None:
        pytest.skip("needs a C compiler and binutils")
    source = tmp_path / "late.c"
    source.write_text(
        "int g;\nint late(void)\n{\n    return g;\n}\nint main(void) { return late(); }\n"
    )
    for flags in ([], ["-no-pie", "-fno-pie"]):
        program = tmp_path / ("late" + "".join(flags))
        subprocess.run([compiler, "-g", "-O0", *flags, str(source), "-o", str(program)], check=True)
        symbols = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
        address = next(int(x.split()[0], 16) for x in symbols.splitlines() if x.endswith(" late"))
        base = 0x400000 if flags else 0  # base of the mapping, which the recorder subtracts
        site = ({"module": str(program), "offset": address - base + 1, "symbol": "late+0x1"},)
        found = describe_sites([site], [[0, -1]])[0]
        assert found[0] == {"file": str(source), "line": 3, "function": "late"}
        assert found[1]["file"] is None
    gone = ({"module": "/nowhere/a.out", "offset": 4711, "symbol": "main+0x1c"},)
    assert describe_sites([gone], [[0]])[0][0]["function"] == "main+0x1c"


def test_events_have_their_threads(tmp_path: Path) -> None:
    trace = Synthetic(1)
    trace.add_collective("barrier", [[10], [20]], [[15], [25]])
    records = trace.records[0][0]
    folder = trace.write(tmp_path / "t")
    (folder / "rank-000000.log").write_bytes(
        make_head_chunk()
        + make_chunks(records[:1], 0, 0, 0, True)
        + make_chunks(records[1:], 0, 3, 0, True)
    )
    assert mpiprof.open(folder).events["thread"].tolist() == [0, 3]


def test_a_window_that_moves_on_while_it_is_read(tmp_path: Path) -> None:
    """The recorder empties the window for the next chunk between two reads of it."""
    trace = Synthetic(1)
    trace.add_collective("barrier", [[10]], [[20]])
    folder = trace.write(tmp_path / "t", finished=False)
    opened = mpiprof.open(folder)
    records = trace.records[0][0].copy()
    records["sequence"] = 2046
    (folder / "rank-000000.log").write_bytes(
        make_head_chunk() + make_chunks(records, 0, 0, 1, True)
    )
    assert len(opened.instances) == 0
    assert any("continued" in p for p in opened.problems)


def test_repr_of_a_trace_describes_it(tmp_path: Path) -> None:
    synthetic = Synthetic(2, nodes=[0, 0])
    times = np.array([[1_000, 2_000]]), np.array([[3_000, 3_000]])
    synthetic.add_collective("barrier", *times, sent=0, received=0)
    trace = mpiprof.open(synthetic.write(tmp_path / "<run>"))
    printed = repr(trace)
    assert re.fullmatch(r"<Trace '.*/<run>': .*2 ranks on 1 node, .*events, complete>", printed)
    page = trace._repr_html_()
    assert "&lt;run&gt;" in page and "<run>" not in page and "<ul>" not in page
    (trace.path / "meta.json").unlink()
    page = mpiprof.open(trace.path)._repr_html_()
    assert "<li>meta.json is missing" in page


def test_tried_algorithms_are_read_for_equivalent_communicators(tmp_path: Path) -> None:
    """Calls on many communicators that share a row: the second and the fourth are probes."""
    trace = Synthetic(2)
    trace.add_communicator("alike", [0, 1])
    for rank in range(2):
        shape = trace.add_shape(rank, "barrier", "alike")
        for nth in range(1, 6):
            trace.add_extension(rank, 2, nth)
            trace.add(rank, shape, 0, 100 * nth + rank, 100 * nth + 50)
            trace.records[rank][-1]["choice"] = 2 * (nth % 2 == 0)
    found = mpiprof.open(trace.write(tmp_path / "t"))
    events, instances = found.events["choice"].tolist(), found.instances["choice"].tolist()
    assert events == 2 * ["", "probe", "", "probe", ""]
    assert instances == ["", "probe", "", "probe", ""]
