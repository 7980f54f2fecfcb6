"""Limits of a long job: it must not fill a disk, or write the same data once for every rank."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support import PROGRAMS, raw_trace
from support.compilation import compiled, of_the_core
from support.jobs import run, run_mpi, run_verb
from support.mpis import Mpi
from support.trace_tables import table_rows

import mpiprof

LIMIT = 1 << 20
CALLS = 60000  # records of 32 bytes; nearly twice the limit


def words_for(mpi: Mpi, trace: Path, *options: str) -> list[str | Path]:
    """Return the command line that records a program into a folder."""
    return [str(mpi.python), "-m", "mpiprof", "run", "-o", str(trace), *options]


def test_the_limit_applies_if_the_program_flushes(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: each MPI_Pcontrol(2) writes a whole chunk to the log, within the limit."""
    program = tmp_path / "app.py"
    program.write_text(
        "from mpi4py import MPI\n"
        "for i in range(100):\n    MPI.COMM_WORLD.Barrier()\n    MPI.Pcontrol(2)\n"
    )
    trace = tmp_path / "trace"
    words = [*words_for(openmpi, trace, "--limit", "1M"), program]
    done = run_mpi(openmpi, 2, words, check=True)
    assert done.stderr.count("reached its limit of 1048576 bytes") == 1
    for log in trace.glob("*.log"):  # plus the header, the totals, and the intervals
        assert LIMIT < log.stat().st_size <= LIMIT + 3 * (1 << 16)
    opened = mpiprof.open(trace)
    events, summary = opened.events, opened.summary
    assert (summary["operation"] == "barrier").sum() == 2
    logged = (events["operation"] == "barrier").sum()
    assert logged + summary.loc[summary["operation"] == "barrier", "calls"].sum() == 2 * 100


def test_past_the_limit_calls_are_summed_up(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: calls and bytes of log and totals together equal the program's."""
    program = tmp_path / "app.py"
    program.write_text(
        "from array import array\nfrom mpi4py import MPI\n"
        "x, y = array('i', [1, 2]), array('i', [0, 0])\n"
        "MPI.COMM_WORLD.Barrier()\n"
        f"for i in range({CALLS}): MPI.COMM_SELF.Allreduce(x, y)\n"
        "for i in range(10): MPI.COMM_WORLD.Bcast(x)\n"
        "MPI.COMM_WORLD.Ibarrier().Wait()\n"
    )
    trace = tmp_path / "trace"
    done = run_mpi(mpi, 2, [*words_for(mpi, trace, "--limit", "1M"), program], check=True)
    assert done.stderr.count("reached its limit of 1048576 bytes") == 1
    assert "are missing" not in done.stderr
    for log in trace.glob("*.log"):  # plus header, totals, sums of the Wait, and intervals
        assert LIMIT < log.stat().st_size <= LIMIT + 4 * (1 << 16)
    assert json.loads((trace / "meta.json").read_text())["options"]["limit"] == LIMIT
    opened = mpiprof.open(trace)
    assert sorted(opened.tables.limits.items()) == [(0, LIMIT), (1, LIMIT)]
    assert opened.dropped_records == 0
    assert not opened.is_complete
    assert any("reached its limit" in line for line in opened.problems)
    events, summary = opened.events, opened.summary
    assert set(events["operation"]) == {"barrier", "allreduce"}
    for rank in (0, 1):
        rows = summary[summary["rank"] == rank].to_dict("records")
        calls = {row["operation"]: int(row["calls"]) for row in rows}
        sent = {row["operation"]: int(row["sent"]) for row in rows}
        logged = int(((events["operation"] == "allreduce") & (events["rank"] == rank)).sum())
        assert logged + calls["allreduce"] == CALLS
        assert sent["allreduce"] == 8 * calls["allreduce"]
        assert calls["bcast"] == 10 and calls["ibarrier"] == 1
        assert all(row["total_ns"] > 0 for row in rows)
    report = run_verb("report", "--all", trace)[1]
    assert "Summed up after the logs had reached their limit" in report
    assert "app.py:6" in report
    data = json.loads(run_verb("report", "--json", trace)[1])
    assert {row["operation"]: row["calls"] for row in data["summed_up"]} == {
        "allreduce": int(summary[summary["operation"] == "allreduce"]["calls"].sum()),
        "bcast": 20,
        "ibarrier": 2,
        "finalize": 2,
    }
    assert "reached their limit" in run_verb("status", trace)[1]


def test_past_the_limit_all_calls_are_summed_up(openmpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: one call in 2 is recorded before the limit; after it, all calls are summed up."""
    program = tmp_path / "app.py"
    program.write_text(
        "from array import array\nfrom mpi4py import MPI\n"
        "x, y = array('i', [1, 2]), array('i', [0, 0])\n"
        f"for i in range({CALLS}): MPI.COMM_SELF.Allreduce(x, y)\n"
        "for i in range(1000): MPI.COMM_WORLD.Bcast(x)\n"
    )
    trace = tmp_path / "trace"
    words = words_for(openmpi, trace, "--sample", "2", "--limit", "512K")
    run_mpi(openmpi, 2, [*words, program], check=True)
    opened = mpiprof.open(trace)
    assert sorted(opened.tables.limits) == [0, 1]
    calls = opened.summed_up.set_index("operation")["calls"]
    assert calls["bcast"] == 2 * 1000
    logged = opened.events.groupby("rank").size()
    # Some 16000 records represent twice as many calls; the hash selects them.
    assert calls["allreduce"] / 2 == pytest.approx(CALLS - 2 * logged.mean(), rel=0.05)


IRREGULAR = """
from mpi4py import MPI
world = MPI.COMM_WORLD
order = [1, 0, 3, 2]
whole = world.Create(world.group.Incl(order))
whole.Barrier()
half = world.Split(world.rank % 2, world.rank)
bridge = half.Create_intercomm(0, world, 1 - world.rank % 2)
bridge.Barrier()
"""


def test_irregular_members_are_written_once(mpi: Mpi, tmp_path: Path) -> None:
    """On 4 ranks: lists of members that form no regular run are written once."""
    program = tmp_path / "app.py"
    program.write_text(IRREGULAR)
    trace = tmp_path / "trace"
    words = [*words_for(mpi, trace, "-q"), program]
    run_mpi(mpi, 4, words, check=True, env={"MPIPROF_RUNS": "0"})
    rows = [line for line in raw_trace.read(trace).lines if "how" in line]
    made = {name: [x for x in rows if x["how"] == name] for name in ("create", "intercomm_create")}
    assert sorted((x["rank"], x["members"] == 1) for x in made["create"]) == [
        (0, True),
        (1, False),
        (2, True),
        (3, True),
    ]
    opened = mpiprof.open(trace)
    assert opened.is_complete
    by_how = {c.origin: c for c in opened.tables.communicators}
    assert by_how["create"].ranks.tolist() == [1, 0, 3, 2]
    assert [g.tolist() for g in by_how["intercomm_create"].groups] == [[0, 2], [1, 3]]
    barriers = table_rows(opened.instances)
    assert barriers["complete"].all() and sorted(barriers["size"]) == [4, 4]
    # Without the tables of the writing rank the members are unknown: calls are recorded, not
    # matched.
    (trace / "rank-000001.tables").write_text("")
    left = {c.origin: c for c in mpiprof.open(trace).tables.communicators}
    assert left["create"].is_local


@pytest.mark.parametrize("switch", ["", "allreduce=ring"], ids=["recorded", "forced"])
def test_short_lived_communicators_share_their_rows(switch: str, mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: every instance is present, and freed communicators leave only their records."""
    many = 600
    program = compiled(mpi, "communicators_short_lived.c")
    options = ["-q", *(["--switch", switch] if switch else [])]
    trace = tmp_path / "trace"
    words = words_for(mpi, trace, *options)
    run_mpi(mpi, 2, [*words, "--", program, str(many)], check=True)
    opened = mpiprof.open(trace)
    instances = opened.instances
    assert opened.is_complete and not opened.problems
    assert instances["complete"].all()
    assert instances.groupby("operation").size().to_dict() == {
        "allreduce": many,
        "ibarrier": many // 2,
        "comm_dup": many,
        "comm_split": many // 2,
        "finalize": 1,
    }
    assert not opened.callsites["started"].any()
    rows = [line for line in raw_trace.read(trace).lines if "how" in line and line["rank"] == 0]
    # World and self; 64 duplicates and the live ones; children of the first 64, and of all later
    # ones together.
    assert len(rows) <= 2 + 64 + 2 + 32 + 1


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compile the statistics of a window into a separate program."""
    options = ("-fsanitize=undefined", "-fno-sanitize-recover")
    parts = ("selection/online/arrival", "base/memory")
    return of_the_core(
        tmp_path_factory.mktemp("sums") / "sums",
        parts,
        *options,
        source="selection_window_statistics.c",
    )


@pytest.mark.parametrize(
    ("members", "early", "late"),
    [
        (8, 1000, 5000),
        (10**6, 10**15, 10**15 + 10**9),  # 11 days since MPI_Init, for a million members
        (10**6, 10**18, 10**18 + 9 * 10**12),  # 31 years, with 2.5 hours between the halves
    ],
)
def test_sums_over_all_members_are_exact(members: int, early: int, late: int, sums: Path) -> None:
    """Without MPI: known answers for two halves of the members that arrive at two times."""
    printed = run([sums, str(members), str(early), str(late)], check=True).stdout.split()
    gap = late - early
    assert list(map(int, printed)) == [gap // 2, gap, gap // 2, 0, members // 2 * gap]


def test_sums_cannot_overflow(sums: Path) -> None:
    """Without MPI: a million members a day apart; each adds at most its share."""
    members, gap = 10**6, 86400 * 10**9
    printed = run([sums, str(members), "0", str(gap)], check=True).stdout.split()
    most = (2**63 - 1) // members
    expected = [most, gap, most // 2, 0, members // 2 * most]
    assert list(map(int, printed)) == expected


def test_interrupted_and_short_writes_lose_nothing(mpi: Mpi, tmp_path: Path) -> None:
    """On 2 ranks: the file system makes short writes or fails with EINTR."""
    shim = tmp_path / "shim.so"
    source = PROGRAMS / "tracefile_short_writes.c"
    run(["cc", "-shared", "-fPIC", "-o", shim, source], check=True)
    program = tmp_path / "app.py"
    program.write_text(
        "from mpi4py import MPI\nfor i in range(9000): MPI.COMM_SELF.Barrier()\n"
        "MPI.COMM_WORLD.Barrier()\n"
    )
    words = ["env", f"LD_PRELOAD={shim}", *words_for(mpi, tmp_path / "trace", "-q"), program]
    done = run_mpi(mpi, 2, words, check=True)
    assert "recording stops" not in done.stderr
    opened = mpiprof.open(tmp_path / "trace")
    assert opened.is_complete and not opened.problems
    assert len(table_rows(opened.events)) == 2 * 9001


def test_the_environment_stays_readable(mpi: Mpi, tmp_path: Path) -> None:
    """On 1 rank: with another thread, no environment variable moves in memory.

    Without another thread, the environment is as in the bare program.
    """
    program = compiled(mpi, "init_environment.c", "-pthread")
    words = [*words_for(mpi, tmp_path / "trace", "-q"), "--", program]
    assert run_mpi(mpi, 1, words, check=True).stdout == "moved 0, preloaded \n"
    words = [*words_for(mpi, tmp_path / "other", "-q"), "--", program, "alone"]
    assert run_mpi(mpi, 1, words, check=True).stdout.endswith("preloaded (null)\n")


def test_successive_communicators_use_bounded_memory(mpich: Mpi, tmp_path: Path) -> None:
    """On 1 rank: 140000 successive communicators share table entries, and no call is lost."""
    program = str(compiled(mpich, "communicators_reused_handles.c"))
    ended = run_mpi(
        mpich, 1, [*words_for(mpich, tmp_path / "trace"), "--", program, "140000"], check=True
    )
    assert "more than" not in ended.stderr and "missing" not in ended.stderr
    assert len(raw_trace.read(tmp_path / "trace").of(0)) == 1400


def test_ended_threads_leave_no_requests_on_1_rank(mpi: Mpi, tmp_path: Path) -> None:
    """Each thread receives 64 messages; the entries of their requests serve the next thread."""
    program = str(compiled(mpi, "messages_threads.c", "-pthread"))
    argv = [*words_for(mpi, tmp_path / "trace"), "--", program]
    assert int(run_mpi(mpi, 1, argv, check=True).stdout) < 2000
