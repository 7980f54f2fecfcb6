"""Damaged, cut, empty and foreign traces.

Each results in a one-line error, or in a Trace that names the missing parts. It never results in
another exception, invented numbers, or unbounded memory.
"""

from __future__ import annotations

import json
import shutil
import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from benchmarks import damage
from support.page_traces import write_damaged
from support.synthetic import Synthetic, upgrade_folder

import mpiprof
from mpiprof.__main__ import main
from mpiprof.errors import TraceError
from mpiprof.reports import run_summary
from mpiprof.reports.words import trace_sentences
from mpiprof.trace.writer import make_chunks, make_head_chunk

pytestmark = pytest.mark.slow


def healthy(folder: Path) -> Path:
    """Write 3 ranks on two nodes with all forms of operations, and two threads."""
    trace = Synthetic(3, nodes=[0, 0, 1], offsets=[0, 10**9], drifts=[0, 1e-6])
    trace.add_communicator("pair", [0, 2])
    random = np.random.default_rng(0)
    base = np.arange(1, 31)[:, None] * 1_000_000
    for i, operation in enumerate(("allreduce", "bcast", "alltoallv", "barrier")):
        arrivals = base + i * 100_000_000 + random.integers(0, 1000, (30, 3))
        trace.add_collective(operation, arrivals, arrivals.max(1)[:, None] + [[9, 8, 7]], root=0)
    late = base[:, :1] + 10**9 + np.zeros((1, 2), np.int64)
    trace.add_collective("iallreduce", late, late + 5, "pair", completions=(late + 50, late + 90))
    for rank in range(3):
        shape = trace.add_shape(rank, "barrier_init", "world", flags=["persistent"])
        trace.add(rank, shape, trace.sequence["world"], 2 * 10**9, 2 * 10**9 + 5)
        for nth in (1, 2, 3):
            begin = 2 * 10**9 + 1000 * nth
            trace.add_start(
                rank, shape, trace.sequence["world"], nth, begin, (begin + 10, begin + 50)
            )
    trace.add_clock(2, 0, 2000, 100)
    trace.add_clock(2, 0, 10**11, 100, "finalize")
    trace.ended_ns = 10**11 + 1
    return trace.write(folder)


def exercise(trace: mpiprof.Trace) -> None:
    """Read everything, and check that defined values are possible."""
    table, instances = trace.callsites, trace.instances
    assert len(trace.events) < 100_000
    assert len(trace.processes) == trace.ranks < 100_000
    assert instances["wait_ns"][~instances["complete"]].isna().all()
    complete = instances[instances["complete"]]
    if len(complete):
        assert (complete["worst_imbalance_ns"] >= complete["average_imbalance_ns"]).all()
        assert (complete["wait_ns"] >= 0).all()
        assert (complete["mean_elapsed_ns"] >= 0).all()
    assert (table["instances"] >= table["complete_instances"]).all()
    assert trace.clock_error_ns >= 0
    assert trace.duration_ns >= 0
    if len(table):
        arrivals, exits = trace.matrix(0)
        assert arrivals.shape == exits.shape
    assert isinstance(trace.problems, list)


def test_a_healthy_trace_has_no_problems(tmp_path: Path) -> None:
    trace = mpiprof.open(healthy(tmp_path / "t"))
    exercise(trace)
    assert trace.problems == []
    assert trace.is_complete
    assert trace.instances["complete"].all()
    assert len(trace.instances) == 4 * 30 + 30 + 1 + 3


SEEDS = [seed if seed < 50 else pytest.param(seed, marks=pytest.mark.heavy) for seed in range(150)]


@pytest.mark.parametrize("seed", SEEDS)
def test_flipped_and_cut_bytes(tmp_path: Path, seed: int) -> None:
    folder = healthy(tmp_path / "t")
    random = np.random.default_rng(seed)
    files = sorted(folder.iterdir())
    for _ in range(int(random.integers(1, 4))):
        path = files[random.integers(len(files))]
        content = bytearray(path.read_bytes())
        if not content:
            continue
        # Most of a log is empty space, so damage its first line, its headers and its records.
        used = 65536 + 64 + 32 * 180 if path.suffix == ".log" else len(content)
        used = min(used, len(content))
        low = 65536 if path.suffix == ".log" and used > 65536 and random.integers(4) else 0
        action = random.integers(3)
        if action == 0:
            for at in random.integers(low, used, int(random.integers(1, 30))):
                content[at] ^= 1 << int(random.integers(8))
        elif action == 1:
            content = content[: int(random.integers(0, len(content)))]
        else:
            at = int(random.integers(low, used))
            content[at : at + 64] = random.integers(0, 256, 64, dtype=np.uint8).tobytes()
        path.write_bytes(content)
    tracemalloc.start()
    try:
        exercise(mpiprof.open(folder))
    except TraceError as error:
        assert str(error)
        assert "\n" not in str(error)
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert peak < 200e6


@pytest.mark.parametrize("name", ["meta.json", "rank-000001.log", "rank-000001.tables"])
@pytest.mark.parametrize("size", [0, 1, 100, 65535, 65536, 65600, 70000])
def test_every_file_may_end_anywhere(tmp_path: Path, name: str, size: int) -> None:
    folder = healthy(tmp_path / "t")
    path = folder / name
    content = path.read_bytes()
    path.write_bytes(content[:size])
    trace = mpiprof.open(folder)
    exercise(trace)
    if size < len(content):
        assert trace.problems
        assert trace.is_complete == (name == "meta.json")


def test_records_before_the_cut_are_read(tmp_path: Path) -> None:
    """One rank's log lacks its last chunk; its earlier calls remain complete."""
    trace = Synthetic(2)
    times = np.arange(1, 5001)[:, None] * 1000 + np.array([[0, 1]])
    trace.add_collective("barrier", times, times + 500)
    folder = trace.write(tmp_path / "t")
    path = folder / "rank-000001.log"
    path.write_bytes(path.read_bytes()[: 3 * 65536 + 10])
    opened = mpiprof.open(folder)
    row = opened.callsites.iloc[0]
    assert (row["instances"], row["complete_instances"]) == (5000, 2 * 2046)
    assert not opened.is_complete
    assert any("rank-000001.log" in p for p in opened.problems)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"\x7fELF" + bytes(100), "not an mpiprof log"),
        (b'{"format": "other"}\n', "not an mpiprof log"),
        (b'{"format": "mpiprof log", "version": 9}\n', "newer mpiprof"),
        (b'{"format": "mpiprof log"', "truncated"),
        (b'{"format": "mpiprof log", "version": 1}\n', "damaged"),
    ],
)
def test_a_foreign_log_is_named_in_one_line(tmp_path: Path, content: bytes, words: str) -> None:
    (tmp_path / "rank-000000.log").write_bytes(content)
    with pytest.raises(TraceError, match=words) as caught:
        mpiprof.open(tmp_path)
    assert "rank-000000.log" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_what_is_no_trace_folder(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="no such trace folder"):
        mpiprof.open(tmp_path / "missing")
    with pytest.raises(TraceError, match="no mpiprof trace in it"):
        mpiprof.open(tmp_path)
    file = tmp_path / "file"
    file.write_text("x")
    with pytest.raises(TraceError, match="not a folder"):
        mpiprof.open(file)


def test_a_newer_trace_is_refused(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "t")
    (folder / "meta.json").write_text(json.dumps({"format": "mpiprof trace", "version": 2}))
    with pytest.raises(TraceError, match="newer mpiprof"):
        mpiprof.open(folder)


def test_a_missing_rank_is_reported_and_no_value_is_invented(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "t")
    for path in folder.glob("rank-000001.*"):
        path.unlink()
    trace = mpiprof.open(folder)
    exercise(trace)
    assert trace.ranks == 3
    assert any("rank 1" in p for p in trace.problems)
    assert trace.ranks_without_records == {1}
    world = trace.instances[trace.instances["size"] == 3]
    assert set(world["first_rank"]) | set(world["last_rank"]) <= {0, 2}
    assert (
        1 not in trace.events["rank"].to_numpy() and 1 not in trace.rank_totals["rank"].to_numpy()
    )


def test_tables_alone_are_a_trace_without_calls(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "t")
    for path in folder.glob("*.log"):
        path.unlink()
    trace = mpiprof.open(folder)
    assert len(trace.callsites) == len(trace.instances) == len(trace.events) == 0
    assert trace.summary.empty


def test_a_chunk_counts_once_beside_its_live_window(tmp_path: Path) -> None:
    trace = Synthetic(2)
    trace.add_collective("barrier", [[1000, 1000]], [[2000, 2000]])
    folder = trace.write(tmp_path / "t")
    for rank in range(2):
        records = trace.records[rank][0]
        (folder / f"rank-{rank:06d}.log").write_bytes(
            make_head_chunk()
            + make_chunks(records, rank, 0, 0, window=True)
            + make_chunks(records, rank, 0, 0, False)
        )
    opened = mpiprof.open(folder)
    assert opened.callsites["instances"].tolist() == [1]
    assert len(opened.events) == 2
    assert opened.problems == []


def test_unused_chunks_are_skipped(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "t")
    path = folder / "rank-000000.log"
    path.write_bytes(path.read_bytes() + bytes(3 * 65536))
    trace = mpiprof.open(folder)
    assert trace.is_complete
    assert trace.problems == []


def test_a_trace_can_be_moved(tmp_path: Path) -> None:
    folder = healthy(tmp_path / "a")
    shutil.move(folder, tmp_path / "b")
    assert mpiprof.open(str(tmp_path / "b")).is_complete


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"sequence", "<u4", 16', '"sequence", "<u4", 18'),  # overlaps the next field
        ('"shape", "<u4"', '"shape", "<i4"'),
        ('"enter_ns", "<i8"', '"enter_ns", "<f8"'),
        ('"kind", "u1", 30', '"kind", "u1", 32'),
        ('"chunk_bytes": 65536', '"chunk_bytes": 90'),
        ('"sequence"', '"sequencf"'),
    ],
)
def test_an_impossible_layout_is_refused(tmp_path: Path, old: str, new: str) -> None:
    head = make_head_chunk().decode()
    assert old in head
    (tmp_path / "rank-000000.log").write_text(head.replace(old, new))
    with pytest.raises(TraceError, match="damaged first line"):
        mpiprof.open(tmp_path)


def test_an_empty_summary_is_a_trace_without_calls(tmp_path: Path) -> None:
    trace = Synthetic(1)
    trace.meta["record"] = "summary"
    opened = mpiprof.open(trace.write(tmp_path / "t"))
    assert "total_wait_ns" in opened.callsites
    assert opened.summary.empty


def test_a_trace_with_sums_reads_as_one_without(tmp_path: Path) -> None:
    old, new = (
        mpiprof.open(healthy(tmp_path / "old")),
        mpiprof.open(upgrade_folder(healthy(tmp_path / "new"))),
    )
    assert new.logs.opened[0].layout.has_checksums and not old.logs.opened[0].layout.has_checksums
    pd.testing.assert_frame_equal(old.callsites, new.callsites)
    assert new.is_complete and new.problems == []


@pytest.mark.parametrize("kind", ["flip", "drop", "double", "swap"])
def test_a_damaged_line_of_a_table_is_never_a_number(tmp_path: Path, kind: str) -> None:
    """Whatever happens to a line with a checksum, only the other lines remain in the tables."""
    folder = upgrade_folder(healthy(tmp_path / "t"))
    path = folder / "rank-000001.tables"
    lines = path.read_bytes().split(b"\n")[:-1]
    place = next(i for i, line in enumerate(lines) if b"alltoallv" in line)
    before, after = {
        "flip": (b"alltoallv", b"allreduce"),
        "drop": (b', "check"', b', "cheek"'),
        "double": (b'"sent"', b'"sent": 9, "sent"'),
        "swap": (b'"operation"', b'"op"'),
    }[kind]
    lines[place] = lines[place].replace(before, after)
    path.write_bytes(b"\n".join(lines) + b"\n")
    trace = mpiprof.open(folder)
    exercise(trace)
    assert not trace.is_complete
    counts = trace.callsites.set_index("operation")["complete_instances"]
    assert counts["allreduce"] == 30 and counts["alltoallv"] == 0


def test_a_chunk_that_is_gone_is_missed(tmp_path: Path) -> None:
    """The last chunk is included, although its absence leaves no gap in the numbers."""
    folder = upgrade_folder(healthy(tmp_path / "t"))
    path = folder / "rank-000002.log"
    content = bytearray(path.read_bytes())
    content[65536 : 65536 + 4096] = bytes(4096)
    path.write_bytes(content)
    trace = mpiprof.open(folder)
    exercise(trace)
    assert not trace.is_complete
    assert any("a chunk of its log is gone" in line for line in trace.problems)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.heavy)])
def test_damage_is_never_silent(seed: int) -> None:
    """A hundred damaged traces; the benchmark can run any number."""
    counts, wrong = damage.run(range(100), seed, lambda _: None)
    assert wrong == [] and sum(counts.values()) == 100
    assert counts[damage.MARKED] > 50 and counts[damage.SOUND] > 0


def test_an_interrupted_check_reports_the_damage_so_far() -> None:
    def two(done: int) -> None:
        counted.append(done)
        if sum(counted) == 2:
            raise KeyboardInterrupt

    counted: list[int] = []
    found, wrong = damage.run(range(5, 10), 1, two)
    assert found.total() == 2 and wrong == []
    assert found == damage.run(range(5, 7), 1, lambda _: None)[0]


@pytest.mark.parametrize("what", [b'"check"', b'"check": "', b'"}\n'])
def test_a_damaged_sum_of_the_meta_data_is_damage(tmp_path: Path, what: bytes) -> None:
    """meta.json has no readable checksum but the logs have, so the message times are ignored."""
    folder = upgrade_folder(healthy(tmp_path / "t"))
    assert mpiprof.open(folder).machine is not None
    path = folder / "meta.json"
    content = path.read_bytes()
    assert content.count(what) == 1
    end = content.index(what) + len(what)
    damage = {b'"check"': b'"chack"', b'"check": "': b'"check": ")', b'"}\n': b'x"}\n'}[what]
    path.write_bytes(content[: end - len(what)] + damage + content[end:])
    trace = mpiprof.open(folder)
    assert any("meta.json is damaged" in problem for problem in trace.problems)
    assert trace.machine is None and trace.ranks > 0


@pytest.mark.parametrize("content", [None, "{torn"])
def test_lost_meta_data_are_reported_with_effect_and_remedy(
    tmp_path: Path, content: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    """The calls are complete, so no verb reports lost calls or a starting job."""
    folder = healthy(tmp_path / "t")
    path = folder / "meta.json"
    path.unlink()
    if content is not None:
        path.write_text(content)
    sentence = trace_sentences.loss_sentence(mpiprof.open(folder))
    assert "program's name" in sentence and "Copy meta.json again" in sentence
    assert "lost calls" not in sentence and "starting" not in sentence
    for verb in ("report", "status"):
        assert main([verb, str(folder)]) == 0
        assert "Copy meta.json again" in " ".join(capsys.readouterr().out.split())


def test_a_damaged_trace_is_not_listed_as_a_run_without_loss(tmp_path: Path) -> None:
    trace = mpiprof.open(write_damaged(tmp_path / "t"))
    assert run_summary.summarise_run(trace).verdict.startswith("Trace is incomplete")
